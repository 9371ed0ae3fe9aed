// One forward pass as moments: 0 is the image, 1 its patches, 2 the tokens, 3 what block 0 leaves, ..., L + 3 the answer.
// All that a moment shows is computed from the image at hand; between two moments it is on its way.
import { meanOfHeads, softmax } from "../kit/maps.js";
import { between } from "../kit/motion.js";

export const PATCHES = 1;
export const TOKENS = 2;

/** The number of the last moment, the answer. */
export const answerOf = ({ L }) => L + 3;

/** The names of the moments. */
export function stopsOf({ L }) {
  const blocks = Array.from({ length: L }, (_, block) => `block ${block}`);
  return ["image", "patches", "tokens", ...blocks, "answer"];
}

/** Which of them has come, or is coming. */
export const stopAt = (moment) => Math.ceil(Math.max(0, moment - 1e-9));

/**
 * What is seen at a moment, given what ViT.run gave: shares of a way from 0 to 1, and numbers.
 *   apart   how far the patches have come apart; flown: how far they are on their way to be tokens
 *   block   the block whose attention shows, or -1; row: the share that each token has for token `token`, the mean of its
 *           heads; pulse: how far that has come
 *   tokens  (T, D): in the second half of a block what the block adds is added
 *   grown   how far the bars have grown; shares: those of the classes
 */
export function sceneAt(out, net, moment, token) {
  const { L, h, T } = net;
  const block = out.logits ? Math.min(stopAt(moment) - 1 - TOKENS, L - 1) : -1;
  const inside = moment - TOKENS - block; // in its first half tokens attend, in its second they change
  const map = block < 0 ? null : meanOfHeads(out.maps[block], h);
  return {
    moment,
    apart: between(moment, 0, PATCHES),
    flown: between(moment, PATCHES, TOKENS),
    block: Math.max(-1, block),
    pulse: block < 0 ? 0 : between(inside, 0, 0.5),
    row: map ? map.subarray(token * T, (token + 1) * T) : null,
    tokens: out.logits ? tokensAt(out.tokens, Math.max(-1, block), between(inside, 0.5, 1)) : null,
    grown: between(moment, L + TOKENS, answerOf(net)),
    shares: out.logits ? softmax(out.logits) : null,
  };
}

/** The tokens on their way through a block. */
function tokensAt(tokens, block, done) {
  if (block < 0 || done === 0) return tokens[Math.max(0, block)];
  const [before, after] = [tokens[block], tokens[block + 1]];
  return done === 1 ? after : before.map((number, i) => number + done * (after[i] - number));
}
