// BlockDiagram: where the norms of a block stand, and what that does to the signal, the gradient and the training.
import { color, drawing } from "./kit/canvas.js";
import { choice, slider } from "./kit/controls.js";
import { h, sentence } from "./kit/dom.js";
import { figure, floats, needFloats } from "./kit/figure.js";
import { list, number } from "./kit/words.js";

/** Each wiring from below: a branch is a list, a norm on the stream a word; and the same as code. */
export const WIRES = {
  "pre-norm": {
    parts: [
      ["norm", "attention"],
      ["norm", "MLP"],
    ],
    code: ["x = x + attention(norm1(x))", "x = x + mlp(norm2(x))"],
  },
  "post-norm": {
    parts: [["attention"], "norm", ["MLP"], "norm"],
    code: ["x = norm1(x + attention(x))", "x = norm2(x + mlp(x))"],
  },
  "normalise, then add": {
    parts: ["norm", ["attention"], "norm", ["MLP"]],
    code: ["x = norm1(x)", "x = x + attention(x)", "x = norm2(x)", "x = x + mlp(x)"],
  },
  sandwich: {
    parts: [
      ["norm", "attention", "norm"],
      ["norm", "MLP", "norm"],
    ],
    code: ["x = x + norm2(attention(norm1(x)))", "x = x + norm4(mlp(norm3(x)))"],
  },
};

const LINES = {
  "pre-norm": ["blue", []],
  "post-norm": ["mark", [14, 6]],
  "normalise, then add": ["pink", [4, 6]],
  sandwich: ["green", [14, 5, 4, 5]],
};

/** How many norms stand on the stream of one block, and how many on its branches. */
export function countNorms(parts) {
  const onBranches = parts.flatMap((part) => (Array.isArray(part) ? part : []));
  return {
    stream: parts.filter((part) => part === "norm").length,
    branches: onBranches.filter((part) => part === "norm").length,
  };
}

/** Lowest, mean and highest of the seeds, one list of blocks each, of wiring w at the depth with place d. */
export function curveOf(values, depths, w, d) {
  const before = depths.slice(0, d).reduce((sum, depth) => sum + 3 * depth, 0);
  const row = depths.reduce((sum, depth) => sum + 3 * depth, 0);
  const part = (k) => {
    const start = w * row + before + k * depths[d];
    return Array.from(values.subarray(start, start + depths[d]));
  };
  return { low: part(0), mean: part(1), high: part(2) };
}

/** What was trained with this wiring, rate and warm-up: { depth, accuracy, mean } by depth. */
export function trainings(trained, wiring, lr, warmup) {
  return trained
    .filter((run) => run.wiring === wiring && run.lr === lr && run.warmup === warmup)
    .map(({ depth, accuracy }) => {
      const mean = accuracy.reduce((sum, a) => sum + a, 0) / accuracy.length;
      return { depth, accuracy, mean };
    });
}

/** The range of powers of ten, in thirds (1, 2, 5), that holds all values. */
export function logRange(values) {
  const steps = [1, 2, 5];
  const at = (k) => steps[((k % 3) + 3) % 3] * 10 ** Math.floor(k / 3);
  let low = 60;
  while (at(low) > Math.min(...values) * 1.000001) low--;
  let high = low + 1;
  while (at(high) < Math.max(...values) * 0.999999) high++;
  return Array.from({ length: high - low + 1 }, (_, i) => Number(at(low + i).toPrecision(1)));
}

/** Throw an error with words for people unless the stored state fits together. */
function checkState(model) {
  const [wirings, depths] = [model.get("wirings"), model.get("depths")];
  const unknown = wirings.filter((name) => !WIRES[name]);
  if (unknown.length) throw Error(`it knows no wiring ${list(unknown)}`);
  if (!depths.every((depth) => Number.isInteger(depth) && depth > 0))
    throw Error(`its depths should be whole numbers and are ${list(depths)}`);
  const count = 3 * wirings.length * depths.reduce((a, b) => a + b, 0);
  for (const name of ["rms", "gradient"]) {
    if (!needFloats(model.get(name), name, count).every((value) => value > 0))
      throw Error(`its ${name} hold something that has no logarithm`);
  }
  const sound = ({ accuracy }) =>
    Array.isArray(accuracy) && accuracy.length > 0 && accuracy.every((a) => a >= 0 && a <= 1);
  if (!model.get("trained").every(sound)) throw Error("an accuracy is no share of 1");
}

function makePlot(title) {
  const canvas = drawing(480, 400);
  return { node: h("div", {}, h("p", { className: "vf-head" }, title), canvas), canvas };
}

function build({ model, root, put }) {
  checkState(model);
  const [wirings, depths] = [model.get("wirings"), model.get("depths")];
  const [rates, warmups] = [model.get("rates"), model.get("warmups")];
  const values = { rms: floats(model.get("rms")), gradient: floats(model.get("gradient")) };
  const how = (warmup) => (warmup ? `${warmup} steps` : "none");
  const pickWiring = choice("Block:", wirings, (wiring) => put({ wiring }));
  const pickDepth = slider("Blocks", (depth) => put({ depth: depths.indexOf(depth) }));
  const pickRate = choice("Rate:", rates.map(String), (rate) => put({ rate }));
  const pickWarmup = choice("Warm-up:", warmups.map(how), (warmup) => put({ warmup }));
  const diagram = drawing(400, 620);
  const code = h("pre", { className: "vf-block-code" });
  const says = sentence();
  const facts = h("dl");
  const plots = {
    rms: makePlot("Size of the stream"),
    gradient: makePlot("Gradient of each block"),
    trained: makePlot("Test accuracy (%)"),
  };
  const legend = h("p", { className: "vf-soft" });
  const keys = wirings.map((name) => {
    const canvas = h("canvas", { width: 60, height: 16, className: "vf-block-key" });
    canvas.setAttribute("aria-hidden", "true");
    legend.append(h("span", { className: "vf-block-item" }, canvas, name));
    return canvas;
  });
  const hint = h(
    "p",
    { className: "vf-soft" },
    "The first two are measured before any training, over the number of the block; the third after " +
      `${model.get("steps")} steps of training, over the number of blocks in the stack. The chosen wiring is ` +
      "drawn thick; its band and its dots are the seeds. All stacks but post-norm end in one more norm.",
  );
  root.append(
    h("div", { className: "vf-controls" }, pickWiring.node, pickDepth.node),
    h("div", { className: "vf-controls" }, pickRate.node, pickWarmup.node),
    h("div", { className: "vf-block-top" }, diagram, h("div", {}, code, says, facts)),
    h("div", { className: "vf-block-plots" }, ...Object.values(plots).map(({ node }) => node)),
    legend,
    hint,
  );

  return function draw() {
    const [wiring, depth, rate, warmup] = ["wiring", "depth", "rate", "warmup"].map((name) => {
      const [value, count] = [model.get(name), model.get(`${name}s`).length];
      if (!Number.isInteger(value) || value < 0 || value >= count)
        throw Error(`there is no ${name} number ${value}; there are ${count}`);
      return value;
    });
    const [name, L] = [wirings[wiring], depths[depth]];
    pickWiring.show(wiring);
    pickDepth.show(depths, L, `${L} blocks`);
    pickRate.show(rate);
    pickWarmup.show(warmup);
    drawBlock(root, diagram, WIRES[name].parts);
    const { stream, branches } = countNorms(WIRES[name].parts);
    diagram.setAttribute(
      "aria-label",
      `${name}: ${stream} norms on the stream, ${branches} on the branches. From below: ${WIRES[name].code.join("; ")}.`,
    );
    code.textContent = WIRES[name].code.join("\n");

    const numbers = {};
    for (const what of ["rms", "gradient"]) {
      const curves = wirings.map((_, w) => curveOf(values[what], depths, w, depth));
      const lines = curves.map((curve, w) => ({ name: wirings[w], ...curve }));
      drawCurves(root, plots[what].canvas, lines, name);
      numbers[what] = [curves[wiring].mean[0], curves[wiring].mean.at(-1)];
      plots[what].canvas.setAttribute(
        "aria-label",
        `${what} of ${L} ${name} blocks: ${numbers[what].map(number).join(" in the first, ")} in the last`,
      );
    }
    const runs = wirings.map((w) =>
      trainings(model.get("trained"), w, rates[rate], warmups[warmup]),
    );
    drawTrained(root, plots.trained.canvas, wirings, runs, depths, L, name);
    const run = runs[wiring].find((one) => one.depth === L);
    const words = runs[wiring].map((one) => `${one.depth} blocks ${percents(one.mean)} %`);
    plots.trained.canvas.setAttribute(
      "aria-label",
      `Test accuracy of ${name}: ${words.length ? list(words) : "not trained"}`,
    );
    keys.forEach((canvas, w) => drawKey(root, canvas, wirings[w], w === wiring));

    const spread = run
      ? `${percents(run.mean)} % (${percents(Math.min(...run.accuracy))} to ${percents(Math.max(...run.accuracy))})`
      : "not trained";
    const setting = `rate ${rates[rate]} and ${warmups[warmup] ? `a warm-up of ${warmups[warmup]} steps` : "no warm-up"}`;
    says.textContent =
      `${L} blocks, ${name}. Before training: the rms of the stream is ${number(numbers.rms[0])} after ` +
      `block 1 and ${number(numbers.rms[1])} after block ${L}; the gradient is ${number(numbers.gradient[0])} ` +
      `in block 1 and ${number(numbers.gradient[1])} in block ${L}. ` +
      (run
        ? `Trained with ${setting}: ${spread} of the test pictures right; chance is 10 %.`
        : `This stack was not trained with ${setting}.`);
    const rows = [
      ["rms, first → last", numbers.rms.map(number).join(" → ")],
      ["gradient, first → last", numbers.gradient.map(number).join(" → ")],
      [`accuracy${run ? `, ${run.accuracy.length} seeds` : ""}`, spread],
    ];
    facts.replaceChildren(
      ...rows.map(([term, fact]) => h("div", {}, h("dt", {}, term), h("dd", {}, fact))),
    );
  };
}

/** A share as per cents with one digit. */
export function percents(share) {
  return (100 * share).toFixed(1);
}

/** The wires of one block: tokens come in below and go out above. */
function drawBlock(root, canvas, parts) {
  const pen = canvas.getContext("2d");
  const [ink, paper, blue, mark] = ["ink", "paper", "blue", "mark"].map((name) =>
    color(root, name),
  );
  const units = parts.reduce(
    (sum, part) => sum + (Array.isArray(part) ? part.length + 1.3 : 1.1),
    0,
  );
  const unit = Math.min((canvas.height - 50) / units, 80);
  const [stream, branch] = [95, 280];
  pen.clearRect(0, 0, canvas.width, canvas.height);
  Object.assign(pen, { textAlign: "center", textBaseline: "middle", font: "25px system-ui" });
  const wire = (points, width, style) => {
    Object.assign(pen, { lineWidth: width, strokeStyle: style, lineJoin: "round" });
    pen.beginPath();
    points.forEach(([x, y]) => pen.lineTo(x, y));
    pen.stroke();
  };
  const arrow = (x, y, dx, dy, size, fill) => {
    pen.fillStyle = fill;
    pen.beginPath();
    pen.moveTo(x, y);
    pen.lineTo(x - size * (dx + dy * 0.6), y - size * (dy + dx * 0.6));
    pen.lineTo(x - size * (dx - dy * 0.6), y - size * (dy - dx * 0.6));
    pen.fill();
  };
  const box = (x, y, text, edge) => {
    Object.assign(pen, {
      fillStyle: paper,
      strokeStyle: edge,
      lineWidth: text === "norm" ? 5 : 2.5,
    });
    pen.beginPath();
    pen.roundRect(x - 72, y - unit * 0.31, 144, unit * 0.62, 10);
    pen.fill();
    pen.stroke();
    pen.fillStyle = ink;
    pen.fillText(text, x, y);
  };
  const bottom = (canvas.height + units * unit) / 2 + 4;
  wire(
    [
      [stream, Math.min(bottom + 14, canvas.height)],
      [stream, bottom - units * unit],
    ],
    9,
    blue,
  );
  arrow(stream, bottom - units * unit - 16, 0, -1, 26, blue);
  let y = bottom;
  for (const part of parts) {
    if (!Array.isArray(part)) {
      box(stream, y - 0.55 * unit, part, mark);
      y -= 1.1 * unit;
      continue;
    }
    const top = y - (part.length + 0.7) * unit;
    wire(
      [
        [stream, y - 0.15 * unit],
        [branch, y - 0.15 * unit],
        [branch, top],
        [stream + 18, top],
      ],
      3,
      ink,
    );
    arrow(stream + 20, top, -1, 0, 16, ink);
    part.forEach((name, k) =>
      box(branch, y - (0.7 + k) * unit, name, name === "norm" ? mark : ink),
    );
    Object.assign(pen, { fillStyle: paper, strokeStyle: ink, lineWidth: 3 });
    pen.beginPath();
    pen.arc(stream, top, 17, 0, 2 * Math.PI);
    pen.fill();
    pen.stroke();
    pen.fillStyle = ink;
    pen.fillText("+", stream, top + 1);
    y -= (part.length + 1.3) * unit;
  }
}

/** The axes of a plot of 480 × 400: ticks are [place from 0 to 1, word]; returns the two scales. */
function drawAxes(root, pen, xticks, yticks, xlabel) {
  const [left, right, top, bottom] = [72, 466, 14, 330];
  const [soft, line] = ["soft", "line"].map((name) => color(root, name));
  const x = (share) => left + share * (right - left);
  const y = (share) => bottom - share * (bottom - top);
  pen.clearRect(0, 0, 480, 400);
  Object.assign(pen, {
    font: "24px system-ui",
    fillStyle: soft,
    strokeStyle: line,
    lineWidth: 1.5,
  });
  pen.setLineDash([]);
  pen.globalAlpha = 1;
  Object.assign(pen, { textAlign: "right", textBaseline: "middle" });
  for (const [share, word] of yticks) {
    pen.beginPath();
    pen.moveTo(left, y(share));
    pen.lineTo(right, y(share));
    pen.stroke();
    pen.fillText(word, left - 8, y(share));
  }
  Object.assign(pen, { textAlign: "center", textBaseline: "top" });
  for (const [share, word] of xticks) pen.fillText(word, x(share), bottom + 6);
  pen.fillText(xlabel, (left + right) / 2, bottom + 36);
  return { x, y };
}

/** One line; the chosen one is thick. */
function drawLine(root, pen, points, name, chosen) {
  const [colour, dash] = LINES[name];
  pen.setLineDash(dash);
  Object.assign(pen, { strokeStyle: color(root, colour), lineWidth: chosen ? 7 : 2.5 });
  pen.beginPath();
  points.forEach(([x, y]) => pen.lineTo(x, y));
  pen.stroke();
  pen.setLineDash([]);
}

/** Curves over the number of the block, with a logarithmic axis. */
function drawCurves(root, canvas, lines, chosen) {
  const pen = canvas.getContext("2d");
  const ticks = logRange(lines.flatMap(({ low, high }) => [...low, ...high]));
  const [low, high] = [Math.log(ticks[0]), Math.log(ticks.at(-1))];
  const L = lines[0].mean.length;
  const up = (value) => (Math.log(value) - low) / (high - low);
  const along = (n) => (n - 1) / (L - 1 || 1);
  const words = ticks.map((tick) => [up(tick), String(tick)]);
  const blocks = [1, L / 2, L].map((n) => [along(n), String(n)]);
  const { x, y } = drawAxes(root, pen, blocks, words, "block");
  const path = (values) => values.map((value, n) => [x(along(n + 1)), y(up(value))]);
  const sorted = lines.toSorted((a, b) => (a.name === chosen) - (b.name === chosen));
  for (const line of sorted) {
    if (line.name === chosen) {
      pen.fillStyle = color(root, LINES[chosen][0]);
      pen.globalAlpha = 0.25;
      pen.beginPath();
      for (const [px, py] of [...path(line.low), ...path(line.high).toReversed()])
        pen.lineTo(px, py);
      pen.fill();
      pen.globalAlpha = 1;
    }
    drawLine(root, pen, path(line.mean), line.name, line.name === chosen);
  }
}

/** Accuracy over the depth of the stack; the depth L is marked, chance dotted. */
function drawTrained(root, canvas, wirings, runs, depths, L, chosen) {
  const pen = canvas.getContext("2d");
  const along = (depth) => 0.05 + (0.9 * (depth - depths[0])) / (depths.at(-1) - depths[0] || 1);
  const shares = [0, 0.2, 0.4, 0.6, 0.8, 1].map((share) => [
    share,
    String(Math.round(100 * share)),
  ]);
  const xticks = depths.map((depth) => [along(depth), String(depth)]);
  const { x, y } = drawAxes(root, pen, xticks, shares, "blocks in the stack");
  Object.assign(pen, { strokeStyle: color(root, "soft"), lineWidth: 2 });
  pen.setLineDash([3, 5]);
  for (const [from, to] of [
    [
      [x(0), y(0.1)],
      [x(1), y(0.1)],
    ],
    [
      [x(along(L)), y(0)],
      [x(along(L)), y(1)],
    ],
  ]) {
    pen.beginPath();
    pen.moveTo(...from);
    pen.lineTo(...to);
    pen.stroke();
  }
  const order = wirings
    .map((_, w) => w)
    .toSorted((a, b) => (wirings[a] === chosen) - (wirings[b] === chosen));
  for (const w of order) {
    const points = runs[w].map(({ depth, mean }) => [x(along(depth)), y(mean)]);
    drawLine(root, pen, points, wirings[w], wirings[w] === chosen);
    pen.fillStyle = color(root, LINES[wirings[w]][0]);
    for (const { depth, accuracy } of runs[w])
      for (const share of accuracy) {
        pen.beginPath();
        pen.arc(x(along(depth)), y(share), wirings[w] === chosen ? 7 : 4, 0, 2 * Math.PI);
        pen.fill();
      }
  }
}

/** A piece of a line, for the legend. */
function drawKey(root, canvas, name, chosen) {
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, canvas.width, canvas.height);
  drawLine(
    root,
    pen,
    [
      [0, 8],
      [60, 8],
    ],
    name,
    chosen,
  );
}

export default figure(build);
