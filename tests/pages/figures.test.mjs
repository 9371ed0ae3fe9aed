// Run by Node: node --test tests/pages/*.test.mjs
// Of the figures whose page is held against torch (test_figures*.py): what their stored data do not bring about.
import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeRows } from "../../vitbook/figures/attention_explorer.js";
import { fewest } from "../../vitbook/figures/clinic.js";
import { nearest, shareOf, size, spoken } from "../../vitbook/figures/cost_explorer.js";
import { weigh } from "../../vitbook/figures/kit/maps.js";
import { brightness } from "../../vitbook/figures/likeness_explorer.js";
import { tileSide } from "../../vitbook/figures/pool_explorer.js";
import { attend } from "../../vitbook/figures/qkv_explorer.js";
import { judge, paired } from "../../vitbook/figures/recipe_explorer.js";
import { apart } from "./numbers.mjs";

test("an empty row of a map is refused, and without scores all weights are equal", () => {
  assert.throws(
    () => decodeRows(Uint8Array.of(255, 0, 1, 0, 0, 0, 0, 0), 2),
    /row 1 of one of its maps/,
  );
  assert.ok(weigh([0, 2, 2, 1], 2, "keys", 0).every((weight) => Math.abs(weight - 0.5) < 1e-6));
});

test("a difference of three seeds may be chance, and so may none at all", () => {
  assert.equal(paired([0.8, 0.7, 0.9], [0.81, 0.72, 0.93]).chance, true); // 3.5 standard errors
  assert.equal(paired([0.8, 0.7, 0.9], [0.819, 0.72, 0.921]).chance, false);
  assert.equal(paired([0.5, 0.5], [0.5, 0.5]).chance, true);
  assert.match(judge({ gap: 0, reach: 0, chance: true }), /^neither more nor less than/);
});

test("sizes for people, and what is nearest by ratio", () => {
  assert.deepEqual([17355276288, 999].map(spoken), ["17.4 billion", "999"]);
  assert.deepEqual([536870912, 12].map(size), ["537\u00a0MB", "12\u00a0bytes"]);
  assert.deepEqual([shareOf(4, 1000), shareOf(57, 100)], ["less than 1\u00a0%", "57\u00a0%"]);
  assert.deepEqual([nearest([4, 32], 11), nearest([1, 2], 100)], [4, 2]);
});

test("the fewest tests that prove a bug are found, also of one that no test refuses", () => {
  const verdicts = ["110", "000", "110", "010", "001", "000"];
  const proofs = [0, 1, 3, 4].map((patient) => fewest([0, 1, 3, 4], verdicts, patient));
  assert.deepEqual(proofs, [[0], [1, 2], [0, 1], [2]]);
});

test("a patch is gone below one cosine and whole above another, a tile never beyond its cell", () => {
  const shown = [-1, 0.2, 0.4, 0.6, 1].map((cosine) => brightness(cosine, [0.2, 0.6]));
  assert.deepEqual(
    shown.map((part) => Math.round(100 * part)),
    [0, 0, 50, 100, 100],
  );
  assert.equal(tileSide(0.5, 0.4), 1);
});

test("attention by hand: equal scores average, a large one picks", () => {
  const [q, v] = [[[0, 0], [1, 0]], [[2], [4]]]; // prettier-ignore
  const k = [[1, 0], [0, 1]]; // prettier-ignore
  const { scores, weights, output } = attend(q, k, v, "keys", Math.SQRT2 * Math.log(3));
  assert.ok(apart(scores, [0, 0, 1, 0]) < 1e-6);
  assert.ok(apart(weights, [0.5, 0.5, 0.75, 0.25]) < 1e-6);
  assert.ok(apart(output, [3, 2.5]) < 1e-6);
  const { weights: columns } = attend(q, k, v, "queries", Math.SQRT2 * Math.log(3));
  assert.ok(apart(columns, [0.25, 0.5, 0.75, 0.5]) < 1e-6);
});
