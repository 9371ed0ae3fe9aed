// Run by Node: node --test tests/pages/*.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { partOf } from "../../vitbook/figures/kit/phrases.js";
import { attend } from "../../vitbook/figures/qkv_explorer.js";

const close = (a, b) => {
  assert.equal(a.length, b.length);
  a.forEach((value, i) => assert.ok(Math.abs(value - b[i]) < 1e-6, `${a} is not ${b}`));
};

test("attention by hand: equal scores average, a large one picks", () => {
  const [q, v] = [[[0, 0], [1, 0]], [[2], [4]]]; // prettier-ignore
  const k = [[1, 0], [0, 1]]; // prettier-ignore
  const { scores, weights, output } = attend(q, k, v, "keys", Math.SQRT2 * Math.log(3));
  close(scores, [0, 0, 1, 0]);
  close(weights, [0.5, 0.5, 0.75, 0.25]);
  close(output, [3, 2.5]);
  close(attend(q, k, v, "queries", Math.SQRT2 * Math.log(3)).weights, [0.25, 0.5, 0.75, 0.5]);
});

test("a title names a part, or none", () => {
  const names = ["query", "scores"];
  assert.equal(partOf("scores: row 0, column 12", names), "scores 0 12");
  assert.equal(partOf("query: row 1", names), "query 1");
  assert.equal(partOf("scores", names), "scores");
  assert.equal(partOf("weights: row 0", names), "");
  assert.equal(partOf("Permalink to this heading", names), "");
});
