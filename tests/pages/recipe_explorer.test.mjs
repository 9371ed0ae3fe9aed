// Run by Node: node --test tests/pages/*.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  bandOf,
  deviation,
  judge,
  meanOf,
  middles,
  paired,
} from "../../vitbook/figures/recipe_explorer.js";

const close = (a, b) => assert.ok(Math.abs(a - b) < 1e-12, `${a} is not ${b}`);

test("a band is the lowest, mean and highest at each point", () => {
  const rows = [
    [1, 5],
    [3, 4],
    [2, 9],
  ];
  assert.deepEqual(bandOf(rows), { low: [1, 4], ys: [2, 6], high: [3, 9] });
});

test("mean and standard deviation of a sample", () => {
  close(meanOf([2, 4, 4, 4, 5, 5, 7, 9]), 5);
  close(deviation([2, 4, 4, 4, 5, 5, 7, 9]), Math.sqrt(32 / 7));
  close(deviation([3, 3]), 0);
});

test("a difference is taken seed by seed", () => {
  const { gap, reach, chance } = paired([0.8, 0.7, 0.9], [0.81, 0.72, 0.93]);
  close(gap, 0.02);
  close(reach, (4.3027 * 0.01) / Math.sqrt(3)); // although the accuracies themselves vary by 0.1
  assert.equal(chance, true); // 3.5 standard errors: with three seeds that happens
  assert.equal(paired([0.8, 0.7, 0.9], [0.819, 0.72, 0.921]).chance, false);
  assert.equal(paired([0.8, 0.7, 0.9], [0.9, 0.6, 0.91]).chance, true);
  assert.equal(paired([0.5, 0.5], [0.5, 0.5]).chance, true);
});

test("what a difference says", () => {
  const words = judge({ gap: -0.0123, reach: 0.004, chance: false });
  assert.equal(
    words,
    "1.23 points less than the recipe (95 % interval ± 0.40), more than chance gives 1 time in 20.",
  );
  assert.match(
    judge({ gap: 0.001, reach: 0.004, chance: true }),
    /0\.10 points more .* may be chance\.$/,
  );
  assert.match(judge({ gap: 0, reach: 0, chance: true }), /^neither more nor less than/);
});

test("a mean of steps lies in their middle, also that of a shorter last stretch", () => {
  assert.deepEqual(middles(10, 5), [1, 3, 5, 7, 9]);
  assert.deepEqual(middles(7, 3), [1.5, 4.5, 6.5]);
  assert.equal(middles(558, 56).length, 56);
});
