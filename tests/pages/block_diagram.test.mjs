// Run by Node: node --test tests/pages/*.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { countNorms, curveOf, trainings, WIRES } from "../../vitbook/figures/block_diagram.js";

test("where the norms stand", () => {
  const counts = Object.fromEntries(
    Object.entries(WIRES).map(([name, { parts }]) => [name, countNorms(parts)]),
  );
  assert.deepEqual(counts, {
    "pre-norm": { stream: 0, branches: 2 },
    "post-norm": { stream: 2, branches: 0 },
    "normalise, then add": { stream: 2, branches: 0 },
    sandwich: { stream: 0, branches: 4 },
  });
});

test("a curve is found where Python put it", () => {
  const values = Float32Array.from({ length: 2 * 3 * (2 + 3) }, (_, i) => i); // two wirings, depths 2 and 3
  assert.deepEqual(curveOf(values, [2, 3], 0, 0), { low: [0, 1], ys: [2, 3], high: [4, 5] });
  assert.deepEqual(curveOf(values, [2, 3], 1, 1), {
    low: [21, 22, 23],
    ys: [24, 25, 26],
    high: [27, 28, 29],
  });
});

test("trainings of one setting", () => {
  const run = { wiring: "pre-norm", depth: 6, lr: 0.001, warmup: 0, accuracy: [0.5, 0.7] };
  const other = { ...run, warmup: 50 };
  const [only, ...none] = trainings([other, run], "pre-norm", 0.001, 0);
  assert.deepEqual(none, []);
  assert.deepEqual([only.depth, only.accuracy], [6, [0.5, 0.7]]);
  assert.ok(Math.abs(only.mean - 0.6) < 1e-12);
  assert.deepEqual(trainings([run], "sandwich", 0.001, 0), []);
});
