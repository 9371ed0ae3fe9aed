// Pixels: images, and matrices too large for elements. All else is drawn in SVG (axes.js, grid.js).
import { h } from "./dom.js";

/** Put bytes that are (C, H, W) flattened, C being 1 or 3, on a canvas, which becomes W × H pixels large. */
export function paint(pixels, [C, H, W], canvas = h("canvas")) {
  Object.assign(canvas, { width: W, height: H });
  const image = new ImageData(W, H);
  for (let i = 0; i < H * W; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = pixels[(C === 3 ? c : 0) * H * W + i];
    image.data[4 * i + 3] = 255;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** Of bytes that are (C, H, W) flattened, cut into rows × cols patches: the image whose place n shows patch order[n]. */
export function inOrder(pixels, [, H, W], [rows, cols], order) {
  const [ph, pw] = [H / rows, W / cols];
  return Uint8Array.from(pixels, (_, i) => {
    const [y, x] = [Math.floor(i / W) % H, i % W];
    const patch = order[Math.floor(y / ph) * cols + Math.floor(x / pw)];
    const [top, left] = [Math.floor(patch / cols) * ph, (patch % cols) * pw];
    return pixels[i + (top + (y % ph) - y) * W + left + (x % pw) - x];
  });
}

/** A colour of kit.css as the page has it now, light or dark: color(root, "mark"). SVG needs none of this. */
export function color(root, name) {
  const probe = root.appendChild(h("span", { hidden: true }));
  probe.style.color = `var(--vf-${name})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** The colours of shades as they are now: of 0, 1 and -1, each [red, green, blue]. */
export function palette(root) {
  const numbers = (name) => color(root, name).match(/[\d.]+/g);
  return ["paper", "blue", "mark"].map((name) => numbers(name).slice(0, 3).map(Number));
}

/** Draw numbers from -1 to 1 (what lies beyond counts as these) as shades, rows × cols pixels of a canvas. */
export function shades(canvas, values, [rows, cols], [zero, plus, minus]) {
  Object.assign(canvas, { width: cols, height: rows });
  const image = new ImageData(cols, rows);
  values.forEach((value, i) => {
    const [end, part] = [value < 0 ? minus : plus, Math.min(Math.abs(value), 1)];
    image.data.set([...zero.map((from, c) => from + (end[c] - from) * part), 255], 4 * i);
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
}
