// Run by Node: node --test tests/pages/*.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { logTicks, ticksOf } from "../../vitbook/figures/kit/axes.js";
import { inOrder } from "../../vitbook/figures/kit/canvas.js";
import { stepToken, tokenAt } from "../../vitbook/figures/kit/grid.js";
import { largest, meanOfHeads } from "../../vitbook/figures/kit/maps.js";
import { partOf } from "../../vitbook/figures/kit/phrases.js";
import {
  hundredths,
  list,
  number,
  percent,
  share,
  whole,
} from "../../vitbook/figures/kit/words.js";

test("ticks are round numbers inside the axis", () => {
  assert.deepEqual(ticksOf(0, 558), [0, 200, 400]);
  assert.deepEqual(ticksOf(1, 6), [1, 2, 3, 4, 5, 6]);
  assert.deepEqual(ticksOf(0.31, 0.72), [0.4, 0.5, 0.6, 0.7]);
});

test("ticks of a logarithmic axis hold all values", () => {
  assert.deepEqual(logTicks([0.04, 0.9]), [0.02, 0.05, 0.1, 0.2, 0.5, 1]);
  assert.deepEqual(logTicks([1, 8.4]), [1, 2, 5, 10]);
  assert.deepEqual(logTicks([1, 1]), [1, 2]);
});

test("numbers for people", () => {
  assert.equal(number(12345), "12,300");
  assert.equal(number(0.0123456), "0.0123");
  assert.equal(whole(12345), "12,345");
  assert.equal(hundredths(0.1236, 1), "12.4");
  assert.equal(percent(0.766), "77\u00a0%");
  assert.equal(percent(0.81234, 2), "81.23\u00a0%");
  assert.equal(list(["one", "two", "three"]), "one, two and three");
});

test("place n shows patch order[n]", () => {
  const pixels = Uint8Array.from({ length: 16 }, (_, i) => i); // 4 × 4 in a grid of 2 × 2
  assert.deepEqual([...inOrder(pixels, [1, 4, 4], [2, 2], [0, 1, 2, 3])], [...pixels]);
  const mixed = [10, 11, 0, 1, 14, 15, 4, 5, 8, 9, 2, 3, 12, 13, 6, 7];
  assert.deepEqual([...inOrder(pixels, [1, 4, 4], [2, 2], [3, 0, 2, 1])], mixed);
  const colours = Uint8Array.from({ length: 12 }, (_, i) => i); // 3 channels of 1 × 4 in a grid of 1 × 2
  const swapped = [2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9];
  assert.deepEqual([...inOrder(colours, [3, 1, 4], [1, 2], [1, 0])], swapped);
});

test("arrow keys walk over the patches and up to cls", () => {
  const grid = [2, 3];
  assert.equal(stepToken(1, 1, 0, grid, 1), 2);
  assert.equal(stepToken(3, 1, 0, grid, 1), 3);
  assert.equal(stepToken(3, 0, 1, grid, 1), 6);
  assert.equal(stepToken(6, 0, 1, grid, 1), 6);
  assert.equal(stepToken(2, 0, -1, grid, 1), 0);
  assert.equal(stepToken(0, 0, -1, grid, 1), 0);
  assert.equal(stepToken(0, 0, 1, grid, 1), 1);
  assert.equal(stepToken(0, 0, -1, grid, 0), 0); // without cls
  assert.equal(stepToken(4, -1, 0, grid, 0), 3);
});

test("a pointer on the image finds its token, above it cls", () => {
  assert.equal(tokenAt(0.5, 0.05, [2, 3], 1, 0.1), 0);
  assert.equal(tokenAt(0, 0.1, [2, 3], 1, 0.1), 1);
  assert.equal(tokenAt(0.999, 0.999, [2, 3], 1, 0.1), 6);
  assert.equal(tokenAt(0.5, 0.54, [2, 3], 1, 0.1), 2);
  assert.equal(tokenAt(0.5, 0.56, [2, 3], 1, 0.1), 5);
  assert.equal(tokenAt(0.5, 0, [2, 3], 0, 0), 1);
});

test("shares in words", () => {
  assert.deepEqual([0.974, 0.123, 0.0994, 0.0123, 0.0001, 0].map(share), [
    "97\u00a0%",
    "12\u00a0%",
    "9.9\u00a0%",
    "1.2\u00a0%",
    "<0.1\u00a0%",
    "0.0\u00a0%",
  ]);
});

test("the largest number, the first of equals", () => {
  assert.equal(largest([1, 3, 2]), 1);
  assert.deepEqual([largest([3, 1, 2], 0), largest([3, 1, 4], 2)], [2, 0]); // one place left out
  assert.equal(largest(Float32Array.of(0.1, 0.5, 0.3, 0.5)), 1);
  assert.equal(largest(Float32Array.of(0.25, 0.25, 0.25, 0.25)), 0);
});

test("the mean of the heads of a block and of a pooling", () => {
  const [first, second] = [
    [1, 0, 1, 0],
    [0.5, 0.5, 1, 0],
  ];
  assert.deepEqual(
    [...meanOfHeads(Float32Array.from([...first, ...second]), 2)],
    [0.75, 0.25, 1, 0],
  );
  assert.deepEqual([...meanOfHeads(Float32Array.of(1, 0, 0.5, 0.5), 2)], [0.75, 0.25]);
});

test("a title names a part, or none", () => {
  const names = ["query", "scores"];
  assert.equal(partOf("scores: row 0, column 12", names), "scores 0 12");
  assert.equal(partOf("query: row 1", names), "query 1");
  assert.equal(partOf("scores", names), "scores");
  assert.equal(partOf("weights: row 0", names), "");
  assert.equal(partOf("Permalink to this heading", names), "");
});
