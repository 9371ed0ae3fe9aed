// A grid of patches, alone or over an image: shades, words, a ring, and a choice by pointer or arrow keys.
import { pointable } from "./controls.js";
import { h, s } from "./dom.js";

const NARROWEST = 28; // a cell of fewer pixels on the screen has no room for a word

/** The place of `count` that is nearest to a whole number. */
export const clamp = (value, count) => Math.min(Math.max(value, 0), count - 1);

/** The token after a step of an arrow key: cls lies above the first row of patches. */
export function stepToken(token, dx, dy, [rows, cols], prefix) {
  if (token < prefix) return dy > 0 ? prefix : token;
  const n = token - prefix;
  const [row, col] = [Math.floor(n / cols) + dy, (n % cols) + dx];
  if (row < 0 && prefix) return 0;
  return prefix + clamp(row, rows) * cols + clamp(col, cols);
}

/** The token at a place of the image, in shares of the drawing, of which the top is a strip for cls. */
export function tokenAt(x, y, [rows, cols], prefix, strip) {
  if (prefix && y < strip) return 0;
  const row = Math.floor(((y - strip) / (1 - strip)) * rows);
  return prefix + row * cols + Math.floor(x * cols);
}

/** A share of the drawing, as SVG has it. */
export const per = (share) => `${100 * share}%`;

/** Attributes of a box in an SVG, its places being shares of the drawing. */
export function boxOf(x, y, width, height) {
  return { x: per(x), y: per(y), width: per(width), height: per(height) };
}

/** The mark around a box, or along a line; over an image it has a white edge. */
export function ringOf(place, chosen, tag = "rect") {
  const ring = (name) => s(tag, { ...place, class: name, "data-chosen": chosen });
  return ["vf-halo", "vf-ring"].map(ring);
}

/** An image yet to be drawn, and marks over it: node, canvas and svg. */
export function overlay(className) {
  const [canvas, svg] = [h("canvas"), s("svg", { role: "img" })];
  return {
    node: h("div", { className: `vf-grid vf-over ${className}` }, canvas, svg),
    canvas,
    svg,
  };
}

const STRIP = 0.13; // so high is the strip for cls, in parts of the width

/**
 * A grid of cells. Places are per cents of it, so words and lines keep their size on every screen.
 * Over an image (a canvas) it has white lines, and with prefix 1 a strip for cell 0, cls, above the image.
 * With onpick(cell, event) one chooses a cell, else it is an image; without chosen there is no ring.
 * node, and show({ cells, chosen, label }), a cell being { color, opacity, word, size } or null, size a share of its side.
 */
export function patchGrid({ rows, cols, over, prefix = 0, onpick }) {
  let now = 0;
  const svg = s("svg", { role: "img" });
  const shape = [rows, cols];
  const strip = prefix ? STRIP / (STRIP + over.height / over.width) : 0; // in parts of the height
  const pick = (cell, event) => onpick((now = cell), event); // two keys may come before the next drawing
  if (onpick)
    pointable(
      svg,
      (x, y, event) => pick(tokenAt(x, y, shape, prefix, strip), event),
      (dx, dy, event) => pick(stepToken(now, dx, dy, shape, prefix), event),
    );
  const node = h("div", { className: over ? "vf-grid vf-over" : "vf-grid" }, over ?? "", svg);
  node.style.setProperty("--vf-cols", cols);
  if (!over) node.style.aspectRatio = `${cols} / ${rows}`;
  if (prefix) node.style.paddingTop = per(STRIP);

  const [wide, high] = [1 / cols, (1 - strip) / rows];
  const place = (n) => {
    if (n < prefix) return [0, 0, Math.max(wide, 0.3), 0.86 * strip];
    const patch = n - prefix;
    return [(patch % cols) * wide, strip + Math.floor(patch / cols) * high, wide, high];
  };
  const box = (n, size = 1) => {
    const [[x, y, width, height], edge] = [place(n), (1 - size) / 2];
    return boxOf(x + edge * width, y + edge * height, size * width, size * height);
  };
  const shade = (n, { color, opacity, size } = {}) => {
    const fill = color ? `var(--vf-${color})` : "none";
    return s("rect", { ...box(n, size), "data-cell": n, fill, "fill-opacity": opacity });
  };
  const word = (n, text) => {
    const [x, y, width, height] = place(n);
    const middle = { x: per(x + width / 2), y: per(y + height / 2) };
    return s("text", { ...middle, "text-anchor": "middle", "dominant-baseline": "central" }, text);
  };

  function show({ cells = Array(prefix + rows * cols).fill(null), chosen, label }) {
    now = chosen;
    svg.setAttribute("aria-label", label);
    const roomy = !(svg.clientWidth / cols < NARROWEST);
    const shades = cells.map((cell, n) => shade(n, cell ?? {}));
    const words = cells.map((cell, n) =>
      cell?.word && (roomy || n < prefix) ? word(n, cell.word) : "",
    );
    const ground = prefix ? [s("rect", { ...box(0), class: "vf-cls" })] : [];
    const ring = chosen === undefined ? [] : ringOf(box(chosen), chosen);
    svg.replaceChildren(...ground, ...shades, ...words, ...ring);
  }
  return { node, show };
}
