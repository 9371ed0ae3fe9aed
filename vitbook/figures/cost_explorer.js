// CostExplorer: what one image costs in the blocks of a ViT, by the image, its patches and the blocks.
import { axes } from "./kit/axes.js";
import { choice, slider } from "./kit/controls.js";
import { controls, facts, question, sentence } from "./kit/dom.js";
import { figure } from "./kit/figure.js";
import { number, percent, whole } from "./kit/words.js";

/** Multiplications in matrices and between tokens, numbers in all maps and in the blocks' matrices. */
export function costOf(tokens, { width, depth, heads, ratio }) {
  const weights = depth * (4 + 2 * ratio) * width ** 2;
  return {
    matrices: tokens * weights,
    between: depth * 2 * tokens ** 2 * width,
    maps: depth * heads * tokens ** 2,
    weights,
  };
}

/** The number of tokens that have as much work between them as in matrices. */
export function balance({ width, ratio }) {
  return (2 + ratio) * width;
}

/** Of some values those that divide a number. */
export function dividing(values, total) {
  return values.filter((value) => total % value === 0);
}

/** The value nearest to a target, by their ratio. */
export function nearest(values, target) {
  const far = (value) => Math.abs(Math.log(value / target));
  return values.reduce((best, value) => (far(value) < far(best) ? value : best));
}

/** The largest unit of some [[least, name], ...] that a value reaches. */
function unitOf(value, units) {
  return units.find(([least]) => value >= least);
}

/** Bytes for people: 1,234,567 -> "1.23 MB". */
export function size(bytes) {
  const names = ["GB", "MB", "kB", "bytes"];
  const [unit, name] = unitOf(
    bytes,
    names.map((word, i) => [1000 ** (3 - i), word]),
  );
  return `${number(bytes / unit)}\u00a0${name}`;
}

/** A large number in words: 17,400,000,000 -> "17.4 billion". */
export function spoken(value) {
  const names = ["trillion", "billion", "million"];
  const [unit, name] = unitOf(value, [...names.map((word, i) => [1000 ** (4 - i), word]), [0, ""]]);
  return unit ? `${number(value / unit)} ${name}` : whole(value);
}

/** A share for people: whole per cents, or "less than 1 %". */
export function shareOf(part, all) {
  return part / all < 0.01 ? `less than ${percent(0.01)}` : percent(part / all);
}

const MODELS = {
  "28/7, small": { side: 28, patch: 7, width: 64, depth: 4, heads: 4 },
  "96/16, the textbook's": { side: 96, patch: 16, width: 512, depth: 2, heads: 8 },
  "224/16, ViT-B": { side: 224, patch: 16, width: 768, depth: 12, heads: 12 },
};
const NAMES = ["side", "patch", "width", "depth", "heads"];
const [FEWEST, MOST] = [4, 16384]; // tokens on the axis

function build({ model, root, put }) {
  const choices = model.get("choices");
  const ratio = model.get("ratio");
  for (const name of NAMES)
    if (!Array.isArray(choices[name]) || choices[name].length < 2)
      throw Error(`it has no choices for ${name}`);
  if (!(ratio > 0)) throw Error(`its ratio is ${ratio}`);
  const start = choice("Start from:", Object.keys(MODELS), (i) => put(Object.values(MODELS)[i]));
  const fit = (values, total, now) => nearest(dividing(values, total), now);
  const moves = {
    side: (side) => ({ side, patch: fit(choices.patch, side, model.get("patch")) }),
    width: (width) => ({ width, heads: fit(choices.heads, width, model.get("heads")) }),
  };
  const labels = {
    side: "Side of the image",
    patch: "Side of a patch",
    width: "Width",
    depth: "Blocks",
    heads: "Heads",
  };
  const sliderOf = (name) =>
    slider(labels[name], (value) => put(moves[name]?.(value) ?? { [name]: value }));
  const sliders = Object.fromEntries(NAMES.map((name) => [name, sliderOf(name)]));
  const plot = axes({ size: [640, 330], phone: [360, 290], margin: [26, 24, 44, 58] });
  const [says, costs] = [sentence(), facts()];
  root.append(
    question("What costs more: the matrices, or what passes between tokens?"),
    controls(start.node),
    controls(...NAMES.map((name) => sliders[name].node)),
    plot.node,
    says,
    costs.node,
  );

  return function draw() {
    const now = Object.fromEntries(NAMES.map((name) => [name, model.get(name)]));
    for (const name of NAMES)
      if (!choices[name].includes(now[name])) throw Error(`its ${name} cannot be ${now[name]}`);
    const { side, patch, width, depth, heads } = now;
    if (side % patch) throw Error(`patches of ${patch} do not divide ${side} pixels`);
    if (width % heads) throw Error(`${heads} heads do not divide a width of ${width}`);
    const rows = side / patch;
    const tokens = rows ** 2;
    const shape = { width, depth, heads, ratio };
    const { matrices, between, maps, weights } = costOf(tokens, shape);
    const share = shareOf(between, matrices + between);
    start.show(Object.values(MODELS).findIndex((one) => NAMES.every((n) => one[n] === now[n])));
    sliders.side.show(choices.side, side, `${side} pixels`);
    const patches = `${patch} pixels: ${rows} × ${rows} tokens`;
    sliders.patch.show(dividing(choices.patch, side), patch, patches);
    sliders.width.show(choices.width, width, `${width} features`);
    sliders.depth.show(choices.depth, depth, depth === 1 ? "1 block" : `${depth} blocks`);
    const many = heads === 1 ? "1 head a block" : `${heads} heads a block`;
    sliders.heads.show(dividing(choices.heads, width), heads, many);
    costs.show([
      ["tokens", whole(tokens)],
      ["numbers in matrices", whole(weights)],
      ["work in matrices", spoken(matrices)],
      ["work between tokens", `${spoken(between)} (${share})`],
      ["all maps, float32", size(4 * maps)],
    ]);
    const even = balance(shape);
    says.textContent =
      `${whole(tokens)} tokens: ${spoken(matrices + between)} multiplications per image, ` +
      `${share} of them between tokens. At this width both kinds are equal at ${whole(even)} tokens.`;
    const label =
      `Multiplications by tokens, both axes logarithmic. The line of the matrices is straight, that between ` +
      `tokens twice as steep; they cross at ${whole(even)} tokens. Marked: ${says.textContent}`;
    plot.show({ label, ...linesOf(tokens, shape) });
  };
}

/** Both kinds of work over the number of tokens, and where the model stands. */
function linesOf(tokens, shape) {
  const xs = [FEWEST, MOST];
  const lineOf = (kind, more) => {
    const at = (n) => costOf(n, shape)[kind];
    return { xs, ys: xs.map(at), dots: [[tokens, at(tokens)]], ...more };
  };
  const lines = [
    lineOf("matrices", { name: "in matrices", color: "blue", end: "below" }),
    lineOf("between", { name: "between tokens", color: "mark", dash: "7 4", end: "above" }),
  ]; // above the one line, well below the other, there is room
  const ends = lines.flatMap(({ ys }) => ys).map(Math.log10);
  const [low, high] = [Math.floor(Math.min(...ends)), Math.ceil(Math.max(...ends))];
  const word = (power) => {
    const unit = { 3: " k", 6: " M", 9: " G", 12: " T", 15: " P" }[power];
    return power % 3 ? "" : unit ? `1${unit}` : String(10 ** power);
  };
  const powers = Array.from({ length: high - low + 1 }, (_, i) => low + i);
  const ticks = powers.map((power) => [10 ** power, word(power)]);
  const counts = Array.from({ length: 7 }, (_, i) => [FEWEST * 4 ** i, whole(FEWEST * 4 ** i)]);
  return {
    x: { log: true, from: FEWEST, to: MOST, ticks: counts, label: "tokens" },
    y: { log: true, from: 10 ** low, to: 10 ** high, ticks, label: "multiplications, one image" },
    guides: [{ x: tokens }],
    lines,
  };
}

export default figure(build);
