// Random numbers that depend on a seed alone, the same in every browser.

/** Random numbers in [0, 1) that depend on the seed and the name only: mulberry32, started by FNV-1a. */
export function randoms(seed, name) {
  let state = 2166136261;
  for (const letter of `${seed} ${name}`) state = Math.imul(state ^ letter.charCodeAt(0), 16777619);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** About N(0, 1): twelve random numbers, so that no browser's own logarithm has a say in it. */
export function normal(random) {
  let sum = -6;
  for (let i = 0; i < 12; i++) sum += random();
  return sum;
}

/** Put a list into a random order. */
export function shuffle(order, random) {
  for (let i = order.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [order[i], order[j]] = [order[j], order[i]];
  }
}

/** A random order of n patches that depends on the seed only and leaves not all at home. */
export function shuffledOrder(n, seed) {
  const order = [...Array(n).keys()];
  shuffle(order, randoms(seed, "patches"));
  if (n > 1 && order.every((patch, place) => patch === place)) order.push(order.shift());
  return order;
}
