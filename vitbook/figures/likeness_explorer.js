// LikenessExplorer: point at a patch of a photo, and what is like it keeps its brightness, there and in other photos.
import { palette } from "./kit/canvas.js";
import { pointable } from "./kit/controls.js";
import { h, question, s, sentence, soft } from "./kit/dom.js";
import { bytes, figure, floats, needBytes, needIndex } from "./kit/figure.js";
import { boxOf, overlay, ringOf, stepToken, tokenAt } from "./kit/grid.js";
import { largest } from "./kit/maps.js";
import { list, placeOf } from "./kit/words.js";

/** Signed bytes (rows × width) as floats, each row divided by its length. */
export function unitRows(values, width) {
  const rows = Float32Array.from(values);
  for (let start = 0; start < rows.length; start += width) {
    const row = rows.subarray(start, start + width);
    const length = Math.hypot(...row) || 1;
    row.forEach((value, i) => (row[i] = value / length));
  }
  return rows;
}

/** The dot products of row n with all rows: cosines, if the rows have length 1. */
export function products(rows, width, n) {
  const one = rows.subarray(n * width, (n + 1) * width);
  return Float32Array.from({ length: rows.length / width }, (_, m) => {
    let sum = 0;
    for (let d = 0; d < width; d++) sum += one[d] * rows[m * width + d];
    return sum;
  });
}

/** How bright a patch is shown, from 0 to 1. */
export function brightness(cosine, [low, high]) {
  return Math.min(Math.max((cosine - low) / (high - low), 0), 1);
}

/** Draw a photo (3, S, S), each patch as bright as `bright` says, and `faint` at least; what is missing is paper. */
function drawFaded(canvas, pixels, side, bright, grid, paper, faint) {
  Object.assign(canvas, { width: side, height: side });
  const image = new ImageData(side, side);
  for (let i = 0; i < side * side; i++) {
    const row = Math.floor((Math.floor(i / side) * grid) / side);
    const lit = bright[row * grid + Math.floor(((i % side) * grid) / side)];
    const part = faint + (1 - faint) * lit;
    for (let c = 0; c < 3; c++)
      image.data[4 * i + c] = paper[c] + part * (pixels[c * side * side + i] - paper[c]);
    image.data[4 * i + 3] = 255;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/** Read the traits; throw an error with words for people unless they fit together. */
function readPhotos(model) {
  const [names, grid, fade] = ["names", "grid", "fade"].map((name) => model.get(name));
  const N = grid ** 2;
  const side = Math.sqrt(bytes(model.get("pixels")).length / names.length / 3);
  const pixels = needBytes(model.get("pixels"), "pixels", names.length * 3 * side ** 2);
  const photos = names.map((_, p) => pixels.subarray(p * 3 * side ** 2, (p + 1) * 3 * side ** 2));
  if (!Number.isInteger(side)) throw Error(`its ${names.length} photos are not whole`);
  return { names, grid, fade, N, side, photos, cosinesOf: reader(model, names.length, N) };
}

/** The cosines of a patch (by its number among those of all photos) with all; null while the page has not brought them. */
function reader(model, photos, N) {
  const [first, start] = [floats(model.get("first")), numberOf(model, N)];
  let rows = null;
  let width = 0;
  return (n) => {
    if (first.length && n === start) return first;
    if (model.get("tokens") === undefined) return null;
    const stored = bytes(model.get("tokens"));
    width = stored.length / photos / N;
    if (!(Number.isInteger(width) && width > 0))
      throw Error(`its ${photos} photos of ${N} patches each are not whole`);
    rows ??= unitRows(new Int8Array(stored.slice().buffer), width);
    return products(rows, width, n);
  };
}

const numberOf = (model, N) => model.get("photo") * N + model.get("patch");

function build({ model, root, put }) {
  const { names, grid, fade, N, side, photos, cosinesOf } = readPhotos(model);
  let now = [0, 0]; // two keys may come before the next drawing
  const choose = (photo, patch) => {
    now = [photo, patch];
    put({ photo, patch });
  };
  const cards = names.map((name, p) => {
    const { node, canvas, svg } = overlay("vf-photo");
    const patchOf = () => (now[0] === p ? now[1] : Math.floor((N + grid) / 2));
    pointable(
      svg,
      (x, y) => choose(p, tokenAt(x, y, [grid, grid], 0, 0)),
      (dx, dy) => choose(p, stepToken(patchOf(), dx, dy, [grid, grid], 0)),
    );
    return { node: h("div", {}, node, soft(name)), canvas, svg };
  });
  const says = sentence();
  root.append(
    question("Which patches are like this one?"),
    soft("Point at a patch, or focus a photo and use the arrow keys."),
    h("div", { className: "vf-like" }, ...cards.map(({ node }) => node)),
    says,
  );
  const box = (patch) =>
    boxOf((patch % grid) / grid, Math.floor(patch / grid) / grid, 1 / grid, 1 / grid);

  return function draw() {
    const photo = needIndex(model.get("photo"), "photo", names.length);
    const patch = needIndex(model.get("patch"), "patch", N);
    now = [photo, patch];
    const cosines = cosinesOf(photo * N + patch);
    if (!cosines) return;
    const [paper] = palette(root);
    const found = cards.map(({ canvas, svg }, p) => {
      const mine = cosines.subarray(p * N, (p + 1) * N);
      const bright = Array.from(mine, (cosine) => brightness(cosine, fade));
      drawFaded(canvas, photos[p], side, bright, grid, paper, fade[2]);
      const best = largest(mine, p === photo ? patch : -1);
      const shown = bright.filter((part) => part > 0.5).length;
      const marks =
        p === photo
          ? ringOf(box(patch), patch)
          : [s("rect", { ...box(best), class: "vf-best", "data-best": best })];
      svg.replaceChildren(...marks);
      svg.setAttribute(
        "aria-label",
        `${names[p]}: ${shown} of ${N} patches are like the chosen one. Arrow keys choose a patch here.`,
      );
      return `${names[p]}: ${placeOf(best, grid)} (${mine[best].toFixed(2)})`;
    });
    const others = found.filter((_, p) => p !== photo);
    says.textContent =
      `Chosen: ${placeOf(patch, grid)} of ${names[photo]}. Most like it by the cosine of their tokens, ` +
      `in a dashed box: ${list(others)}.`;
  };
}

export default figure(build);
