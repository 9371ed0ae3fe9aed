// What the reader has set, and what a race has said so far.
import { bytes } from "../kit/figure.js";
import { cosines, meanOfHeads } from "../kit/maps.js";

/** What the reader has set, checked: {key, fault, positions, dataset, seed, steps, config, data, classes}. */
export function contestOf(get, seeds) {
  const [dataset, positions, seed, steps] = ["dataset", "positions", "seed", "steps"].map(get);
  const fault = get("changes").find(({ name }) => name === get("fault"));
  if (!fault) throw Error(`it has no fault ${get("fault")}`);
  const images = get("images")[dataset];
  if (!images) throw Error(`it has no images ${dataset}`);
  if (!seeds.includes(seed)) throw Error(`its seed is ${seed}`);
  if (!(Number.isInteger(steps) && steps > 0)) throw Error(`it has ${steps} steps`);
  const start = { learned: {}, none: { pos_embed: "none" }, "std 1": { pos_std: 1 } }[positions];
  if (!start) throw Error(`it has no positions ${positions}`);
  const { meta, config } = images;
  return {
    key: [dataset, fault.name, positions, seed, steps].join(),
    fault,
    positions,
    dataset,
    seed,
    steps,
    config: { ...config, ...start },
    data: { bytes: bytes(images.bytes), meta },
    classes: meta.classes,
  };
}

/** A race that has not begun; of two things the right model's comes first. */
export function newRun(key) {
  return {
    key,
    state: "", // "running", "stopped", "done"
    step: 0,
    seconds: 0,
    lights: [null, null],
    losses: [[], []],
    judged: [], // [{ step, accuracy }, ...]
    looks: null,
    image: null,
  };
}

/** Take in a message of the worker. */
export function receive(run, { step, seconds, losses, accuracy, looks }) {
  Object.assign(run, { step, seconds, looks: looks ?? run.looks });
  losses.forEach((some, racer) => run.losses[racer].push(...some));
  if (accuracy) run.judged.push({ step, accuracy });
}

/** The mean of each number and those before it, at most n. */
export function smooth(numbers, n) {
  let sum = 0;
  return numbers.map((number, i) => {
    sum += number - (i >= n ? numbers[i - n] : 0);
    return sum / Math.min(i + 1, n);
  });
}

const EVEN = 0.02; // two accuracies on 500 images differ by this by chance alone

/** Who is ahead, given the accuracies of the right model and of yours. */
export function aheadOf([right, its]) {
  if (Math.abs(its - right) < EVEN - 1e-9) return "equal";
  return its > right ? "yours" : "right";
}

/** The similarity (cosine) of the positions of all patches, (N, N), from a table (T, D) whose row 0 is the cls token's. */
export function similarity(table, T) {
  const D = table.length / T;
  return Array.from({ length: T - 1 }, (_, n) => cosines(table.subarray(D), D, n));
}

/** What row 0 of a map (h, T, T) says of the patches, the mean of its heads; first is the patches' first column. */
export function gazeOf(map, T, first) {
  return [...meanOfHeads(map, map.length / (T * T)).subarray(first, first + T - 1)];
}
