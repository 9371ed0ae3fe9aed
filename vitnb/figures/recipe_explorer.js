// RecipeExplorer: the stored runs of a recipe beside those with one thing changed, curves and final accuracies.
import { chart, choice, drawing, figure, h, needFloats, sentence } from "./common.js";

/** Lowest, mean and highest of several runs (rows) at each point. */
export function bandOf(rows) {
  const columns = rows[0].map((_, i) => rows.map((row) => row[i]));
  return {
    low: columns.map((values) => Math.min(...values)),
    mean: columns.map((values) => meanOf(values)),
    high: columns.map((values) => Math.max(...values)),
  };
}

/** The mean of some numbers. */
export function meanOf(values) {
  return values.reduce((a, b) => a + b, 0) / values.length;
}

/** The standard deviation of a sample: divided by one less than its size. */
export function deviation(values) {
  const mean = meanOf(values);
  return Math.sqrt(values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / (values.length - 1));
}

// So many standard errors chance alone passes 1 time in 20, with 2, 3, 4 ... seeds: Student's t, both sides.
const STUDENT = [12.71, 4.3, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26];

/** The second list minus the first, seed by seed: the mean, its standard error, and whether that may be chance. */
export function paired(first, second) {
  const gaps = second.map((value, i) => value - first[i]);
  const [gap, error] = [meanOf(gaps), deviation(gaps) / Math.sqrt(gaps.length)];
  const most = STUDENT[gaps.length - 2] ?? 2.2;
  return { gap, error, chance: Math.abs(gap) <= most * error };
}

/** Where each of so many means of equal stretches lies: the middle of its steps. */
export function middles(steps, points) {
  const width = Math.ceil(steps / points);
  return Array.from(
    { length: points },
    (_, i) => (i * width + Math.min((i + 1) * width, steps)) / 2,
  );
}

/** Round numbers from low to high, about so many of them. */
export function ticksOf(low, high, about = 5) {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= rough);
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: count }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** A share in per cent, two digits after the point. */
export function percents(share) {
  return `${(100 * share).toFixed(2)}\u00a0%`;
}

/** What a paired difference of accuracies says, in points. */
export function judge({ gap, error, chance }) {
  const much = `${Math.abs(100 * gap).toFixed(2)} points`;
  const side = gap < 0 ? `${much} less` : gap > 0 ? `${much} more` : "neither more nor less";
  const words = chance ? "which may be chance" : "more than chance gives 1 time in 20";
  return `${side} than the recipe (standard error ${(100 * error).toFixed(2)}), ${words}.`;
}

const VIEWS = [
  { name: "loss by step", up: "training loss", along: "step", scale: 1, digits: 2, end: "" },
  {
    name: "training accuracy by epoch",
    up: "training accuracy (%)",
    along: "epoch",
    scale: 100,
    digits: 1,
    end: " %",
  },
  {
    name: "test accuracy by epoch",
    up: "test accuracy (%)",
    along: "epoch",
    scale: 100,
    digits: 1,
    end: " %",
  },
];

/** Read the traits; throw an error with words for people unless they fit together. */
function readRuns(model) {
  const [arms, steps, points] = ["arms", "steps", "points"].map((name) => model.get(name));
  const [seeds, epochs] = [model.get("seeds"), model.get("epochs")];
  const A = arms.length;
  if (A < 2) throw Error("it needs a recipe and at least one change of it");
  if (!(Number.isInteger(seeds) && seeds > 1))
    throw Error(`${seeds} seeds are too few, it needs 2`);
  if (steps.length !== A || points.length !== A)
    throw Error(
      `it has ${A} recipes, ${steps.length} numbers of steps and ${points.length} of points`,
    );
  const rowsOf = (name, lengths) => {
    const count = seeds * lengths.reduce((a, b) => a + b, 0);
    const values = Array.from(needFloats(model.get(name), name, count));
    let start = 0;
    return lengths.map((length) =>
      Array.from({ length: seeds }, () => values.slice(start, (start += length))),
    );
  };
  const same = (length) => arms.map(() => length);
  const curves = [
    rowsOf("losses", points),
    rowsOf("train", same(epochs)),
    rowsOf("test", same(epochs)),
  ];
  const final = rowsOf("final", same(1)).map((rows) => rows.flat());
  return { arms, steps, points, seeds, epochs, curves, final };
}

function build({ model, root, put }) {
  const { arms, steps, points, seeds, epochs, curves, final } = readRuns(model);
  const changes = choice("One change:", arms.slice(1), (index) => put({ change: index + 1 }));
  const views = VIEWS.map(({ name }) => name);
  const view = choice("Show:", views, (index) => put({ view: index }));
  const canvas = drawing(1280, 720);
  const says = sentence();
  const other = h("span", { className: "vf-rec-key vf-rec-other" });
  const keys = h(
    "p",
    {},
    h("span", { className: "vf-rec-key" }, arms[0]),
    "\u2003",
    other,
    h(
      "span",
      { className: "vf-soft" },
      `\u2003Line: mean of ${seeds} seeds; band: lowest to highest. The axis fits the two.`,
    ),
  );
  const fact = (name) => {
    const [dt, dd] = [h("dt", {}, name), h("dd")];
    return { dt, dd, node: h("div", {}, dt, dd) };
  };
  const facts = [fact(arms[0]), fact(""), fact("difference, by seed")];
  const hint = `Accuracy at the end, on all test pictures: mean ± standard deviation, n = ${seeds} seeds`;
  root.append(
    h("div", { className: "vf-controls" }, changes.node, view.node),
    canvas,
    keys,
    says,
    h("p", { className: "vf-head" }, hint),
    h("dl", {}, ...facts.map(({ node }) => node)),
  );

  return function draw() {
    const [arm, shown] = [model.get("change"), model.get("view")];
    if (!Number.isInteger(arm) || arm < 1 || arm >= arms.length)
      throw Error(`there is no change ${arm}; there are 1 to ${arms.length - 1}`);
    if (!VIEWS[shown]) throw Error(`there is no view ${shown}; there are 0 to ${VIEWS.length - 1}`);
    changes.show(arm - 1);
    view.show(shown);
    other.textContent = arms[arm];
    const look = VIEWS[shown];
    const lines = [0, arm].map((a) => ({
      xs: shown ? Array.from({ length: epochs }, (_, i) => i + 1) : middles(steps[a], points[a]),
      ...bandOf(curves[shown][a].map((row) => row.map((value) => look.scale * value))),
    }));
    drawCurves(
      root,
      canvas,
      lines,
      look,
      shown ? [1, epochs] : [0, Math.max(steps[0], steps[arm])],
    );
    const last = lines.map(({ low, mean, high }) =>
      [mean, low, high].map((values) => values.at(-1).toFixed(look.digits)),
    );
    const words = last.map(([mean, low, high], i) => {
      const name = i ? arms[arm] : arms[0];
      return `${name} ends at ${mean}${look.end} (${low} to ${high})`;
    });
    canvas.setAttribute(
      "aria-label",
      `${look.up} by ${look.along}, two curves: ${words.join("; ")}`,
    );

    const result = paired(final[0], final[arm]);
    [0, arm].forEach((a, i) => {
      facts[i].dt.textContent = arms[a];
      facts[i].dd.textContent =
        `${percents(meanOf(final[a]))} ± ${(100 * deviation(final[a])).toFixed(2)}`;
    });
    const gap = `${result.gap < 0 ? "−" : "+"}${Math.abs(100 * result.gap).toFixed(2)} points`;
    facts[2].dd.textContent = `${gap} ± ${(100 * result.error).toFixed(2)} (standard error)`;
    const length =
      steps[arm] === steps[0] ? "" : ` It takes ${steps[arm]} steps, the recipe ${steps[0]}.`;
    says.textContent =
      `${arms[arm]}: ${percents(meanOf(final[arm]))} of all test pictures right at the end, ` +
      `${judge(result)}${length} Shown: ${look.name}; ${words.join("; ")}.`;
  };
}

/** The axes, and a band with its mean line for each of the two. */
function drawCurves(root, canvas, lines, look, [left, right]) {
  const drawn = chart(root, canvas, [280, 330]);
  const { pen, width, height, stroke, ink, soft, line, blue, mark } = drawn;
  const box = { left: 46, top: 28, right: width - 14, bottom: height - 44 };
  const low = Math.min(...lines.flatMap((band) => band.low));
  const high = Math.max(...lines.flatMap((band) => band.high));
  const room = 0.04 * (high - low) || 0.5;
  const place = (x, y) => [
    box.left + ((x - left) / (right - left || 1)) * (box.right - box.left),
    box.bottom - ((y - low + room) / (high - low + 2 * room)) * (box.bottom - box.top),
  ];
  pen.strokeStyle = line;
  Object.assign(pen, { fillStyle: soft, textAlign: "right", textBaseline: "middle" });
  for (const tick of ticksOf(low - room, high + room)) {
    const [, y] = place(left, tick);
    stroke([box.left, y], [box.right, y]);
    pen.fillText(String(tick), box.left - 6, y);
  }
  Object.assign(pen, { textAlign: "center", textBaseline: "top" });
  for (const tick of ticksOf(left, right).filter(Number.isInteger)) {
    const [x] = place(tick, low);
    stroke([x, box.bottom], [x, box.bottom + 5]);
    pen.fillText(String(tick), x, box.bottom + 8);
  }
  stroke([box.left, box.bottom], [box.right, box.bottom]);
  pen.fillStyle = ink;
  pen.fillText(look.along, (box.left + box.right) / 2, height - 17);
  pen.textAlign = "left";
  pen.fillText(look.up, 2, 4);
  lines.forEach(({ xs, low: under, mean, high: over }, i) => {
    const style = i ? mark : blue;
    const path = (ys) => xs.map((x, n) => place(x, ys[n]));
    pen.beginPath();
    for (const point of [...path(over), ...path(under).toReversed()]) pen.lineTo(...point);
    Object.assign(pen, { fillStyle: style, strokeStyle: style, globalAlpha: 0.25 });
    pen.fill();
    Object.assign(pen, { globalAlpha: 1, lineWidth: 2.5 });
    pen.setLineDash(i ? [7, 4] : []);
    stroke(...path(mean));
  });
  pen.setLineDash([]);
}

export default figure(build);
