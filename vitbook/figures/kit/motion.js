// Motion, frame by frame; and none where the reader asks for none.

/** Does the reader ask for no motion? */
export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** A share of a way, slow at both ends. */
export const eased = (share) => share * share * (3 - 2 * share);

/** Where x lies between two numbers, from 0 to 1. */
export const between = (x, from, to) => Math.min(1, Math.max(0, (x - from) / (to - from)));

/** each(share) from 0 to 1 in some milliseconds, a call a frame, then done(). Returns what stops it where it is. */
export function glide(milliseconds, each, done = () => {}) {
  let frame = 0;
  let start = null;
  function step(now) {
    start ??= now;
    const share = Math.min(1, (now - start) / milliseconds);
    frame = share < 1 ? requestAnimationFrame(step) : 0;
    each(share);
    if (share === 1) done();
  }
  frame = requestAnimationFrame(step);
  return () => cancelAnimationFrame(frame);
}
