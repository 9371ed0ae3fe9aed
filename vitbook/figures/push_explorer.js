// PushExplorer: what a push that all images share does to what differs between them, as the norm moves from branch to stream.
import { axes, legend } from "./kit/axes.js";
import { choice, slider } from "./kit/controls.js";
import { controls, facts, h, heading, question, sentence, staying } from "./kit/dom.js";
import { figure, needIndex } from "./kit/figure.js";
import { number } from "./kit/words.js";

const EPS = 1e-5; // PyTorch's default
const WIDEST = 2.7; // of feature 1 that the plane shows
const [SHARED, DIFFERS] = [0, 2]; // the features that the plane shows

/** The root of the mean of the squares. */
export function sizeOf(x) {
  return Math.sqrt(x.reduce((sum, value) => sum + value * value, 0) / x.length);
}

const meanOf = (x) => x.reduce((sum, value) => sum + value, 0) / x.length;
const centredOf = (x) => x.map((value) => value - meanOf(x));
const divisorOf = (x) => Math.sqrt(sizeOf(centredOf(x)) ** 2 + EPS);

/** LayerNorm of one token, with gains of 1 and biases of 0. */
export function normalised(x) {
  return centredOf(x).map((value) => value / divisorOf(x));
}

/** What LayerNorm makes of a small change of its input x. */
export function changed(x, change) {
  const y = normalised(x);
  const along = meanOf(y.map((value, i) => value * change[i]));
  return centredOf(change).map((value, i) => (value - y[i] * along) / divisorOf(x));
}

/**
 * A token pushed 0 to `most` times, of which a share passes a norm: 0 is pre-norm, 1 is post-norm.
 * [{ from, sum, read, gradient }, ...]: read as the head reads it, normalised; gradient: of feature 3, at the start.
 */
export function walk(start, push, most, share) {
  const mixed = (x, y) => x.map((value, i) => (1 - share) * value + share * y[i]);
  const seen = (sum, change) => changed(sum, change)[DIFFERS];
  let [from, change] = [start, [0, 0, 1, -1]];
  const steps = [{ from, sum: from, read: normalised(from), gradient: seen(from, change) }];
  while (steps.length <= most) {
    const sum = from.map((value, i) => value + push[i]);
    const read = normalised(sum);
    const [before, after] = [change, changed(sum, change)];
    steps.push({ from, sum, read, gradient: seen(sum, before) });
    [from, change] = [mixed(sum, read), mixed(before, after)];
  }
  return steps;
}

/** How far two tokens are apart. */
export function apart(x, y) {
  return Math.hypot(...x.map((value, i) => value - y[i]));
}

/** A number for people, however small. */
export function small(value) {
  return value === 0 || Math.abs(value) >= 0.001 ? number(value) : value.toExponential(1);
}

/** A point of the plane; beyond its edge, where the line to the centre meets the edge. */
function inside(x) {
  const shrink = Math.min(1, WIDEST / x[SHARED]);
  return [x[SHARED] * shrink, x[DIFFERS] * shrink];
}

const LOOKS = { boot: { color: "green" }, bag: { color: "pink" } };
const ENDS = { "post-norm": { color: "mark" }, "pre-norm": { color: "blue", dash: "7 4" } };
const nameOf = (share) =>
  ({ 0: "pre-norm", 1: "post-norm" })[share] ?? `norm on ${100 * share} % of the stream`;
const ARC = Array.from({ length: 61 }, (_, i) => ((i - 30) / 30) * 1.75); // radians

/** The circle of size 1, and one step of each token: along the push, then to the circle. */
function plane(steps) {
  const radius = Math.SQRT2; // a token (a, -a, b, -b) of size 1
  const circle = {
    name: "size 1",
    color: "soft",
    width: 1.5,
    xs: ARC.map((angle) => radius * Math.cos(angle)),
    ys: ARC.map((angle) => radius * Math.sin(angle)),
  };
  const moves = Object.entries(steps).flatMap(([name, { from, sum, read }]) => {
    const [end, back] = [inside(sum), inside(read)];
    const pushed = { name: `${name}, push`, ...LOOKS[name], xs: [], ys: [] };
    if (sum[SHARED] <= WIDEST) {
      pushed.xs = [from[SHARED], end[0]];
      pushed.ys = [from[DIFFERS], end[1]];
    }
    const norm = { name: `${name}, norm`, ...LOOKS[name], dash: "2 4" };
    return [
      pushed,
      { ...norm, xs: [end[0], back[0]], ys: [end[1], back[1]], dots: [end], radius: 3.5 },
      { name, ...LOOKS[name], dots: [back], radius: 8 },
    ];
  });
  return [circle, ...moves];
}

function build({ model, root, put }) {
  const [shares, gains, most] = [model.get("shares"), model.get("gains"), model.get("most")];
  const tokens = { boot: model.get("boot"), bag: model.get("bag") };
  const push = model.get("push");
  for (const [name, x] of Object.entries({ ...tokens, push }))
    if (!Array.isArray(x) || x.length !== 4 || !x.every(Number.isFinite))
      throw Error(`its ${name} should be four numbers`);
  if (!(Number.isInteger(most) && most > 0)) throw Error(`its most is ${most}`);
  const outside = shares.find((share) => !(share >= 0 && share <= 1));
  if (outside !== undefined) throw Error(`it has a norm on a share of ${outside}`);

  const pickShare = slider("The norm, from branch to stream", (share) => put({ share }));
  const pickPushes = slider("Number of pushes", (pushes) => put({ pushes }));
  const pickGain = choice("Size of a push:", gains.map(String), (gain) => put({ gain }));
  const square = { size: [330, 332], margin: [16, 12, 44, 46] };
  const [place, curve] = [axes(square), axes({ ...square, margin: [16, 12, 44, 58] })];
  const [names, wires, says, numbers] = [legend(), legend(), sentence(), facts()];
  const titled = (title, plot, keys) => h("div", {}, heading(title), plot.node, keys.node);
  root.append(
    question("Can a head still tell the boot from the bag?"),
    staying(controls(pickShare.node, pickGain.node, pickPushes.node)),
    h(
      "div",
      { className: "vf-side-by-side vf-push" },
      titled("The last push, and the norm", place, names),
      titled("Distance of boot and bag", curve, wires),
    ),
    says,
    numbers.node,
  );
  names.show([
    { name: "boot", ...LOOKS.boot },
    { name: "bag", ...LOOKS.bag },
  ]);
  const counts = [...Array(most + 1).keys()];
  const walks = (share, g) => {
    const scaled = push.map((value) => gains[g] * value);
    return Object.fromEntries(
      Object.entries(tokens).map(([name, x]) => [name, walk(x, scaled, most, share)]),
    );
  };
  const all = shares.map((share) => gains.map((_, g) => walks(share, g)));
  const distances = ({ boot, bag }) => counts.map((n) => apart(boot[n].read, bag[n].read));

  return function draw() {
    const chosen = needIndex(model.get("share"), "share", shares.length);
    const gain = needIndex(model.get("gain"), "gain", gains.length);
    const n = needIndex(model.get("pushes"), "number of pushes", most + 1);
    const here = all[chosen][gain];
    const now = { boot: here.boot[n], bag: here.bag[n] };
    const lines = shares.map((share, k) => ({
      name: nameOf(share),
      ...(ENDS[nameOf(share)] ?? { color: k === chosen ? "ink" : "line" }),
      width: k === chosen ? 3.5 : 1.5,
      xs: counts,
      ys: distances(all[k][gain]),
    }));
    const far = lines[chosen].ys;
    lines[chosen].dots = [[n, far[n]]];
    pickShare.show([...shares.keys()], chosen, nameOf(shares[chosen]));
    pickGain.show(gain);
    pickPushes.show(counts, n, n === 1 ? "1 push" : `${n} pushes, ${n / 2} blocks`);
    says.textContent =
      `${nameOf(shares[chosen])}, ${n} ${n === 1 ? "push" : "pushes"}: as the head reads them, feature 3 is ` +
      `${small(now.boot.read[DIFFERS])} in the boot and ${small(now.bag.read[DIFFERS])} in the bag. ` +
      `Their distance in all four features is ${small(far[n])}; it was ${small(far[0])}.`;
    numbers.show([
      ["distance", small(far[n])],
      ["the last norm divides by", small(sizeOf(now.boot.sum))],
      [
        "gradient at the start (1 without pushes)",
        small(now.boot.gradient / here.boot[0].gradient),
      ],
    ]);
    place.show({
      label: `Feature 1 to the right, feature 3 upwards, and the circle of size 1. ${says.textContent}`,
      x: { from: -0.5, to: WIDEST, ticks: [0, 1, 2], label: "feature 1, which they share" },
      y: { from: -1.6, to: 1.6, ticks: [-1, 0, 1], label: "feature 3" },
      lines: plane(now),
    });
    const powers = [-15, -10, -5, 0].map((power) => [10 ** power, power ? `1e${power}` : "1"]);
    curve.show({
      label: `The distance over the pushes, logarithmic. ${says.textContent}`,
      x: { from: 0, to: most, ticks: counts.filter((k) => k % 12 === 0), label: "pushes" },
      y: { log: true, from: 1e-17, to: 10, ticks: powers },
      guides: [{ x: n }],
      lines: [...lines.filter((_, k) => k !== chosen), lines[chosen]],
    });
    wires.show(lines.filter(({ name }, k) => ENDS[name] || k === chosen));
  };
}

export default figure(build);
