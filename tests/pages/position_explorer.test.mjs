// Run by Node: node --test tests/pages/*.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { compare, cosines, nearest } from "../../vitbook/figures/position_explorer.js";

test("cosines by hand", () => {
  const table = [3, 4, 6, 8, -4, 3, -3, -4]; // (N, D) = (4, 2)
  assert.deepEqual(cosines(table, 2, 0), [1, 1, 0, -1]);
});

test("two answers compared", () => {
  const { before, now, shown, points } = compare([0.7, 0.2, 0.1, 0], [0.1, 0.2, 0.1, 0.6]);
  assert.deepEqual([before, now, shown], [0, 3, [0, 3, 1]]);
  assert.ok(Math.abs(points - 60) < 1e-9);
  assert.equal(compare([0.5, 0.5], [0.5, 0.5]).points, 0);
});

test("the nearest place is another place", () => {
  assert.equal(nearest([1, 0.2, 0.5], 0), 2);
  assert.equal(nearest([-0.3, 1, -0.2], 1), 2);
  assert.equal(nearest([0.3, 0.1, 1], 2), 0);
});
