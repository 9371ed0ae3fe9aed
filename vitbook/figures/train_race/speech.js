// All that the figure says in sentences.
import { list, percent, whole } from "../kit/words.js";
import { darkOf } from "./lamps.js";
import { aheadOf } from "./state.js";

export const BETS = { yours: "yours", right: "the right model", equal: "about equal" };
export const POSITIONS = {
  learned: "standard deviation 0.02",
  "std 1": "standard deviation 1",
  none: "none",
};
export const IMAGES = { digits: "digits", fashion_mnist: "Fashion-MNIST" };
export const BATCH = 32;
export const NAMES = ["right", "yours"];

export const betLegend = (steps) =>
  `Your bet: ahead after ${whole(steps)} steps (about equal: less than 2 points apart):`;

/** What is changed, and what is not. */
export function yours({ fault, positions }) {
  const moot = fault.table && positions === "none";
  const but = moot ? " Without positions there is no table to be wrong: both are the same." : "";
  return `Your model ${fault.symptom}. All else is the right model's: seed, initial weights, batches.${but}`;
}

/** How far the race is, as facts. */
export function progress({ step, seconds, losses, judged }, { steps }) {
  const both = (values) => (values ? `right ${values[0]}, yours ${values[1]}` : "none yet");
  const last = losses.map((some) => some.at(-1)?.toFixed(2));
  const rate = seconds > 0 ? whole(Math.round((2 * BATCH * step) / seconds)) : "none yet";
  return [
    ["step", `${whole(step)} of ${whole(steps)}`],
    ["images a second", rate],
    ["loss", both(last[0] && last)],
    ["accuracy", both(judged.at(-1)?.accuracy.map((share) => percent(share, 1)))],
  ];
}

/** What the race has shown, once it is over. */
export function verdict({ state, lights: shown, judged }, { steps, fault }, bet) {
  if (state === "running") return "Training.";
  if (state === "stopped") return "Stopped before the end: no verdict.";
  if (!state) return bet in BETS ? "Press Train." : "Bet first, then train.";
  const { accuracy } = judged.at(-1);
  const [right, its] = accuracy.map((share) => percent(share, 1));
  const ahead = aheadOf(accuracy);
  const who = {
    yours: "yours is ahead",
    right: "the right model is ahead",
    equal: "less than 2 points apart, about equal",
  }[ahead];
  const won = !(bet in BETS) ? "" : bet === ahead ? " Your bet was right." : " Your bet was wrong.";
  const dark = darkOf(shown[1]);
  const tests = `the ${dark.length > 1 ? "tests" : "test"} ${list(dark)}`;
  const told = dark.length > 1 ? "do" : "does";
  let lesson = "";
  if (dark.length && ahead === "right") lesson = ` Before any training ${tests} said so.`;
  else if (dark.length)
    lesson = ` The curves do not show that yours is the wrong one; ${tests} ${told}.`;
  else if (fault.training)
    lesson = " No test of the model fails: the fault is in the training loop.";
  return `After ${whole(steps)} steps the right model classifies ${right} of the test images correctly, yours ${its}: ${who}.${won}${lesson}`;
}
