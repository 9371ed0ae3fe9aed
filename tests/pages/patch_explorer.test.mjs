// Run by Node: node --test tests/pages/*.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  cutByReshape,
  cutRight,
  patchSides,
  pixelOf,
  scrambled,
} from "../../vitbook/figures/patch_explorer.js";

const SHAPE = [3, 8, 12]; // C, H, W: pairwise different
const P = 4;
const C = [0, 1, 2];
const everyPixel = C.flatMap((c) =>
  Array.from({ length: 96 }, (_, i) => ({ c, row: Math.floor(i / 12), column: i % 12 })),
);

test("patch sides divide both sides of the image", () => {
  assert.deepEqual(patchSides(96, 96), [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48]);
  assert.deepEqual(patchSides(8, 12), [1, 2, 4]);
  assert.deepEqual(patchSides(28, 28), [1, 2, 4, 7, 14]);
});

test("a pixel by hand", () => {
  // row 5, column 9: second row of patches, third column: token 3 + 2; inside: row 1, column 1
  assert.deepEqual(cutRight(SHAPE, P, 2, 5, 9), { token: 5, place: 2 * 16 + 4 + 1 });
  // stored as number 2 * 96 + 5 * 12 + 9 = 261, and a token has 48 numbers
  assert.deepEqual(cutByReshape(SHAPE, P, 2, 5, 9), { token: 5, place: 21 });
  assert.deepEqual(cutByReshape(SHAPE, P, 0, 5, 9), { token: 1, place: 21 });
});

test("pixelOf undoes cutRight, and each place is taken once", () => {
  const taken = new Set();
  for (const pixel of everyPixel) {
    const { token, place } = cutRight(SHAPE, P, pixel.c, pixel.row, pixel.column);
    assert.deepEqual(pixelOf(SHAPE, P, token, place), pixel);
    taken.add(token * 48 + place);
  }
  assert.equal(taken.size, 3 * 8 * 12);
});

test("scrambled draws place q of token n of reshape where patchify reads it", () => {
  const pixels = Uint8Array.from({ length: 288 }, (_, i) => i % 251);
  const drawn = scrambled(pixels, SHAPE, P);
  for (const { c, row, column } of everyPixel) {
    const { token, place } = cutRight(SHAPE, P, c, row, column);
    assert.equal(drawn[(c * 8 + row) * 12 + column], pixels[token * 48 + place]);
  }
});
