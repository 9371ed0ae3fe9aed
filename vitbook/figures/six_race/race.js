// The race of several programs in a few workers: who runs where, and what has come back.
import { bytes } from "../kit/figure.js";

const MOST = 3; // workers

/** Programs dealt to workers, in turn. */
export function dealt(programs, workers) {
  return Array.from({ length: workers }, (_, w) => programs.filter((_one, i) => i % workers === w));
}

/** As many workers as there are cores to spare. */
export const workersFor = (programs, cores) => Math.max(1, Math.min(MOST, cores, programs));

/** What the figure shows, checked: {programs, data, config, seed, steps}. */
export function contestOf(get) {
  const [programs, stored, seed, steps] = ["programs", "stored", "seed", "steps"].map(get);
  if (!Array.isArray(programs) || !programs.length) throw Error("it has no programs");
  for (const { letter } of programs)
    if (!stored?.[letter]?.[0]?.length) throw Error(`it has no stored runs of ${letter}`);
  if (!(Number.isInteger(seed) && seed >= 0)) throw Error(`its seed is ${seed}`);
  if (!(Number.isInteger(steps) && steps > 0)) throw Error(`it has ${steps} steps`);
  const { bytes: packed, meta, config } = get("images");
  return { programs, stored, seed, steps, config, data: { bytes: bytes(packed), meta } };
}

/** A race that has not begun: state "", "running" or "done"; curves {letter: [[step, accuracy], ...]}. */
export const newRace = (programs) => ({
  state: "",
  curves: Object.fromEntries(programs.map(({ letter }) => [letter, []])),
  waiting: 0, // workers that have not ended
});

/** Take in a message of the worker that runs these programs; true if the race is over. */
export function take(race, runners, { step, accuracy, last }) {
  if (accuracy) runners.forEach(({ letter }, i) => race.curves[letter].push([step, accuracy[i]]));
  if (last) race.waiting--;
  if (race.waiting === 0) race.state = "done";
  return race.state === "done";
}

/** Whether all programs have been judged equally often. */
export const abreast = ({ curves }) =>
  new Set(Object.values(curves).map(({ length }) => length)).size === 1;

/** Where each program ended, the best first: [[letter, accuracy], ...]. */
export function ranking({ curves }) {
  const ends = Object.entries(curves).map(([letter, curve]) => [letter, curve.at(-1)[1]]);
  return ends.sort(([, a], [, b]) => b - a);
}

const RANKS = ["the highest", "second", "third", "fourth", "fifth"];

/** Its place among n in words; equals share the better place. */
export function rankOf(letter, ranked) {
  const mine = ranked.find(([other]) => other === letter)[1];
  const place = ranked.findIndex(([, accuracy]) => accuracy === mine);
  if (place === 0) return RANKS[0];
  if (ranked.every(([, accuracy]) => accuracy >= mine)) return "the lowest";
  return `${RANKS[place]} of ${ranked.length}`;
}
