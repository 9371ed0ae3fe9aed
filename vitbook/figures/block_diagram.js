// BlockDiagram: where the norms of a block stand, and what that does to the signal, the gradient and the training.
import { axes, legend, logTicks } from "./kit/axes.js";
import { choice, slider } from "./kit/controls.js";
import { controls, facts, h, heading, question, s, sentence, soft, staying } from "./kit/dom.js";
import { figure, floats, needFloats, needIndex } from "./kit/figure.js";
import { hundredths, list, number, percent } from "./kit/words.js";

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
  "pre-norm": { color: "blue" },
  "post-norm": { color: "mark", dash: "7 3" },
  "normalise, then add": { color: "pink", dash: "2 3" },
  sandwich: { color: "green", dash: "7 2.5 2 2.5" },
};

/** How many norms stand on the stream of one block, and how many on its branches. */
export function countNorms(parts) {
  const onBranches = parts.flatMap((part) => (Array.isArray(part) ? part : []));
  return {
    stream: parts.filter((part) => part === "norm").length,
    branches: onBranches.filter((part) => part === "norm").length,
  };
}

/** Lowest, mean (ys) and highest of the seeds, one list of blocks each, of wiring w at the depth with place d. */
export function curveOf(values, depths, w, d) {
  const before = depths.slice(0, d).reduce((sum, depth) => sum + 3 * depth, 0);
  const row = depths.reduce((sum, depth) => sum + 3 * depth, 0);
  const part = (k) => {
    const start = w * row + before + k * depths[d];
    return Array.from(values.subarray(start, start + depths[d]));
  };
  return { low: part(0), ys: part(1), high: part(2) };
}

/** What was trained with this wiring, learning rate and warm-up: { depth, accuracy, mean } by depth. */
export function trainings(trained, wiring, lr, warmup) {
  return trained
    .filter((run) => run.wiring === wiring && run.lr === lr && run.warmup === warmup)
    .map(({ depth, accuracy }) => {
      const mean = accuracy.reduce((sum, a) => sum + a, 0) / accuracy.length;
      return { depth, accuracy, mean };
    });
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

function build({ model, root, put }) {
  checkState(model);
  const [wirings, depths] = [model.get("wirings"), model.get("depths")];
  const [rates, warmups] = [model.get("rates"), model.get("warmups")];
  const values = { rms: floats(model.get("rms")), gradient: floats(model.get("gradient")) };
  const how = (warmup) => (warmup ? `${warmup} steps` : "none");
  const pickWiring = choice("Block:", wirings, (wiring) => put({ wiring }));
  const pickDepth = slider("Blocks", (depth) => put({ depth: depths.indexOf(depth) }));
  const pickRate = choice("Learning rate:", rates.map(String), (rate) => put({ rate }));
  const pickWarmup = choice("Warm-up:", warmups.map(how), (warmup) => put({ warmup }));
  const diagram = s("svg", { viewBox: "0 0 200 310", role: "img", class: "vf-block" });
  const code = h("pre", { className: "vf-block-code" });
  const [says, numbers, keys] = [sentence(), facts(), legend()];
  const small = { size: [240, 200], margin: [7, 7, 40, 36] };
  const plots = { rms: axes(small), gradient: axes(small), trained: axes(small) };
  const titled = (title, plot) => h("div", {}, heading(title), plot.node);
  keys.node.classList.add("vf-soft");
  root.append(
    question("What changes when the norms stand elsewhere?"),
    staying(controls(pickWiring.node, pickRate.node, pickWarmup.node, pickDepth.node)),
    h("div", { className: "vf-block-top" }, diagram, h("div", {}, code, says, numbers.node)),
    h(
      "div",
      { className: "vf-block-plots" },
      titled("Size of the stream", plots.rms),
      titled("Gradient of each block", plots.gradient),
      titled("Test accuracy (%)", plots.trained),
    ),
    keys.node,
    soft(
      "The first two are measured before any training, block by block; the third after " +
        `${model.get("steps")} steps of training, over the number of blocks in the stack. The chosen wiring is ` +
        "drawn thick; its band and its dots are the seeds. All stacks but post-norm end in one more norm.",
    ),
  );

  return function draw() {
    const [wiring, depth, rate, warmup] = ["wiring", "depth", "rate", "warmup"].map((name) =>
      needIndex(model.get(name), `${name} number`, model.get(`${name}s`).length),
    );
    const [name, L] = [wirings[wiring], depths[depth]];
    const { parts, code: lines } = WIRES[name];
    pickWiring.show(wiring);
    pickDepth.show(depths, L, `${L} blocks`);
    pickRate.show(rate);
    pickWarmup.show(warmup);
    const { stream, branches } = countNorms(parts);
    const counted = `${stream} norms on the stream, ${branches} on the branches`;
    diagram.setAttribute("aria-label", `${name}: ${counted}. From below: ${lines.join("; ")}.`);
    diagram.replaceChildren(...drawnBlock(parts));
    code.textContent = lines.join("\n");

    // One line for each wiring, the chosen one thick and on top.
    const linesOf = (one) => {
      const all = wirings.map((word, w) => {
        const chosen = w === wiring;
        return { name: word, ...LINES[word], width: chosen ? 3.5 : 1.25, ...one(w, chosen) };
      });
      return [...all.filter((_, w) => w !== wiring), all[wiring]];
    };
    const ends = {};
    for (const what of ["rms", "gradient"]) {
      const curves = wirings.map((_, w) => curveOf(values[what], depths, w, depth));
      const chosen = curves[wiring].ys;
      ends[what] = [chosen[0], chosen.at(-1)].map(number);
      const ticks = logTicks(curves.flatMap(({ low, high }) => [...low, ...high]));
      const xs = Array.from({ length: L }, (_, n) => n + 1);
      plots[what].show({
        label: `${what} of ${L} ${name} blocks: ${ends[what].join(" in the first, ")} in the last`,
        x: { from: 1, to: L, ticks: [1, L / 2, L], label: "block" },
        y: { log: true, from: ticks[0], to: ticks.at(-1), ticks },
        lines: linesOf((w, thick) => (thick ? { xs, ...curves[w] } : { xs, ys: curves[w].ys })),
      });
    }
    const runs = wirings.map((word) =>
      trainings(model.get("trained"), word, rates[rate], warmups[warmup]),
    );
    const words = runs[wiring].map((one) => `${one.depth} blocks ${percent(one.mean, 1)}`);
    const margin = (depths.at(-1) - depths[0]) / 18 || 1;
    plots.trained.show({
      label: `Test accuracy of ${name}: ${words.length ? list(words) : "not trained"}`,
      x: {
        from: depths[0] - margin,
        to: depths.at(-1) + margin,
        ticks: depths,
        label: "blocks in the stack",
      },
      y: { from: 0, to: 100, ticks: [0, 20, 40, 60, 80, 100] },
      guides: [{ y: 10 }, { x: L }], // chance, and the depth that is chosen
      lines: linesOf((w, thick) => ({
        xs: runs[w].map((one) => one.depth),
        ys: runs[w].map(({ mean }) => 100 * mean),
        dots: runs[w].flatMap((one) => one.accuracy.map((share) => [one.depth, 100 * share])),
        radius: thick ? 3.5 : 2,
      })),
    });
    keys.show(
      wirings.map((word, w) => ({ name: word, ...LINES[word], width: w === wiring ? 3.5 : 1.25 })),
    );

    const run = runs[wiring].find((one) => one.depth === L);
    const range = (shares) =>
      `${hundredths(Math.min(...shares), 1)} to ${hundredths(Math.max(...shares), 1)}`;
    const accuracies = run ? `${percent(run.mean, 1)} (${range(run.accuracy)})` : "not trained";
    const setting = `learning rate ${rates[rate]} and ${warmups[warmup] ? `a warm-up of ${warmups[warmup]} steps` : "no warm-up"}`;
    says.textContent =
      `${L} blocks, ${name}. Before training: the rms of the stream is ${ends.rms[0]} after ` +
      `block 1 and ${ends.rms[1]} after block ${L}; the gradient is ${ends.gradient[0]} ` +
      `in block 1 and ${ends.gradient[1]} in block ${L}. ` +
      (run
        ? `Trained with ${setting}: ${accuracies} of the test images right; chance is ${percent(0.1)}.`
        : `This stack was not trained with ${setting}.`);
    numbers.show([
      ["rms, first → last", ends.rms.join(" → ")],
      ["gradient, first → last", ends.gradient.join(" → ")],
      [`accuracy${run ? `, ${run.accuracy.length} seeds` : ""}`, accuracies],
    ]);
  };
}

/** The wires of one block, in 200 × 310: tokens come in below and go out above. */
function drawnBlock(parts) {
  const units = parts.reduce(
    (sum, part) => sum + (Array.isArray(part) ? part.length + 1.3 : 1.1),
    0,
  );
  const unit = Math.min(285 / units, 40);
  const [stream, branch] = [47.5, 140];
  const bottom = (310 + units * unit) / 2 + 2;
  const top = bottom - units * unit;
  const drawn = [];
  const add = (tag, attributes, ...children) => drawn.push(s(tag, attributes, ...children));
  const text = (x, y, word) =>
    add("text", { x, y, "text-anchor": "middle", "dominant-baseline": "central" }, word);
  const box = (x, y, word) => {
    const kind = word === "norm" ? "vf-block-norm" : "vf-block-part";
    const size = { width: 72, height: unit * 0.62, rx: 5 };
    add("rect", { x: x - 36, y: y - unit * 0.31, ...size, class: kind, "data-part": word });
    text(x, y, word);
  };
  add("path", { class: "vf-block-stream", d: `M${stream} ${Math.min(bottom + 7, 310)}V${top}` });
  add("path", { class: "vf-block-tip", d: `M${stream} ${top - 8}l7.8 13h-15.6z` });
  let y = bottom;
  for (const part of parts) {
    if (!Array.isArray(part)) {
      box(stream, y - 0.55 * unit, part);
      y -= 1.1 * unit;
      continue;
    }
    const end = y - (part.length + 0.7) * unit;
    const wire = `M${stream} ${y - 0.15 * unit}H${branch}V${end}H${stream + 10}`;
    add("path", { class: "vf-block-wire", d: wire });
    add("path", { class: "vf-block-head", d: `M${stream + 10} ${end}l8 -4.8v9.6z` });
    part.forEach((name, k) => box(branch, y - (0.7 + k) * unit, name));
    add("circle", { class: "vf-block-part", cx: stream, cy: end, r: 8.5 });
    text(stream, end + 0.5, "+");
    y -= (part.length + 1.3) * unit;
  }
  return drawn;
}

export default figure(build);
