// Run by Node: node --test tests/pages/*.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { rowsOf, runsOf, seatOf, told } from "../../vitbook/figures/split_explorer.js";

const SHAPE = [2, 3, 4]; // heads, tokens, features of a head: no two are equal
const [H, T, D] = [2, 3, 4];
const numbers = [...Array(H * T * D).keys()];
const wrong = numbers;
const right = numbers.map((at) => {
  const [head, row, column] = [Math.floor(at / (T * D)), Math.floor(at / D) % T, at % D];
  return row * H * D + head * D + column;
});
const names = ["shaft", "heel", "sole"];

test("each number has one seat, and by the right split it stays in the row of its token", () => {
  for (const order of [right, wrong]) {
    const seats = numbers.map((number) => JSON.stringify(seatOf(number, order, SHAPE)));
    assert.equal(new Set(seats).size, H * T * D);
  }
  for (const number of numbers) {
    const seat = {
      head: Math.floor((number % 8) / 4),
      row: Math.floor(number / 8),
      column: number % 4,
    };
    assert.deepEqual(seatOf(number, right, SHAPE), seat);
  }
  assert.deepEqual(seatOf(4, wrong, SHAPE), { head: 0, row: 1, column: 0 });
});

test("a head has a row for each token", () => {
  assert.deepEqual(rowsOf(1, right, SHAPE)[0], [4, 5, 6, 7]);
  assert.deepEqual(rowsOf(0, wrong, SHAPE)[2], [8, 9, 10, 11]);
});

test("in memory the right split takes turns, the wrong one halves", () => {
  const first = runsOf(right, SHAPE);
  assert.deepEqual(
    first.map(({ head }) => head),
    [0, 1, 0, 1, 0, 1],
  );
  assert.deepEqual(first[1], { head: 1, from: 4, to: 7 });
  assert.deepEqual(runsOf(wrong, SHAPE), [
    { head: 0, from: 0, to: 11 },
    { head: 1, from: 12, to: 23 },
  ]);
});

test("words say whose numbers a head takes", () => {
  assert.match(
    told(0, right, SHAPE, names),
    /^Head 0 takes for the shaft its own 0, 1, 2 and 3, for the heel its own 8/,
  );
  assert.match(
    told(0, wrong, SHAPE, names),
    /for the heel the shaft’s 4, 5, 6 and 7 and for the sole the heel’s 8/,
  );
});
