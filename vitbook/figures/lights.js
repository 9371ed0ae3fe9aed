// The six property tests of vitbook.faults, run in the page on a net of train.js: what shapes and curves do not show.
// Each is true for a net that passes.
import { normal, randoms } from "./kit/random.js";
import { layerNorm, plainBlock, plainLinear, plainPatches, weightsOf } from "./reference.js";
import { Trainer } from "./train.js";

const B = 3;

function noise(n, name, std = 1) {
  const random = randoms(0, name);
  return Float32Array.from({ length: n }, () => std * normal(random));
}

/** A copy whose every weight is random: gains of 1, biases of 0 and silent layers hide mistakes. */
function perturbed({ config, faults }) {
  const net = new Trainer(config, { faults });
  for (const [name, { rows, width }] of Object.entries(net.weights))
    net.fill(name, noise(rows * width, name, 0.4));
  return net;
}

const imagesFor = ({ sizes }) => noise(B * sizes.height ** 2, "images");

/** Equal to four digits, as torch.allclose says it. */
const close = (a, b) =>
  a.length === b.length && a.every((x, i) => Math.abs(x - b[i]) <= 1e-4 + 1e-4 * Math.abs(b[i]));

/** Every block and every norm does what plain loops do with the same weights, for faint tokens too. */
function reference(original) {
  const net = perturbed(original);
  const weights = weightsOf(net.asTorch());
  const s = { ...net.sizes, B, T: 7 };
  const tokens = noise(B * s.T * s.D, "tokens");
  return blocksAgree(net, weights, tokens, s) && normsAgree(net, weights, tokens, s);
}

function blocksAgree(net, weights, tokens, s) {
  return Array.from({ length: s.L }).every((_, b) => {
    net.tape.reset();
    const y = net.tape.read(net.block(net.tape.constant(tokens, B * s.T), b, s));
    const length = s.T * s.D;
    return Array.from({ length: B }).every((__, i) => {
      const [mine, its] = [y, tokens].map((x) => x.subarray(i * length, (i + 1) * length));
      return close(mine, plainBlock(s, net.config.norm_eps, weights, b, its, s.T));
    });
  });
}

/** On tokens of a variance like eps, which otherwise hardly counts. */
function normsAgree(net, weights, tokens, s) {
  const eps = net.config.norm_eps;
  const faint = tokens.map((x) => Math.sqrt(eps) * x);
  const its = (name) => (x) => net.norm(x, name);
  const norms = { norm: (x) => net.parts.last(x, its("norm")) };
  for (let b = 0; b < s.L; b++)
    for (const name of [`blocks.${b}.norm1`, `blocks.${b}.norm2`]) norms[name] = its(name);
  return Object.entries(norms).every(([name, norm]) => {
    net.tape.reset();
    const y = net.tape.read(norm(net.tape.constant(faint, B * s.T)));
    const [gain, shift] = [weights[`${name}.weight`], weights[`${name}.bias`]];
    return close(y, layerNorm(faint, B * s.T, s.D, gain, shift, eps));
  });
}

/** It has as many weights as a ViT of its config, and a loss gives every one of them a gradient. */
function count(original) {
  return counted(original) && gradients(perturbed(original)).every((g) => g.some(Boolean));
}

/** Those of all weights that learn. */
function gradients(net) {
  const { tape, weights, sizes } = net;
  tape.reset(true);
  const labels = Array.from({ length: B }, (_, b) => b % sizes.K);
  tape.crossEntropy(net.forward(imagesFor(net), B), labels);
  tape.backward();
  return Object.values(weights)
    .filter(({ learns }) => learns)
    .map((weight) => tape.read(weight, "grad"));
}

function counted({ weights, config, sizes: { length, D, T, L, K, inner } }) {
  const learned = config.pos_embed === "learned";
  const layer = (from, to) => (from + 1) * to;
  const block = layer(D, 3 * D) + layer(D, D) + layer(D, inner) + layer(inner, D) + 4 * D;
  const expected = layer(length, D) + D + learned * T * D + L * block + 2 * D + layer(D, K);
  const learning = Object.values(weights).filter(({ learns }) => learns);
  return learning.reduce((sum, { rows, width }) => sum + rows * width, 0) === expected;
}

/** Its tokens are those of patches cut row by row, each times one matrix. */
function cut(original) {
  const net = perturbed(original);
  const weights = weightsOf(net.asTorch());
  const s = { ...net.sizes, B };
  const images = imagesFor(net);
  net.tape.reset();
  const tokens = net.tape.read(net.patches(images, s));
  const [area, size] = [s.height ** 2, s.N * s.D];
  return Array.from({ length: B }).every((_, i) => {
    const patches = plainPatches(images.subarray(i * area, (i + 1) * area), s);
    const { "patch_embed.proj.weight": weight, "patch_embed.proj.bias": bias } = weights;
    return close(
      tokens.subarray(i * size, (i + 1) * size),
      plainLinear(patches, s.N, weight, bias),
    );
  });
}

/** Before any block has run, what is read at the end is the same for all images, and at each call. */
function cls(original) {
  const net = perturbed(original);
  const { tape, parts, weights } = net;
  const s = { ...net.sizes, B };
  const images = imagesFor(net);
  const [first, again] = [0, 1].map(() => {
    tape.reset();
    const x = parts.prepend(tape, weights["pool.token"], net.patches(images, s), s);
    return tape.read(parts.read(tape, x, s));
  });
  const alike = Float32Array.from(first, (_, i) => first[i % s.D]);
  return close(first, alike) && close(first, again);
}

/** Patches in another order give other logits, unless the config has no positions. */
function order(original) {
  const net = perturbed(original);
  const { height: side, ph: patch } = net.sizes;
  if (net.config.pos_embed === "none") return true;
  const images = imagesFor(net);
  const from = (x) => (x + side - patch) % side; // one patch down, one to the right
  const rolled = images.map((_, i) => {
    const [image, y, x] = [Math.floor(i / side ** 2), Math.floor(i / side) % side, i % side];
    return images[(image * side + from(y)) * side + from(x)];
  });
  return !close(net.logits(images), net.logits(rolled));
}

/** Each row holds scores of one image, the same in any batch: neither they nor their exponentials sum to 1. */
function scores(original) {
  const net = perturbed(original);
  const { K, height: side } = net.sizes;
  const images = imagesFor(net);
  const logits = net.logits(images);
  const row = (x, i, n) => x.subarray(i * n, (i + 1) * n);
  const rows = [...Array(B).keys()];
  const alone = rows.flatMap((b) => [...net.logits(row(images, b, side ** 2))]);
  const sums = (f) => rows.map((b) => row(logits, b, K).reduce((sum, z) => sum + f(z), 0));
  const [plain, raised] = [sums((z) => z), sums(Math.exp)];
  const ones = rows.map(() => 1);
  return close(logits, alone) && !close(plain, ones) && !close(raised, ones);
}

const TESTS = { reference, count, cut, cls, order, scores };

/** The verdicts on a net: {reference: true, count: true, ...}. */
export function lights(net) {
  return Object.fromEntries(Object.entries(TESTS).map(([name, test]) => [name, test(net)]));
}
