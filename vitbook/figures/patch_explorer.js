// PatchExplorer: from a pixel to its patch and its place in the vector, beside a cut by reshape alone.
import { paint } from "./kit/canvas.js";
import { choice, pointable, slider } from "./kit/controls.js";
import { controls, facts, h, heading, question, s, sentence, soft } from "./kit/dom.js";
import { figure, needBytes } from "./kit/figure.js";
import { boxOf, clamp, overlay, per, ringOf } from "./kit/grid.js";
import { list, whole } from "./kit/words.js";

/** The patch sides that divide both sides of an image, up to half the shorter one. */
export function patchSides(height, width) {
  const most = Math.min(height, width) / 2;
  return Array.from({ length: most }, (_, i) => i + 1).filter(
    (p) => height % p === 0 && width % p === 0,
  );
}

/** Where patchify puts channel c of a pixel: which token, which place in its vector. */
export function cutRight([, , W], p, c, row, column) {
  const token = Math.floor(row / p) * (W / p) + Math.floor(column / p);
  return { token, place: c * p * p + (row % p) * p + (column % p) };
}

/** Where reshape alone puts it: the numbers are dealt out in the order in which they are stored. */
export function cutByReshape([C, H, W], p, c, row, column) {
  const index = (c * H + row) * W + column;
  return { token: Math.floor(index / (C * p * p)), place: index % (C * p * p) };
}

/** The inverse of cutRight: which channel and pixel a place of a token is. */
export function pixelOf([, , W], p, token, place) {
  const cell = place % (p * p);
  const row = Math.floor(token / (W / p)) * p + Math.floor(cell / p);
  return { c: Math.floor(place / (p * p)), row, column: (token % (W / p)) * p + (cell % p) };
}

/** The image that one sees if the pieces of reshape alone are taken for patches. */
export function scrambled(pixels, shape, p) {
  const [C, H, W] = shape;
  const result = new Uint8Array(pixels.length);
  for (let i = 0; i < pixels.length; i++) {
    const { c, row, column } = pixelOf(shape, p, Math.floor(i / (C * p * p)), i % (C * p * p));
    result[(c * H + row) * W + column] = pixels[i];
  }
  return result;
}

const WIDEST = 640; // pixels for the numbers of a token
const LEAST = 5; // around a patch of fewer pixels on the screen there is no room for lines

/** One of the two columns: the whole image, the token as a square, the token as a vector, each with marks over it. */
function makeColumn(title) {
  const [image, square, strip] = ["vf-cut", "vf-square", "vf-strip"].map(overlay);
  const caption = soft();
  const token = h("div", { className: "vf-token" }, square.node, h("div", {}, strip.node, caption));
  return { node: h("div", {}, heading(title), image.node, token), image, square, strip, caption };
}

function build({ model, root, put }) {
  const [names, shapes] = [model.get("names"), model.get("shapes")];
  const sizes = shapes.map(([C, H, W]) => C * H * W);
  const before = (index) => sizes.slice(0, index).reduce((sum, size) => sum + size, 0);
  const all = needBytes(model.get("pixels"), "images", before(shapes.length));
  const state = () => {
    const [index, p] = [model.get("image"), model.get("patch_size")];
    const shape = shapes[index];
    if (!shape) throw Error(`there is no such image; there are ${shapes.length}`);
    const [, H, W] = shape;
    const sides = patchSides(H, W);
    if (!sides.includes(p))
      throw Error(`patches of ${p} do not divide ${H} × ${W} pixels; ${list(sides)} do`);
    const pixels = all.subarray(before(index), before(index + 1));
    const [row, column] = [clamp(model.get("row"), H), clamp(model.get("column"), W)];
    return { index, shape, sides, p, pixels, row, column };
  };

  const pick = (index) => {
    const [, H, W] = shapes[index];
    const old = model.get("patch_size");
    const near = patchSides(H, W).reduce((best, p) =>
      Math.abs(p - old) < Math.abs(best - old) ? p : best,
    );
    const [row, column] = [Math.floor(0.4 * H), Math.floor(0.56 * W)];
    put({ image: index, patch_size: near, row, column });
  };
  const images = choice("Image:", names, pick);
  const size = slider("Patch size", (p) => put({ patch_size: p }));
  const [right, wrong] = [makeColumn("Cut into patches"), makeColumn("Cut by reshape alone")];
  pointable(
    right.image.svg,
    (x, y) => {
      const [, H, W] = shapes[model.get("image")];
      put({ row: Math.floor(y * H), column: Math.floor(x * W) });
    },
    (dx, dy, event) => {
      const { shape, p, row, column } = state();
      const far = event.shiftKey ? p : 1;
      put({ row: clamp(row + dy * far, shape[1]), column: clamp(column + dx * far, shape[2]) });
    },
  );
  const [says, formula, counts] = [sentence(), soft(), facts()];
  root.append(
    question("Which patch does a pixel belong to? Point at one."),
    controls(images.node, size.node),
    h("div", { className: "vf-side-by-side" }, right.node, wrong.node),
    soft(
      "Point at a pixel of the left image, or focus it and use the arrow keys; with Shift they move by a whole patch.",
    ),
    says,
    formula,
    counts.node,
  );

  return function draw() {
    const { index, shape, sides, p, pixels, row, column } = state();
    const [C, H, W] = shape;
    const channels = Array.from({ length: C }, (_, c) => c);
    const places = channels.map((c) => cutRight(shape, p, c, row, column));
    const torn = channels.map((c) => cutByReshape(shape, p, c, row, column));
    const n = places[0].token;
    const [high, wide] = [H / p, W / p];
    const tokens = high * wide;
    const length = C * p * p;

    images.show(index);
    size.show(sides, p, `${p} × ${p} pixels, ${whole(tokens)} tokens`);
    const landed = torn.map(({ token, place }) => pixelOf(shape, p, token, place));
    const where = `row ${row}, column ${column}`;
    const cut = `${high} rows of ${wide} patches`;
    drawColumn(right, pixels, shape, p, n, [{ row, column }], places, [
      `${names[index]}, cut into ${cut}. Arrow keys choose a pixel: ${where}.`,
      `Patch ${n} as a square: a piece of the image`,
      `Patch ${n} as a vector of ${length} numbers, the pixel's places marked`,
    ]);
    drawColumn(wrong, scrambled(pixels, shape, p), shape, p, n, landed, torn, [
      `The same image cut by reshape alone, drawn as ${cut}: stripes.`,
      `Patch ${n} of reshape alone as a square: stripes`,
      `Patch ${n} of reshape alone as a vector of ${length} numbers`,
    ]);

    const found = list(places.map(({ place }) => whole(place)));
    const others =
      C === 3
        ? `red, green and blue land in patches ${list(torn.map(({ token }) => whole(token)))}`
        : `value lands in patch ${whole(torn[0].token)}, at place ${whole(torn[0].place)}`;
    says.textContent =
      `The pixel in ${where} belongs to patch ${whole(n)} of 0 to ${whole(tokens - 1)}, ` +
      `at ${C === 1 ? "place" : "places"} ${found} of its ${whole(length)} numbers. ` +
      `With reshape alone its ${others}.`;
    const [r, k] = [Math.floor(row / p), Math.floor(column / p)];
    formula.textContent =
      `patch = ⌊${row} / ${p}⌋ · ${wide} + ⌊${column} / ${p}⌋ = ${r} · ${wide} + ${k} = ${n};  ` +
      `place = ${C === 3 ? `c · ${p}² + ` : ""}${row % p} · ${p} + ${column % p}`;
    counts.show([
      ["tokens, N", whole(tokens)],
      ["numbers in each patch, C\u00a0·\u00a0p²", whole(length)],
      ["pairs of tokens, N²", whole(tokens ** 2)],
    ]);
  };
}

/** The lines between stripes, one fewer than stripes: "x" lies beside "x", "y" below "y". */
function linesOf(stripes, along, across) {
  return Array.from({ length: stripes - 1 }, (_, i) => {
    const place = per((i + 1) / stripes);
    const ends = { [`${across}1`]: 0, [`${across}2`]: "100%" };
    return s("line", { [`${along}1`]: place, [`${along}2`]: place, ...ends });
  });
}

/** Draw an image with its grid, token n as a square and as a vector; marks are pixels, places their tokens and places. */
function drawColumn({ image, square, strip, caption }, pixels, shape, p, n, marks, places, labels) {
  const [C, H, W] = shape;
  const [left, top] = [(n % (W / p)) * p, Math.floor(n / (W / p)) * p];
  const dot = (x, y, channel) =>
    s("circle", { cx: per(x), cy: per(y), r: 4, class: "vf-dot", "data-channel": channel });
  paint(pixels, shape, image.canvas);
  image.node.style.setProperty("--vf-ratio", W / H);
  const roomy = (image.svg.clientWidth * p) / W >= LEAST;
  image.svg.replaceChildren(
    ...(roomy ? [...linesOf(W / p, "x", "y"), ...linesOf(H / p, "y", "x")] : []),
    ...ringOf(boxOf(left / W, top / H, p / W, p / H), n),
    ...marks.map(({ row, column }, c) =>
      dot((column + 0.5) / W, (row + 0.5) / H, marks.length > 1 ? c : undefined),
    ),
  );

  Object.assign(square.canvas, { width: p, height: p });
  square.canvas.getContext("2d").drawImage(image.canvas, -left, -top);
  const inside = marks
    .map(({ row, column }) => [(column - left + 0.5) / p, (row - top + 0.5) / p])
    .filter((place) => place.every((share) => share > 0 && share < 1));
  square.svg.replaceChildren(...inside.map(([x, y]) => dot(x, y)));

  drawVector(strip.canvas, pixels, shape, p, n);
  const tick = ({ place }) => {
    const x = per((place + 0.5) / (C * p * p));
    return ringOf({ x1: x, x2: x, y1: "-20%", y2: "120%" }, place, "line");
  };
  strip.svg.replaceChildren(...places.filter(({ token }) => token === n).flatMap(tick));
  caption.textContent = `token ${whole(n)}`;
  [image, square, strip].forEach(({ svg }, i) => svg.setAttribute("aria-label", labels[i]));
}

/** The numbers of token n in a row, each channel in its colour. */
function drawVector(canvas, pixels, shape, p, n) {
  const [C, H, W] = shape;
  const length = C * p * p;
  const line = new Uint8Array(3 * length);
  for (let place = 0; place < length; place++) {
    const { c, row, column } = pixelOf(shape, p, n, place);
    const value = pixels[(c * H + row) * W + column];
    for (const k of C === 1 ? [0, 1, 2] : [c]) line[k * length + place] = value;
  }
  Object.assign(canvas, { width: WIDEST, height: 1 });
  const pen = canvas.getContext("2d");
  pen.imageSmoothingEnabled = length > WIDEST;
  pen.drawImage(paint(line, [3, 1, length]), 0, 0, WIDEST, 1);
}

export default figure(build);
