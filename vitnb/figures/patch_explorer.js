// PatchExplorer: from a pixel to its patch, its token and its place in the vector, beside a cut by reshape alone.
import { color, drawing, pad, picture } from "./kit/canvas.js";
import { choice, slider } from "./kit/controls.js";
import { h, sentence } from "./kit/dom.js";
import { bytes, figure, needBytes } from "./kit/figure.js";
import { list, number, whole } from "./kit/words.js";

/** The patch sides that divide both sides of a picture, up to half the shorter one. */
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

/** The picture that one sees if the tokens of reshape alone are taken for patches. */
export function scrambled(pixels, shape, p) {
  const [C, H, W] = shape;
  const result = new Uint8Array(pixels.length);
  for (let i = 0; i < pixels.length; i++) {
    const { c, row, column } = pixelOf(shape, p, Math.floor(i / (C * p * p)), i % (C * p * p));
    result[(c * H + row) * W + column] = pixels[i];
  }
  return result;
}

/** Operations of one block: of the layers that treat each token alone, and of comparing tokens. */
export function cost(tokens, width) {
  return { alone: 24 * tokens * width ** 2, compare: 4 * tokens ** 2 * width };
}

/** Throw an error with words for people unless the stored state fits together. */
function check(shapes, pixels, shape, sides, p) {
  needBytes(
    pixels,
    "pictures",
    shapes.reduce((sum, [C, H, W]) => sum + C * H * W, 0),
  );
  if (!shape) throw Error(`there is no such picture; there are ${shapes.length}`);
  if (!sides.includes(p))
    throw Error(
      `patches of ${p} do not divide ${shape[1]} × ${shape[2]} pixels; ${list(sides)} do`,
    );
}

/** One of the two columns: the whole picture, the token as a square, the token as a vector. */
function makeColumn(title, canvas) {
  const square = drawing(240, 240);
  const strip = drawing(640, 64);
  const caption = h("p", { className: "vf-soft vf-number" });
  const token = h("div", { className: "vf-token" }, square, h("div", {}, strip, caption));
  return {
    node: h("div", {}, h("p", { className: "vf-head" }, title), canvas, token),
    canvas,
    square,
    strip,
    caption,
  };
}

function build({ model, root, put }) {
  const names = model.get("names");
  const shapes = model.get("shapes");
  const all = bytes(model.get("pixels"));
  const state = () => {
    const index = model.get("picture");
    const shape = shapes[index];
    const sides = shape ? patchSides(shape[1], shape[2]) : [];
    const p = model.get("patch_size");
    check(shapes, all, shape, sides, p);
    const start = shapes.slice(0, index).reduce((sum, [C, H, W]) => sum + C * H * W, 0);
    const pixels = all.subarray(start, start + shape[0] * shape[1] * shape[2]);
    const row = Math.min(Math.max(model.get("row"), 0), shape[1] - 1);
    const column = Math.min(Math.max(model.get("column"), 0), shape[2] - 1);
    return { index, shape, sides, p, pixels, row, column };
  };

  const pick = (index) => {
    const [, H, W] = shapes[index];
    const sides = patchSides(H, W);
    const old = model.get("patch_size");
    const near = sides.reduce((best, p) => (Math.abs(p - old) < Math.abs(best - old) ? p : best));
    put({
      picture: index,
      patch_size: near,
      row: Math.floor(0.4 * H),
      column: Math.floor(0.56 * W),
    });
  };
  const pictures = choice("Picture:", names, pick);
  const size = slider("Patch size", (p) => put({ patch_size: p }));
  const point = (x, y) => {
    const [, H, W] = shapes[model.get("picture")];
    put({ row: Math.floor(y * H), column: Math.floor(x * W) });
  };
  const step = (dx, dy, event) => {
    const { shape, p, row, column } = state();
    const far = event.shiftKey ? p : 1;
    put({
      row: Math.min(Math.max(row + dy * far, 0), shape[1] - 1),
      column: Math.min(Math.max(column + dx * far, 0), shape[2] - 1),
    });
  };
  const right = makeColumn("Cut right", pad(640, 640, point, step));
  const wrong = makeColumn("Cut by reshape", drawing(640, 640));
  const says = sentence();
  const formula = h("p", { className: "vf-soft vf-number" });
  const counts = h("dl");
  const hint = h(
    "p",
    { className: "vf-soft" },
    "Point at a pixel of the left picture, or focus it and use the arrow keys; Shift jumps a patch.",
  );
  root.append(
    h("div", { className: "vf-controls" }, pictures.node, size.node),
    h("div", { className: "vf-side-by-side" }, right.node, wrong.node),
    hint,
    says,
    formula,
    counts,
  );

  return function draw() {
    const { index, shape, sides, p, pixels, row, column } = state();
    const [C, H, W] = shape;
    const channels = Array.from({ length: C }, (_, c) => c);
    const places = channels.map((c) => cutRight(shape, p, c, row, column));
    const torn = channels.map((c) => cutByReshape(shape, p, c, row, column));
    const n = places[0].token;
    const tokens = (H / p) * (W / p);
    const length = C * p * p;

    pictures.show(index);
    size.show(sides, p, `${p} × ${p} pixels, ${whole(tokens)} tokens`);
    drawColumn(root, right, pixels, shape, p, n, [{ row, column }], places);
    const landed = torn.map(({ token, place }) => pixelOf(shape, p, token, place));
    drawColumn(root, wrong, scrambled(pixels, shape, p), shape, p, n, landed, torn);

    const where = `row ${row}, column ${column}`;
    const found = list(places.map(({ place }) => whole(place)));
    const colours =
      C === 3
        ? `red, green and blue land in tokens ${list(torn.map(({ token }) => whole(token)))}`
        : "";
    const gray =
      C === 1
        ? `value lands in token ${whole(torn[0].token)}, at place ${whole(torn[0].place)}`
        : "";
    says.textContent =
      `The pixel in ${where} belongs to token ${whole(n)} of 0 to ${whole(tokens - 1)}, ` +
      `at ${C === 1 ? "place" : "places"} ${found} of its ${whole(length)} numbers. ` +
      `With reshape alone its ${colours}${gray}.`;
    const [r, k] = [Math.floor(row / p), Math.floor(column / p)];
    formula.textContent =
      `token = ⌊${row} / ${p}⌋ · ${W / p} + ⌊${column} / ${p}⌋ = ${r} · ${W / p} + ${k} = ${n};  ` +
      `place = ${C === 3 ? `c · ${p}² + ` : ""}${row % p} · ${p} + ${column % p}`;
    const { alone, compare } = cost(tokens, model.get("width"));
    const share = ((100 * compare) / (alone + compare)).toFixed(1);
    const facts = [
      ["tokens, N", whole(tokens)],
      ["numbers in each, C\u00a0·\u00a0p²", whole(length)],
      ["each token alone, 24\u00a0N\u00a0D²", `${number(alone / 1e9)} GFLOP`],
      ["tokens compared, 4\u00a0N²\u00a0D", `${number(compare / 1e9)} GFLOP (${share}\u00a0%)`],
    ];
    counts.replaceChildren(
      ...facts.map(([term, fact]) => h("div", {}, h("dt", {}, term), h("dd", {}, fact))),
    );

    const cut = `${H / p} rows of ${W / p} patches`;
    right.canvas.setAttribute(
      "aria-label",
      `${names[index]}, cut into ${cut}. Arrow keys choose a pixel: ${where}.`,
    );
    wrong.canvas.setAttribute(
      "aria-label",
      `The same tokens cut by reshape alone, drawn as ${cut}: stripes.`,
    );
    right.square.setAttribute("aria-label", `Token ${n} as a square: a piece of the picture`);
    wrong.square.setAttribute("aria-label", `Token ${n} of reshape alone as a square: stripes`);
    right.strip.setAttribute(
      "aria-label",
      `Token ${n} as a vector of ${length} numbers, the pixel's places marked`,
    );
    wrong.strip.setAttribute(
      "aria-label",
      `Token ${n} of reshape alone as a vector of ${length} numbers`,
    );
    for (const { caption } of [right, wrong]) caption.textContent = `token ${whole(n)}`;
  };
}

/** Draw a picture with its grid, token n as a square and as a vector; marks are pixels, places their tokens and places. */
function drawColumn(root, { canvas, square, strip }, pixels, shape, p, n, marks, places) {
  const [, H, W] = shape;
  const zoom = Math.max(1, Math.round(640 / Math.max(H, W)));
  const image = picture(pixels, shape);
  const [left, top] = [(n % (W / p)) * p, Math.floor(n / (W / p)) * p];
  const mark = color(root, "mark");

  Object.assign(canvas, { width: W * zoom, height: H * zoom });
  const pen = canvas.getContext("2d");
  pen.imageSmoothingEnabled = false;
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  if (p * zoom >= 12) drawGrid(pen, W, H, p, zoom);
  outline(pen, left * zoom, top * zoom, p * zoom, mark);
  marks.forEach(({ row, column }, c) => {
    const fill = marks.length === 1 ? mark : ["#ff4040", "#20d060", "#4080ff"][c];
    dot(pen, (column + 0.5) * zoom, (row + 0.5) * zoom, 9, fill);
  });

  const tile = square.getContext("2d");
  tile.imageSmoothingEnabled = false;
  tile.drawImage(image, left, top, p, p, 0, 0, square.width, square.height);
  const unit = square.width / p;
  for (const { row, column } of marks) {
    const inside = row >= top && row < top + p && column >= left && column < left + p;
    if (inside) dot(tile, (column - left + 0.5) * unit, (row - top + 0.5) * unit, 12, mark);
  }
  drawVector(root, strip, pixels, shape, p, n, places);
}

function drawGrid(pen, W, H, p, zoom) {
  pen.strokeStyle = "rgb(255 255 255 / 0.75)";
  pen.lineWidth = 2;
  pen.beginPath();
  for (let x = p; x < W; x += p) {
    pen.moveTo(x * zoom, 0);
    pen.lineTo(x * zoom, H * zoom);
  }
  for (let y = p; y < H; y += p) {
    pen.moveTo(0, y * zoom);
    pen.lineTo(W * zoom, y * zoom);
  }
  pen.stroke();
}

function outline(pen, x, y, side, mark) {
  for (const [style, width] of [
    ["#ffffff", 10],
    [mark, 6],
  ]) {
    Object.assign(pen, { strokeStyle: style, lineWidth: width });
    pen.strokeRect(x, y, side, side);
  }
}

function dot(pen, x, y, radius, fill) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  Object.assign(pen, { fillStyle: fill, strokeStyle: "#ffffff", lineWidth: 4 });
  pen.fill();
  pen.stroke();
}

/** The numbers of token n in a row, each channel in its colour; ticks show the places that the pixel takes in it. */
function drawVector(root, strip, pixels, shape, p, n, places) {
  const [C, H, W] = shape;
  const length = C * p * p;
  const line = new ImageData(length, 1);
  for (let place = 0; place < length; place++) {
    const { c, row, column } = pixelOf(shape, p, n, place);
    const value = pixels[(c * H + row) * W + column];
    for (let k = 0; k < 3; k++) line.data[4 * place + k] = C === 1 || k === c ? value : 0;
    line.data[4 * place + 3] = 255;
  }
  const source = h("canvas", { width: length, height: 1 });
  source.getContext("2d").putImageData(line, 0, 0);
  const pen = strip.getContext("2d");
  pen.clearRect(0, 0, strip.width, strip.height);
  pen.imageSmoothingEnabled = length > strip.width;
  pen.drawImage(source, 0, 0, length, 1, 0, 8, strip.width, 48);
  for (const { token, place } of places) {
    if (token !== n) continue;
    const x = ((place + 0.5) / length) * strip.width;
    for (const [fill, width] of [
      ["#ffffff", 10],
      [color(root, "mark"), 6],
    ]) {
      pen.fillStyle = fill;
      pen.fillRect(x - width / 2, 0, width, strip.height);
    }
  }
}

export default figure(build);
