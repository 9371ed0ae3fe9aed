// Run by Node: node --test tests/pages/*.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { fewest, leftBy, lineUp } from "../../vitbook/figures/clinic.js";

const VERDICTS = ["110", "000", "110", "010", "001", "000"];

test("a line-up has one bug of each group, and the patient of its own", () => {
  for (const patient of VERDICTS.keys()) {
    const lineup = lineUp(VERDICTS, patient);
    assert(lineup.includes(patient));
    assert.equal(new Set(lineup.map((n) => VERDICTS[n])).size, lineup.length);
    assert.equal(lineup.length, new Set(VERDICTS).size);
  }
});

test("a test leaves those whose verdict is the patient's, and all tests leave it alone", () => {
  const lineup = [0, 1, 3, 4];
  assert.deepEqual(leftBy([], lineup, VERDICTS, 3), lineup);
  assert.deepEqual(leftBy([1], lineup, VERDICTS, 3), [0, 3]);
  for (const patient of lineup)
    assert.deepEqual(leftBy([0, 1, 2], lineup, VERDICTS, patient), [patient]);
});

test("the fewest tests that prove a bug are found, also of one that no test refuses", () => {
  const proofs = [0, 1, 3, 4].map((patient) => fewest([0, 1, 3, 4], VERDICTS, patient));
  assert.deepEqual(proofs, [[0], [1, 2], [0, 1], [2]]);
});
