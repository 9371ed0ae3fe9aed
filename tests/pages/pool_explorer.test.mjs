// Run by Node: node --test tests/pages/*.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { honest, tileSide } from "../../vitbook/figures/pool_explorer.js";

test("the area of a tile is its share of the largest weight", () => {
  for (const [weight, largest] of [
    [0.1, 0.4],
    [0.4, 0.4],
    [0, 0.4],
    [0.03, 0.9],
  ])
    assert.ok(Math.abs(tileSide(weight, largest) ** 2 - weight / largest) < 1e-12);
  assert.equal(tileSide(0.5, 0.4), 1); // never beyond its cell
});

test("each pooling says whether its weights are exact", () => {
  assert.match(honest("mean", 1, 16, 0), /^Exact: every token has the weight 1\/16\.$/);
  assert.match(honest("attn", 2, 16, 0), /^Exact: .* mean of 2 heads\.$/);
  assert.doesNotMatch(honest("attn", 1, 16, 0), /heads/);
  assert.match(
    honest("cls", 4, 16, 0.104),
    /^An approximation: .* last block, mean of 4 heads\. .* 10\u00a0% to itself\.$/,
  );
});
