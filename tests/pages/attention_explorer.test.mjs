// Run by Node: node --test tests/pages/*.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  decodeRows,
  ranked,
  rolloutRow,
  effectiveTokens,
} from "../../vitbook/figures/attention_explorer.js";
import { weigh } from "../../vitbook/figures/kit/maps.js";

const close = (a, b, within = 1e-6) => {
  assert.equal(a.length, b.length);
  a.forEach((value, i) => assert.ok(Math.abs(value - b[i]) < within, `${a} is not ${b}`));
};

test("rows stored in parts of their largest weight sum to 1", () => {
  const stored = (...values) => Uint8Array.from(values.flatMap((v) => [v % 256, v >> 8]));
  close(decodeRows(stored(65535, 65535, 0, 65535), 2), [0.5, 0.5, 0, 1]);
  close(decodeRows(stored(65535, 21845, 0), 3), [0.75, 0.25, 0]);
  close(decodeRows(stored(65535, 1), 2), [65535 / 65536, 1 / 65536], 1e-7);
  assert.throws(() => decodeRows(stored(255, 1, 0, 0), 2), /row 1 of one of its maps is empty/);
});

// Three tokens, each of which attends to one: the example of chapter 11.
const A1 = [0, 0, 1, 0, 1, 0, 1, 0, 0];
const A2 = [1, 0, 0, 0, 1, 0, 0, 1, 0];
const A3 = [0, 0, 1, 1, 0, 0, 0, 0, 1];
const MEANS = [A1, A2, A3];

test("rollout by hand, the last layer on the left", () => {
  close(rolloutRow(MEANS, 3, 0, 0), [0.5, 0, 0.5]);
  // half of token 0 after layer 1, half of itself there
  close(rolloutRow(MEANS, 3, 1, 0), [0.5, 0, 0.5]);
  // after layer 3: half of row 0, half of row 2 = (row 2 + row 1) / 2 of the first layer's
  close(rolloutRow(MEANS, 3, 2, 0), [0.375, 0.25, 0.375]);
});

test("tokens that attend only to themselves stay themselves", () => {
  const same = [1, 0, 0, 1];
  close(rolloutRow([same, same], 2, 1, 1), [0, 1]);
});

test("the effective number of tokens of a row", () => {
  assert.ok(Math.abs(effectiveTokens(Float32Array.of(0.25, 0.25, 0.25, 0.25)) - 4) < 1e-6);
  assert.equal(effectiveTokens(Float32Array.of(0, 1, 0)), 1);
  assert.deepEqual(ranked(Float32Array.of(0.2, 0.5, 0.2, 0.1)), [1, 0, 2, 3]);
});

// The scores of chapter 3, of shaft, sole and heel, which d = 2 divides.
const SCORES = [0, 2, 2, 1, 0, 1, 1, 2, 3].map((score) => score / Math.SQRT2);

test("a softmax over the keys makes each row sum to 1, over the queries each column", () => {
  const [rows, columns] = ["keys", "queries"].map((axis) => weigh(SCORES, 3, axis, 1));
  close(rows.subarray(0, 3), [0.108, 0.446, 0.446], 5e-4); // as the chapter prints them
  const three = [0, 1, 2];
  const sums = (weights, at) =>
    three.map((i) => three.reduce((sum, j) => sum + weights[at(i, j)], 0));
  close(
    sums(rows, (i, j) => 3 * i + j),
    [1, 1, 1],
  );
  close(
    sums(columns, (i, j) => i + 3 * j),
    [1, 1, 1],
  );
  close(weigh([...SCORES, ...SCORES], 3, "queries", 1), [...columns, ...columns]);
});

test("no scores make all weights equal, large ones make a single weight 1", () => {
  close(weigh(SCORES, 3, "keys", 0), Array(9).fill(1 / 3));
  close(weigh(SCORES, 3, "keys", 32), [0, 0.5, 0.5, 0.5, 0, 0.5, 0, 0, 1]);
});
