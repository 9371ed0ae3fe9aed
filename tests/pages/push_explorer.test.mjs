// Run by Node: node --test tests/pages/*.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { apart, normalised, sizeOf, small, walk } from "../../vitbook/figures/push_explorer.js";

const [boot, bag, push] = [
  [1, -1, 1, -1],
  [1, -1, -1, 1],
  [1, -1, 0, 0],
];
const near = (value, expected, share = 1e-4) =>
  assert.ok(Math.abs(value - expected) < share * expected, `${value} is not ${expected}`);

test("a norm takes away the mean and the size", () => {
  const [token, found] = [[1, 2, 3, 6], normalised([1, 2, 3, 6])];
  near(sizeOf(found), 1);
  near(found[3], 3 / Math.sqrt(3.5));
  assert.ok(Math.abs(found.reduce((a, b) => a + b)) < 1e-12);
  assert.deepEqual(token, [1, 2, 3, 6]);
});

test("post-norm divides at each step, pre-norm once", () => {
  const ends = (post) => [boot, bag].map((x) => walk(x, push, 72, post));
  const [pre, post] = [ends(false), ends(true)];
  assert.equal(pre[0].length, 73);
  for (const n of [0, 1, 12, 72])
    near(apart(pre[0][n].read, pre[1][n].read), 4 / Math.hypot(n + 1, 1));
  near(apart(post[0][1].read, post[1][1].read), (2 * Math.SQRT2) / Math.sqrt(2.5));
  near(apart(post[0][12].read, post[1][12].read), 0.00519, 0.01);
  assert.deepEqual(pre[0][72].sum, [73, -73, 1, -1]);
  near(sizeOf(post[0][1].sum), Math.sqrt(2.5));
});

test("small numbers for people", () => {
  assert.deepEqual([0, 0.0548, 2.8284, 6.02e-17].map(small), ["0", "0.0548", "2.83", "6.0e-17"]);
});
