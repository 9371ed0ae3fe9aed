// The parts that a ViT (vit.js) is made of, each a small function: what a fault can be in (../faults.js).
//
// t is the tape (tape.js); s are the sizes {B, N, T, D, h, d, ...}: B images, N patches, T tokens, width D, h heads of
// d numbers; s.normal() draws a number. Tensors are rows of numbers, image after image, so that tokens are (B T, D).
import { shuffle } from "./random.js";

/** A list of n integers, made by a function of their number. */
export const integers = (n, f) => Int32Array.from({ length: n }, (_, i) => f(i));

/** Rows of x, D wide, by their numbers: (n, D). */
export const rowsOf = (t, x, n, D, row) =>
  t.take(
    x,
    integers(n, (i) => row(i) * x.cols),
    D,
  );

/** One token (1, D) stands at place `seat` of each image, the patches in the places left over: (B N, D) -> (B T, D). */
export function seated(t, token, patches, { B, N, T, D }, seat) {
  const tokens = rowsOf(t, token, B, D, () => 0);
  const place = (n) => (n < seat ? n : n + 1);
  const places = [
    integers(B, (b) => b * T + seat),
    integers(B * N, (i) => Math.floor(i / N) * T + place(i % N)),
  ];
  return t.join([tokens, patches], places);
}

/** Is a weight a matrix, so that it multiplies? Positions and tokens are added. */
export const isMatrix = (name, { rows }) => rows > 1 && name !== "positions.table";

export const RIGHT = {
  // Which pixel of the image is number i of patch n.
  pixel: (n, i, { height, width, ph, pw, cols }) => {
    const [channel, y, x] = [Math.floor(i / (ph * pw)), Math.floor(i / pw) % ph, i % pw];
    return (channel * height + Math.floor(n / cols) * ph + y) * width + (n % cols) * pw + x;
  },
  // The cls token joins the patches; (B N, D) -> (B T, D).
  prepend: (t, token, patches, s) => seated(t, token, patches, s, 0),
  // One vector of the table is added at each place; s.seats says which, where some patches are no tokens.
  positions: (t, x, table, { B, T, D, seats }) =>
    t.add(
      x,
      rowsOf(t, table, B * T, D, (row) => seats?.[row % T] ?? row % T),
    ),
  // The norm after the last block.
  last: (x, norm) => norm(x),
  // What is read at the end; (B T, D) -> (B, D).
  read: (t, x, { B, T, D }) => rowsOf(t, x, B, D, (b) => b * T),
  // Where the d numbers of a head begin among the rows of q, k and v; part is 0, 1, 2.
  split: (b, head, i, part, { T, D, d }) => ((b * T + i) * 3 + part) * D + head * d,
  // Where the d numbers that token i gets of a head begin among the heads' rows.
  merge: (b, i, head, { h, T, d }) => ((b * h + head) * T + i) * d,
  // What the heads make of q, k and v, each (B h T, d).
  mix: (q, k, v, { scores, times, softmax, mixed, d }) =>
    mixed(softmax(times(scores(q, k), 1 / Math.sqrt(d))), v),
  // The wiring of a block.
  block: (x, { attention, mlp, norm1, norm2, add }) => {
    x = add(x, attention(norm1(x)));
    return add(x, mlp(norm2(x)));
  },
  // What becomes of the logits.
  logits: (t, x) => x,
  // Training. Which weights learn.
  learns: () => true,
  // Are the gradients set to zero before each step?
  cleared: true,
  // The order of an epoch's images.
  order: (order, labels, random) => shuffle(order, random),
};

/** Norms after the sums, and none at the end: config.norm is "post". */
export const POST = {
  block: (x, { attention, mlp, norm1, norm2, add }) => {
    x = norm1(add(x, attention(x)));
    return norm2(add(x, mlp(x)));
  },
  last: (x) => x,
};

/** No cls token: the mean of the patches' tokens is read, or what ViT.attentionPool makes of them. */
export const WITHOUT_CLS = {
  prepend: (t, token, patches) => patches,
  read: (t, x, { T }) => t.means(x, T),
};
