// A grid of patches, alone or over a picture: shades, words, a ring, and a choice by pointer or arrow keys.
import { pointable } from "./controls.js";
import { h, s } from "./dom.js";

const NARROWEST = 28; // a cell of fewer pixels on the screen has no room for a word

/** The token after a step of an arrow key: cls lies above the first row of patches. */
export function stepToken(token, dx, dy, [rows, cols], prefix) {
  if (token < prefix) return dy > 0 ? prefix : token;
  const n = token - prefix;
  const [row, col] = [Math.floor(n / cols) + dy, (n % cols) + dx];
  if (row < 0 && prefix) return 0;
  const clamp = (value, count) => Math.min(Math.max(value, 0), count - 1);
  return prefix + clamp(row, rows) * cols + clamp(col, cols);
}

/** The token at a place of the picture, in shares of the drawing, of which the top is a strip for cls. */
export function tokenAt(x, y, [rows, cols], prefix, strip) {
  if (prefix && y < strip) return 0;
  const row = Math.floor(((y - strip) / (1 - strip)) * rows);
  return prefix + row * cols + Math.floor(x * cols);
}

/**
 * A grid of cells. Places are per cents of it, so words and lines keep their size on every screen.
 * Over a picture (a canvas) it has white lines; with onpick(cell, event) one chooses a cell, else it is an image.
 * node, and show({ cells, chosen, label }), a cell being { color, opacity, word } or null.
 */
export function patchGrid({ rows, cols, over, onpick }) {
  let now = 0;
  const svg = s("svg", { role: "img" });
  const shape = [rows, cols];
  if (onpick)
    pointable(
      svg,
      (x, y, event) => onpick(tokenAt(x, y, shape, 0, 0), event),
      (dx, dy, event) => onpick(stepToken(now, dx, dy, shape, 0), event),
    );
  const node = h(
    "div",
    { className: over ? "vf-grid vf-over" : "vf-grid" },
    ...(over ? [over] : []),
  );
  node.append(svg);
  node.style.setProperty("--vf-cols", cols);
  node.style.aspectRatio = over ? `${over.width} / ${over.height}` : `${cols} / ${rows}`;

  const [wide, high] = [100 / cols, 100 / rows];
  const box = (n, more) => {
    const [x, y] = [`${(n % cols) * wide}%`, `${Math.floor(n / cols) * high}%`];
    return s("rect", { x, y, width: `${wide}%`, height: `${high}%`, ...more });
  };
  const word = (n, text) => {
    const [x, y] = [`${((n % cols) + 0.5) * wide}%`, `${(Math.floor(n / cols) + 0.5) * high}%`];
    return s("text", { x, y, "text-anchor": "middle", "dominant-baseline": "central" }, text);
  };

  function show({ cells = Array(rows * cols).fill(null), chosen, label }) {
    now = chosen;
    svg.setAttribute("aria-label", label);
    const roomy = !(svg.clientWidth / cols < NARROWEST);
    const shades = cells.map((cell, n) =>
      box(n, {
        "data-cell": n,
        fill: cell?.color ? `var(--vf-${cell.color})` : "none",
        "fill-opacity": cell?.opacity,
      }),
    );
    const words = cells.map((cell, n) => (cell?.word && roomy ? word(n, cell.word) : ""));
    const rings = ["vf-halo", "vf-ring"].map((name) =>
      box(chosen, { class: name, "data-chosen": chosen }),
    );
    svg.replaceChildren(...shades, ...words, ...rings);
  }
  return { node, show };
}
