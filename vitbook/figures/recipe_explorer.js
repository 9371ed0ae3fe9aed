// RecipeExplorer: the stored runs of a recipe beside those with one thing changed, curves and final accuracies.
import { axes, legend, ticksOf } from "./kit/axes.js";
import { choice } from "./kit/controls.js";
import { controls, facts, h, heading, question, sentence } from "./kit/dom.js";
import { figure, needFloats } from "./kit/figure.js";
import { hundredths, percent } from "./kit/words.js";

/** Lowest, mean (ys) and highest of several runs (rows) at each point. */
export function bandOf(rows) {
  const columns = rows[0].map((_, i) => rows.map((row) => row[i]));
  return {
    low: columns.map((values) => Math.min(...values)),
    ys: columns.map((values) => meanOf(values)),
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

// The number of standard errors that chance alone passes 1 time in 20, with 2, 3, 4 ... seeds: Student's t, both sides.
const STUDENT = [12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.306, 2.2622];

/** Half the width of the 95 % confidence interval of the mean. */
export function reachOf(values) {
  return ((STUDENT[values.length - 2] ?? 2.2) * deviation(values)) / Math.sqrt(values.length);
}

/** The second list minus the first, seed by seed: the mean, its interval's reach, and whether it contains 0. */
export function paired(first, second) {
  const gaps = second.map((value, i) => value - first[i]);
  const [gap, reach] = [meanOf(gaps), reachOf(gaps)];
  return { gap, reach, chance: Math.abs(gap) <= reach };
}

/** Where each of `points` means of equal stretches lies: the middle of its steps. */
export function middles(steps, points) {
  const width = Math.ceil(steps / points);
  return Array.from(
    { length: points },
    (_, i) => (i * width + Math.min((i + 1) * width, steps)) / 2,
  );
}

/** What a paired difference of accuracies shows, in points. */
export function judge({ gap, reach, chance }) {
  const much = `${hundredths(Math.abs(gap), 2)} points`;
  const side = gap < 0 ? `${much} less` : gap > 0 ? `${much} more` : "neither more nor less";
  const words = chance ? "which may be chance" : "more than chance gives 1 time in 20";
  return `${side} than the recipe (95 % interval ± ${hundredths(reach, 2)}), ${words}.`;
}

const ACCURACY = { along: "epoch", scale: 100, digits: 2, end: " %" };
const VIEWS = [
  { name: "loss by step", up: "training loss", along: "step", scale: 1, digits: 2, end: "" },
  { name: "training accuracy by epoch", up: "training accuracy (%)", ...ACCURACY },
  {
    name: "validation accuracy by epoch",
    up: "validation accuracy (%), on a sample",
    ...ACCURACY,
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
    rowsOf("validation", same(epochs)),
  ];
  const final = rowsOf("final", same(1)).map((rows) => rows.flat());
  return { arms, steps, points, seeds, epochs, curves, final };
}

function build({ model, root, put }) {
  const { arms, steps, points, seeds, epochs, curves, final } = readRuns(model);
  const none = "none"; // the recipe as it is
  const changes = choice("One change:", [none, ...arms.slice(1)], (change) => put({ change }));
  const views = VIEWS.map(({ name }) => name);
  const view = choice("Show:", views, (index) => put({ view: index }));
  const plot = axes({ size: [640, 330], phone: [360, 280], margin: [28, 14, 44, 46] });
  const [keys, says, ends] = [legend(), sentence(), facts()];
  root.append(
    question("What does one change of the recipe cost?"),
    controls(changes.node, view.node),
    plot.node,
    keys.node,
    says,
    heading(
      `Accuracy at the end, on all validation images: mean ± 95 % interval, n = ${seeds} seeds`,
    ),
    ends.node,
  );

  return function draw() {
    const [arm, shown] = [model.get("change"), model.get("view")];
    if (!Number.isInteger(arm) || arm < 0 || arm >= arms.length)
      throw Error(`there is no change ${arm}; there are 1 to ${arms.length - 1}, and 0 for none`);
    if (!VIEWS[shown]) throw Error(`there is no view ${shown}; there are 0 to ${VIEWS.length - 1}`);
    changes.show(arm);
    view.show(shown);
    const { name, up, along, scale, digits, end } = VIEWS[shown];
    const both = arm ? [0, arm] : [0];
    const lines = both.map((a) => ({
      name: arms[a],
      ...(a ? { color: "mark", dash: "7 4" } : { color: "blue" }),
      xs: shown ? Array.from({ length: epochs }, (_, i) => i + 1) : middles(steps[a], points[a]),
      ...bandOf(curves[shown][a].map((row) => row.map((value) => scale * value))),
    }));
    const told = lines.map((line) => {
      const [mean, low, high] = [line.ys, line.low, line.high].map((values) =>
        values.at(-1).toFixed(digits),
      );
      return `${line.name} ends at ${mean}${end} (${low} to ${high})`;
    });
    const [left, right] = shown ? [1, epochs] : [0, Math.max(steps[0], steps[arm])];
    const low = Math.min(...lines.flatMap((line) => line.low));
    const high = Math.max(...lines.flatMap((line) => line.high));
    const room = 0.04 * (high - low) || 0.5;
    const [under, over] = [low - room, high + room];
    plot.show({
      label: `${up}, by ${along}: ${told.join("; ")}`,
      x: {
        from: left,
        to: right,
        ticks: ticksOf(left, right).filter(Number.isInteger),
        label: along,
      },
      y: { from: under, to: over, ticks: ticksOf(under, over), label: up },
      lines,
    });
    const note = `Line: mean of ${seeds} seeds; band: lowest to highest.`;
    keys.show(lines, h("span", { className: "vf-soft" }, note));

    const result = paired(final[0], final[arm]);
    const gap = `${result.gap < 0 ? "−" : "+"}${hundredths(Math.abs(result.gap), 2)} points`;
    const difference = ["difference, by seed", `${gap} ± ${hundredths(result.reach, 2)}`];
    ends.show([
      ...both.map((a) => [
        arms[a],
        `${percent(meanOf(final[a]), 2)} ± ${hundredths(reachOf(final[a]), 2)}`,
      ]),
      ...(arm ? [difference] : []),
    ]);
    const length =
      steps[arm] === steps[0] ? "" : ` It takes ${steps[arm]} steps, the recipe ${steps[0]}.`;
    says.textContent =
      `${arms[arm]}: ${percent(meanOf(final[arm]), 2)} of all validation images classified correctly at the end` +
      `${arm ? `, ${judge(result)}${length}` : "."} Shown: ${name}.`;
  };
}

export default figure(build);
