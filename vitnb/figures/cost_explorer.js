// CostExplorer: what one picture costs in the blocks of a ViT, by the picture, its patches and the blocks.
import { chart, choice, drawing, figure, h, number, sentence, slider, whole } from "./common.js";

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

/** So many tokens have as much work between them as in matrices. */
export function balance({ width, ratio }) {
  return (2 + ratio) * width;
}

/** Of some values those that divide a number. */
export function dividing(values, total) {
  return values.filter((value) => total % value === 0);
}

/** The value nearest to a wanted one, by their ratio. */
export function nearest(values, wanted) {
  const far = (value) => Math.abs(Math.log(value / wanted));
  return values.reduce((best, value) => (far(value) < far(best) ? value : best));
}

/** Bytes for people: 1,234,567 -> "1.23 MB". */
export function size(bytes) {
  const [unit, name] = [
    [1e9, "GB"],
    [1e6, "MB"],
    [1e3, "kB"],
    [1, "bytes"],
  ].find(([least]) => bytes >= least);
  return `${number(bytes / unit)}\u00a0${name}`;
}

/** A large number in words: 17,400,000,000 -> "17.4 billion". */
export function spoken(value) {
  const [unit, name] = [
    [1e12, " trillion"],
    [1e9, " billion"],
    [1e6, " million"],
    [1, ""],
  ].find(([least]) => value >= least);
  return unit === 1 ? whole(value) : `${number(value / unit)}${name}`;
}

/** A share for people: whole per cents, or "less than 1 %". */
export function percent(share) {
  return share < 0.01 ? "less than 1\u00a0%" : `${Math.round(100 * share)}\u00a0%`;
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
    side: "Side of the picture",
    patch: "Side of a patch",
    width: "Width",
    depth: "Blocks",
    heads: "Heads",
  };
  const sliders = Object.fromEntries(
    NAMES.map((name) => [
      name,
      slider(labels[name], (value) => put(moves[name]?.(value) ?? { [name]: value })),
    ]),
  );
  const canvas = drawing(1280, 660);
  const says = sentence();
  const fact = (name) => {
    const dd = h("dd");
    return { dd, node: h("div", {}, h("dt", {}, name), dd) };
  };
  const facts = {
    tokens: fact("tokens"),
    weights: fact("numbers in matrices"),
    matrices: fact("work in matrices"),
    between: fact("work between tokens"),
    maps: fact("all maps, float32"),
  };
  const knobs = h("div", { className: "vf-controls" }, ...NAMES.map((name) => sliders[name].node));
  root.append(
    h("div", { className: "vf-controls" }, start.node),
    knobs,
    canvas,
    says,
    h("dl", {}, ...Object.values(facts).map(({ node }) => node)),
  );

  return function draw() {
    const now = Object.fromEntries(NAMES.map((name) => [name, model.get(name)]));
    for (const name of NAMES)
      if (!choices[name].includes(now[name])) throw Error(`its ${name} cannot be ${now[name]}`);
    const { side, patch, width, depth, heads } = now;
    if (side % patch) throw Error(`patches of ${patch} do not divide ${side} pixels`);
    if (width % heads) throw Error(`${heads} heads do not divide a width of ${width}`);
    const tokens = (side / patch) ** 2;
    const shape = { width, depth, heads, ratio };
    const { matrices, between, maps, weights } = costOf(tokens, shape);
    const share = between / (matrices + between);
    start.show(Object.values(MODELS).findIndex((one) => NAMES.every((n) => one[n] === now[n])));
    sliders.side.show(choices.side, side, `${side} pixels`);
    const rows = side / patch;
    sliders.patch.show(
      dividing(choices.patch, side),
      patch,
      `${patch} pixels: ${rows} × ${rows} tokens`,
    );
    sliders.width.show(choices.width, width, `${width} features`);
    sliders.depth.show(choices.depth, depth, depth === 1 ? "1 block" : `${depth} blocks`);
    sliders.heads.show(
      dividing(choices.heads, width),
      heads,
      heads === 1 ? "1 head a block" : `${heads} heads a block`,
    );
    drawLines(root, canvas, tokens, shape);
    facts.tokens.dd.textContent = whole(tokens);
    facts.weights.dd.textContent = whole(weights);
    facts.matrices.dd.textContent = spoken(matrices);
    facts.between.dd.textContent = `${spoken(between)} (${percent(share)})`;
    facts.maps.dd.textContent = size(4 * maps);
    const even = balance(shape);
    const words =
      `${whole(tokens)} tokens: ${spoken(matrices + between)} multiplications a picture, ` +
      `${percent(share)} of them between tokens. At this width both kinds are equal at ${whole(even)} tokens.`;
    says.textContent = words;
    canvas.setAttribute(
      "aria-label",
      `Multiplications by tokens, both axes logarithmic. The line of the matrices is straight, that between ` +
        `tokens twice as steep; they cross at ${whole(even)} tokens. Marked: ${words}`,
    );
  };
}

/** Both kinds of work over the number of tokens, with logarithmic axes, and where the model stands. */
function drawLines(root, canvas, tokens, shape) {
  const drawn = chart(root, canvas, [290, 330]);
  const { pen, narrow, width, height, stroke, ink, soft, line, blue, mark } = drawn;
  const box = { left: 58, top: 26, right: width - 24, bottom: height - 44 };
  const kinds = ["matrices", "between"];
  const ends = [FEWEST, MOST].flatMap((n) => kinds.map((kind) => costOf(n, shape)[kind]));
  const powers = [
    Math.floor(Math.log10(Math.min(...ends))),
    Math.ceil(Math.log10(Math.max(...ends))),
  ];
  const x = (n) =>
    box.left + (Math.log(n / FEWEST) / Math.log(MOST / FEWEST)) * (box.right - box.left);
  const y = (value) =>
    box.bottom -
    ((Math.log10(value) - powers[0]) / (powers[1] - powers[0])) * (box.bottom - box.top);
  Object.assign(pen, { strokeStyle: line, fillStyle: soft });
  Object.assign(pen, { textAlign: "right", textBaseline: "middle" });
  for (let power = powers[0]; power <= powers[1]; power++) {
    stroke([box.left, y(10 ** power)], [box.right, y(10 ** power)]);
    if (power % 3) continue;
    const unit = { 3: " k", 6: " M", 9: " G", 12: " T", 15: " P" }[power] ?? "";
    pen.fillText(unit ? `1${unit}` : String(10 ** power), box.left - 6, y(10 ** power));
  }
  Object.assign(pen, { textAlign: "center", textBaseline: "top" });
  for (let n = FEWEST; n <= MOST; n *= narrow ? 16 : 4) {
    stroke([x(n), box.bottom], [x(n), box.bottom + 5]);
    pen.fillText(whole(n), x(n), box.bottom + 8);
  }
  pen.fillStyle = ink;
  pen.fillText("tokens", (box.left + box.right) / 2, height - 17);
  pen.textAlign = "left";
  pen.fillText("multiplications, one picture", 2, 4);
  pen.strokeStyle = soft;
  pen.setLineDash([3, 4]);
  stroke([x(tokens), box.top], [x(tokens), box.bottom]);
  kinds.forEach((kind, i) => {
    const at = (n) => [x(n), y(costOf(n, shape)[kind])];
    Object.assign(pen, {
      strokeStyle: i ? mark : blue,
      fillStyle: i ? mark : blue,
      lineWidth: 2.5,
    });
    pen.setLineDash(i ? [7, 4] : []);
    stroke(at(FEWEST), at(MOST));
    pen.setLineDash([]);
    pen.beginPath();
    pen.arc(...at(tokens), 6, 0, 2 * Math.PI);
    pen.fill();
    const [right, top] = at(MOST); // above the one line, well below the other, there is room
    Object.assign(pen, { textAlign: "right", textBaseline: i ? "bottom" : "top" });
    pen.fillText(i ? "between tokens" : "in matrices", right, top + (i ? -8 : 26));
  });
}

export default figure(build);
