// Run by Node: node --test tests/pages/*.test.mjs
// TrainRace: who is ahead, smoothed curves, maps and similarities, small cases by hand.
import assert from "node:assert/strict";
import test from "node:test";
import {
  aheadOf,
  gazeOf,
  receive,
  newRun,
  similarity,
  smooth,
} from "../../vitbook/figures/train_race/state.js";
import { verdict } from "../../vitbook/figures/train_race/speech.js";

test("two points of 500 test images decide", () => {
  assert.equal(aheadOf([0.91, 0.966]), "yours");
  assert.equal(aheadOf([0.966, 0.91]), "right");
  assert.equal(aheadOf([0.96, 0.942]), "equal");
  assert.equal(aheadOf([470 / 500, 480 / 500]), "yours"); // 2 points, whatever the rounding
});

test("a curve is the mean of the last numbers", () => {
  assert.deepEqual(smooth([4, 2, 0, 6], 2), [4, 3, 1, 3]);
  assert.deepEqual(smooth([], 2), []);
});

test("positions that are alike, opposite and apart; row 0 is the cls token's", () => {
  const table = Float32Array.of(9, 9, 1, 0, -2, 0, 0, 3); // (4, 2)
  assert.deepEqual(similarity(table, 4), [
    [1, -1, 0],
    [-1, 1, 0],
    [0, 0, 1],
  ]);
});

test("what row 0 attends to is the mean of the heads", () => {
  const map = new Float32Array(2 * 9); // two heads, 3 tokens
  map.set([0.5, 0.25, 0.25], 0);
  map.set([0, 0.75, 0.25], 9);
  assert.deepEqual(gazeOf(map, 3, 1), [0.5, 0.25]);
  assert.deepEqual(gazeOf(map, 3, 0), [0.25, 0.5]); // a cls token that stands last
});

test("messages add up, and the verdict names what the curves do not show", () => {
  const run = newRun("key");
  receive(run, { step: 0, seconds: 0, losses: [[], []], accuracy: [0.1, 0.1], looks: "old" });
  receive(run, {
    step: 2,
    seconds: 1,
    losses: [
      [3, 2],
      [4, 1],
    ],
    accuracy: null,
    looks: null,
  });
  assert.deepEqual(run.losses, [
    [3, 2],
    [4, 1],
  ]);
  assert.equal(run.looks, "old");
  receive(run, { step: 3, seconds: 2, losses: [[1], [1]], accuracy: [0.9, 0.5], looks: null });
  run.state = "done";
  run.lights[1] = { reference: false, order: false, cut: true };
  const contest = { steps: 3, fault: { training: false } };
  assert.match(
    verdict(run, contest, "right"),
    /right. Before any training the tests reference and order said so/,
  );
  run.judged.at(-1).accuracy = [0.9, 0.91];
  assert.match(
    verdict(run, contest, "right"),
    /equal. Your bet was wrong. The curves do not show that yours is the wrong one; .* do\./,
  );
});
