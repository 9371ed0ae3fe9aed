// One pair of axes, in SVG: lines with bands and dots, guides, ticks. What is light or dark is for kit.css to say.
import { h, s } from "./dom.js";

/** Round numbers from low to high, `about` of them. */
export function ticksOf(low, high, about = 5) {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= rough);
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: count }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** The range of powers of ten, in thirds (1, 2, 5), that holds all values. */
export function logTicks(values) {
  const steps = [1, 2, 5];
  const at = (k) => steps[((k % 3) + 3) % 3] * 10 ** Math.floor(k / 3);
  let low = 60;
  while (at(low) > Math.min(...values) * 1.000001) low--;
  let high = low + 1;
  while (at(high) < Math.max(...values) * 0.999999) high++;
  return Array.from({ length: high - low + 1 }, (_, i) => Number(at(low + i).toPrecision(1)));
}

/** Where a value of an axis { from, to, log } lies between two places of the drawing. */
function scaleOf({ from, to, log }, start, end) {
  const far = (value) => (log ? Math.log(value / from) : value - from);
  return (value) => start + (far(value) / (far(to) || 1)) * (end - start);
}

/** Ticks as [value, word]; of words that would touch each other every second one. */
function ticksIn(room, ticks) {
  const words = ticks.map((tick) => (Array.isArray(tick) ? tick : [tick, String(tick)]));
  const length = words.reduce((sum, [, word]) => sum + 8 * word.length + 16, 0);
  return words.filter((_, i) => length <= room || i % 2 === 0);
}

const strokeOf = ({ color, dash, width = 2.5 }) => ({
  style: `stroke: var(--vf-${color})`,
  "stroke-width": width,
  "stroke-dasharray": dash,
});
const fillOf = (color) => ({ style: `fill: var(--vf-${color})` });

/**
 * Axes of some size, in units that are about a pixel, and of another on a phone: node, and show(drawing) with
 *   label   what a screen reader hears
 *   x, y    { from, to, log, ticks: [value or [value, word], ...], label }
 *   guides  dotted: [{ x: value } or { y: value }, ...]
 *   lines   one above the other: [{ name, color, dash, width, xs, ys, low, high, dots: [[x, y], ...], radius, end, tag }]
 * where low and high are the edges of a band, end is "above" or "below": where the line's name stands at its end, and
 * tag is a short name right of the end; tags keep apart from each other.
 * Each line is a <g data-line="name">, each tick a <line data-x="value"> or data-y, for tests to find.
 */
export function axes({ size, phone = size, margin: [top, right, bottom, left] }) {
  const node = s("svg", { class: "vf-axes", role: "img" });
  const drawn = new Map(); // name -> { text, group }: what is drawn of the same values again stays as it is

  function kept(name, from, make) {
    const text = JSON.stringify(from);
    if (drawn.get(name)?.text !== text) drawn.set(name, { text, group: make() });
    return drawn.get(name).group;
  }

  function show({ label, x, y, guides = [], lines }) {
    const room = node.closest(".vf")?.clientWidth;
    const [width, height] = room > 0 && room < 480 ? phone : size;
    const frame = [width, height, x, y];
    const [east, south] = [width - right, height - bottom];
    const [px, py] = [scaleOf(x, left, east), scaleOf(y, south, top)];
    const at = (xs, ys) => xs.map((value, i) => `${px(value).toFixed(2)},${py(ys[i]).toFixed(2)}`);
    const line = (x1, y1, x2, y2, more) => s("line", { x1, y1, x2, y2, ...more });
    const text = (x, y, anchor, words, more) =>
      s("text", { x, y, "text-anchor": anchor, ...more }, words);

    const scales = () => [
      ...ticksIn(Infinity, y.ticks).flatMap(([value, word]) => [
        line(left, py(value), east, py(value), { "data-y": value }),
        text(left - 6, py(value), "end", word, { "dominant-baseline": "central" }),
      ]),
      ...ticksIn(east - left, x.ticks).flatMap(([value, word]) => [
        line(px(value), south, px(value), south + 5, { "data-x": value }),
        text(px(value), south + 18, "middle", word),
      ]),
      line(left, south, east, south),
      text((left + east) / 2, south + 36, "middle", x.label, { class: "vf-ink" }),
      ...(y.label ? [text(2, 14, "start", y.label, { class: "vf-ink" })] : []),
    ];
    const dotted = guides.map((one) =>
      "x" in one
        ? line(px(one.x), top, px(one.x), south, { "data-guide": one.x })
        : line(left, py(one.y), east, py(one.y), { "data-guide": one.y }),
    );
    const curve = (one) => {
      const group = s("g", { "data-line": one.name });
      const { xs = [], ys = [], dots = [], radius = 6 } = one;
      if (one.low) {
        const edge = [...at(xs, one.high), ...at(xs, one.low).reverse()].join(" ");
        group.append(s("polygon", { points: edge, ...fillOf(one.color), "fill-opacity": 0.25 }));
      }
      if (ys.length)
        group.append(s("polyline", { points: at(xs, ys).join(" "), ...strokeOf(one) }));
      for (const [cx, cy] of dots)
        group.append(s("circle", { cx: px(cx), cy: py(cy), r: radius, ...fillOf(one.color) }));
      if (one.end) {
        const place = py(ys.at(-1)) + { above: -11, below: 37 }[one.end];
        group.append(text(px(xs.at(-1)), place, "end", one.name, fillOf(one.color)));
      }
      return group;
    };
    const tagged = lines.filter(({ tag, ys }) => tag && ys.length);
    const heights = keepApart(
      tagged.map(({ ys }) => py(ys.at(-1))),
      TAG,
    );
    const tags = tagged.map((one, i) =>
      text(px(one.xs[one.ys.length - 1]) + 8, heights[i], "start", one.tag, {
        ...fillOf(one.color),
        class: "vf-tag",
        "data-tag": one.tag,
        "dominant-baseline": "central",
      }),
    );
    node.setAttribute("viewBox", `0 0 ${width} ${height}`);
    node.setAttribute("aria-label", label);
    const parts = [
      kept("scales", frame, () => s("g", { class: "vf-scales" }, ...scales())),
      s("g", { class: "vf-guides" }, ...dotted),
      ...lines.map((one) => kept(`line ${one.name}`, [frame, one], () => curve(one))),
      ...tags,
    ];
    const old = [...node.childNodes].filter((child) => !parts.includes(child));
    for (const child of old) child.remove();
    parts.forEach((part, i) => {
      if (node.childNodes[i] !== part) node.insertBefore(part, node.childNodes[i] ?? null);
    });
  }
  return { node, show };
}

const TAG = 14; // units between the middles of two tags

/** Places as near to these as they can be with `least` between any two. */
export function keepApart(places, least) {
  const order = [...places.keys()].sort((a, b) => places[a] - places[b]);
  const found = places.slice();
  for (let round = 0; round < 3 * places.length; round++)
    for (let i = 1; i < order.length; i++) {
      const [above, below] = [order[i - 1], order[i]];
      const missing = least - (found[below] - found[above]);
      if (missing <= 1e-9) continue;
      found[above] -= missing / 2;
      found[below] += missing / 2;
    }
  return found;
}

/** A paragraph of keys: node, and show([{ name, color, dash, width }, ...], words after them). */
export function legend() {
  const node = h("p", { className: "vf-legend" });
  const key = (one) => {
    const piece = s("line", { x1: 0, y1: 4, x2: 28, y2: 4, ...strokeOf({ width: 3, ...one }) });
    const svg = s("svg", { viewBox: "0 0 28 8", "aria-hidden": "true" }, piece);
    return h("span", { className: "vf-key" }, svg, one.name);
  };
  const show = (keys, ...words) => node.replaceChildren(...keys.map(key), ...words);
  return { node, show };
}
