// Pixels: pictures, and matrices too large for elements. All else is drawn in SVG (axes.js, grid.js).
import { pointable } from "./controls.js";
import { h } from "./dom.js";

/** Put bytes that are (C, H, W) flattened, C being 1 or 3, on a canvas, which becomes W × H pixels large. */
export function picture(pixels, [C, H, W], canvas = h("canvas")) {
  Object.assign(canvas, { width: W, height: H });
  const image = new ImageData(W, H);
  for (let i = 0; i < H * W; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = pixels[(C === 3 ? c : 0) * H * W + i];
    image.data[4 * i + 3] = 255;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** Of bytes that are (C, H, W) flattened, cut into rows × cols patches: the picture whose place n shows patch order[n]. */
export function inOrder(pixels, [, H, W], [rows, cols], order) {
  const [ph, pw] = [H / rows, W / cols];
  return Uint8Array.from(pixels, (_, i) => {
    const [y, x] = [Math.floor(i / W) % H, i % W];
    const patch = order[Math.floor(y / ph) * cols + Math.floor(x / pw)];
    const [top, left] = [Math.floor(patch / cols) * ph, (patch % cols) * pw];
    return pixels[i + (top + (y % ph) - y) * W + left + (x % pw) - x];
  });
}

/** A canvas that is a picture with a text: it takes no focus. */
export function drawing(width, height) {
  return h("canvas", { width, height, role: "img" });
}

/** A canvas on which one picks a place: pointable. */
export function pad(width, height, onpoint, onstep) {
  return pointable(h("canvas", { width, height }), onpoint, onstep);
}

/** A colour of kit.css as the page has it now, light or dark: color(root, "mark"). SVG needs none of this. */
export function color(root, name) {
  const probe = root.appendChild(h("span", { hidden: true }));
  probe.style.color = `var(--vf-${name})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** The same as numbers from 0 to 255: [red, green, blue]. */
export function rgb(root, name) {
  return color(root, name)
    .match(/[\d.]+/g)
    .slice(0, 3)
    .map(Number);
}

const HIGH = 12; // pixels on the screen that letters in a canvas are high

/** How many pixels of a canvas are one pixel of the screen. */
export function zoomOf(canvas) {
  return canvas.width / (canvas.clientWidth || 320);
}

/** Make ready to write on a canvas, centred, in letters of one size whatever the width of the screen. */
export function letters(pen, canvas, weight = 400) {
  Object.assign(pen, { textAlign: "center", textBaseline: "middle" });
  pen.font = `${weight} ${HIGH * zoomOf(canvas)}px system-ui, sans-serif`;
}

/** White words with a dark edge, to be read on any picture. */
export function write(pen, text, x, y, zoom) {
  const dark = "rgb(0 0 0 / 0.75)";
  Object.assign(pen, { lineWidth: 3.5 * zoom, strokeStyle: dark, lineJoin: "round" });
  pen.strokeText(text, x, y);
  pen.fillStyle = "#ffffff";
  pen.fillText(text, x, y);
}

/** Mark a box. */
export function ring(pen, x, y, width, height, zoom, mark) {
  for (const [style, thick] of [
    ["#ffffff", 5 * zoom],
    [mark, 3 * zoom],
  ]) {
    Object.assign(pen, { strokeStyle: style, lineWidth: thick });
    pen.strokeRect(x, y, width, height);
  }
}
