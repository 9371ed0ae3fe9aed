// Run by Node: node --test tests/pages/*.test.mjs
// SixRace: who runs where, what comes back, and who is where at the end.
import assert from "node:assert/strict";
import test from "node:test";
import { keepApart } from "../../vitbook/figures/kit/axes.js";
import {
  abreast,
  dealt,
  newRace,
  rankOf,
  ranking,
  take,
  workersFor,
} from "../../vitbook/figures/six_race/race.js";

const programs = [..."ABCDEF"].map((letter) => ({ letter }));

test("each program runs in one worker, and no worker is idle", () => {
  for (const cores of [1, 2, 3, 16]) {
    const hands = dealt(programs, workersFor(programs.length, cores));
    assert.equal(hands.length, Math.min(cores, 3));
    assert.deepEqual(
      hands
        .flat()
        .map(({ letter }) => letter)
        .sort(),
      [..."ABCDEF"],
    );
    assert.ok(hands.every((hand) => hand.length === 6 / hands.length));
  }
});

test("a race is over when its last worker is", () => {
  const race = { ...newRace(programs), state: "running", waiting: 2 };
  const [one, other] = dealt(programs, 2);
  assert.equal(take(race, one, { step: 0, accuracy: [0.1, 0.1, 0.2], last: false }), false);
  assert.equal(take(race, one, { step: 3, accuracy: null, last: false }), false);
  assert.equal(take(race, one, { step: 9, accuracy: [0.7, 0.9, 0.8], last: true }), false);
  assert.ok(!abreast(race)); // the other worker's three have not been judged
  assert.equal(take(race, other, { step: 9, accuracy: [0.5, 0.6, 0.7], last: true }), true);
  assert.equal(race.state, "done");
  assert.ok(!abreast(race) && abreast({ curves: { A: [[0, 0.1]], B: [[0, 0.2]] } }));
  assert.deepEqual(race.curves.A, [
    [0, 0.1],
    [9, 0.7],
  ]);
  const ranked = ranking(race);
  assert.deepEqual(
    ranked.map(([letter]) => letter),
    ["C", "E", "A", "F", "D", "B"],
  );
  const places = ["C", "E", "A", "F", "D", "B"].map((letter) => rankOf(letter, ranked));
  const third = "third of 6"; // A and F are equal
  assert.deepEqual(places, [
    "the highest",
    "second of 6",
    third,
    third,
    "fifth of 6",
    "the lowest",
  ]);
});

test("tags keep apart, and stay where there is room", () => {
  assert.deepEqual(keepApart([10, 100], 14), [10, 100]);
  const [high, low] = keepApart([52, 50], 14);
  assert.ok(Math.abs(high - low - 14) < 1e-6 && Math.abs(high + low - 102) < 1e-6);
  const some = keepApart([10, 11, 12, 60], 14);
  assert.ok(some.every((one, i) => i === 0 || one - some[i - 1] > 13.9));
});
