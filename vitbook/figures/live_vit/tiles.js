// The patches as tiles that move over the figure: from their places in the image to new ones, or to the tokens' seats.
import { paint } from "../kit/canvas.js";
import { h } from "../kit/dom.js";

/** A layer over a part of the figure, with a tile for each patch: node; cut(now) gives them pixels; place(patch, box). */
export function tileLayer({ channels, height, width, ph, pw, rows, cols, N }) {
  const whole = h("canvas");
  const tiles = Array.from({ length: N }, () => h("canvas", { width: pw, height: ph }));
  const node = h("div", { className: "lv-tiles", hidden: true, ariaHidden: "true" }, ...tiles);

  /** Where each patch is in the image: row by row. */
  const corner = (patch) => [(patch % cols) * pw, Math.floor(patch / cols) * ph];

  /** Draw a patch, which is of one colour where it is hidden. */
  function drawPatch(canvas, patch, hidden, grey) {
    const brush = canvas.getContext("2d");
    brush.drawImage(whole, ...corner(patch), pw, ph, 0, 0, canvas.width, canvas.height);
    if (!hidden.includes(patch)) return;
    brush.fillStyle = grey;
    brush.fillRect(0, 0, canvas.width, canvas.height);
  }

  function cut({ pixels, hidden }, grey) {
    paint(pixels, [channels, height, width], whole);
    tiles.forEach((tile, patch) => drawPatch(tile, patch, hidden, grey));
  }

  /** Put a tile on a box [x, y, width, height] of the layer, in pixels of the screen. */
  function place(patch, [x, y, wide, high]) {
    const style = `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px) scale(${wide / pw}, ${high / ph})`;
    tiles[patch].style.transform = style;
  }
  const show = (patch, seen) => (tiles[patch].hidden = !seen);
  return { node, cut, place, show, drawPatch, shape: [rows, cols] };
}

/** The box of an element in the layer. */
export function boxIn(layer, element) {
  const [from, box] = [layer.parentElement, element].map((one) => one.getBoundingClientRect());
  return [box.left - from.left, box.top - from.top, box.width, box.height];
}

/** The box of place n of a grid of rows × cols over a box, `size` of its cell. */
export function cellOf([left, top, width, height], n, [rows, cols], size = 1) {
  const [wide, high] = [width / cols, height / rows];
  const [x, y] = [left + (n % cols) * wide, top + Math.floor(n / cols) * high];
  const edge = (1 - size) / 2;
  return [x + edge * wide, y + edge * high, size * wide, size * high];
}

/** A box on the way from one to another. */
export const boxBetween = (from, to, share) => from.map((side, i) => side + share * (to[i] - side));
