// The races so far, so that a reader can compare them.
import { h } from "../kit/dom.js";
import { percent } from "../kit/words.js";
import { BETS, POSITIONS } from "./speech.js";
import { aheadOf } from "./state.js";

const HEAD = ["your model", "positions", "seed", "right", "yours", "your bet"];

/** A table of races: node, and show(races, changes). */
export function resultTable() {
  const body = h("tbody");
  const head = h("tr", {}, ...HEAD.map((word) => h("th", { scope: "col" }, word)));
  const caption = h("caption", {}, "Your races: accuracy on test images after the last step");
  const node = h("table", { className: "tr-results" }, caption, h("thead", {}, head), body);
  function show(races, changes) {
    node.hidden = !races.length;
    const rows = races.map(({ fault, positions, seed, accuracies, bet }) => {
      const symptom = changes.find(({ name }) => name === fault)?.symptom ?? fault;
      const [right, its] = accuracies.map((share) => percent(share, 1));
      const won = bet in BETS ? `${BETS[bet]} ${bet === aheadOf(accuracies) ? "✓" : "✗"}` : "none";
      const cells = [symptom, POSITIONS[positions], seed, right, its, won];
      return h("tr", {}, ...cells.map((cell) => h("td", {}, String(cell))));
    });
    body.replaceChildren(...rows);
  }
  return { node, show };
}
