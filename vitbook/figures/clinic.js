// Clinic: a model with a hidden bug. Each ordered test excludes suspects, until one is left to be named.
import { button } from "./kit/controls.js";
import { h, heading, sentence, soft } from "./kit/dom.js";
import { figure, needIndex } from "./kit/figure.js";
import { list } from "./kit/words.js";

/** The line-up for a patient: of each group of bugs with the same verdicts one, of its own group itself. */
export function lineUp(verdicts, patient) {
  const groups = {};
  verdicts.forEach((row, n) => (groups[row] ??= []).push(n));
  return Object.values(groups).map((group) =>
    group.includes(patient) ? patient : group[patient % group.length],
  );
}

/** Those of a line-up that some tests answer as they answer the patient. */
export function leftBy(tests, lineup, verdicts, patient) {
  return lineup.filter((n) => tests.every((t) => verdicts[n][t] === verdicts[patient][t]));
}

/** The fewest tests that leave the patient alone. */
export function fewest(lineup, verdicts, patient) {
  const all = [...verdicts[patient]].map((_, t) => t);
  let best = all;
  for (let set = 0; set < 2 ** all.length; set++) {
    const tests = all.filter((t) => (set >> t) & 1);
    const alone = leftBy(tests, lineup, verdicts, patient).length === 1;
    if (tests.length < best.length && alone) best = tests;
  }
  return best;
}

/** How often something happened: "1 test", "2 tests". */
const times = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

/** Read the traits; throw an error with words for people unless they fit together. */
function readClinic(model) {
  const names = ["tests", "bugs", "patient", "ordered", "accused", "moves"];
  const it = Object.fromEntries(names.map((name) => [name, model.get(name)]));
  const { tests, bugs, patient, ordered, accused } = it;
  needIndex(patient, "patient", bugs.length);
  for (const t of ordered) needIndex(t, "test", tests.length);
  for (const n of accused) needIndex(n, "bug", bugs.length);
  const verdicts = bugs.map((bug) => bug.verdicts);
  if (verdicts.some((row) => row.length !== tests.length))
    throw Error(`each of its bugs should have ${tests.length} verdicts`);
  const lineup = lineUp(verdicts, patient).sort((a, b) => (bugs[a].name < bugs[b].name ? -1 : 1));
  const solved = accused.includes(patient);
  const open = leftBy(ordered, lineup, verdicts, patient).filter(
    (n) => n === patient || !(solved || accused.includes(n)),
  );
  return { ...it, verdicts, lineup, open, solved };
}

function build({ model, root, put }) {
  let looked = -1; // the suspect of which is said what it does
  const { tests, bugs, lineup: first } = readClinic(model);
  const orders = tests.map((_, t) => button("", () => order(t)));
  const chips = first.map((_, i) => button("", () => look(i)));
  const act = button("", next);
  const [title, shape, count, says] = [heading(), soft(), heading(), sentence()];
  const [does, score, code] = [soft(), soft(), h("pre", { className: "cl-code" })];
  const group = (label, nodes) =>
    h("div", { className: "cl-group", role: "group", "aria-label": label }, ...nodes);
  root.classList.add("cl");
  root.append(
    title,
    shape,
    h(
      "div",
      { className: "cl-room" },
      h("div", {}, heading("Order a test"), group("Tests", orders)),
      h("div", {}, count, group("Suspects", chips)),
    ),
    says,
    does,
    code,
    h("div", { className: "vf-buttons" }, act),
    score,
    soft(
      "All verdicts are measured, on models with random weights: the page runs no model. Of bugs on which all tests ",
      "agree, one is a suspect.",
    ),
  );
  /** A button that is on or off, and keeps the focus either way. */
  const allow = (node, can) => node.setAttribute("aria-disabled", !can);

  function order(t) {
    const { ordered, solved } = readClinic(model);
    if (!solved && !ordered.includes(t)) put({ ordered: [...ordered, t] });
  }

  function look(i) {
    const { lineup, open, solved } = readClinic(model);
    if (solved || !open.includes(lineup[i])) return;
    looked = lineup[i];
    draw();
  }

  function next() {
    const { patient, ordered, accused, moves, open, solved } = readClinic(model);
    if (solved) {
      looked = -1;
      orders[0].focus();
      put({ patient: (patient + 1) % bugs.length, ordered: [], accused: [] });
    } else if (open.includes(looked)) {
      const done = looked === patient ? [ordered.length + accused.length] : [];
      put({ accused: [...accused, looked], moves: [...moves, ...done] });
    }
  }

  function draw() {
    const { patient, ordered, accused, moves, verdicts, lineup, open, solved } = readClinic(model);
    const verdict = (t) => (verdicts[patient][t] === "1" ? "refuses" : "passes");
    const { points, code: lines } = bugs[patient];
    title.textContent = `Patient ${patient + 1} of ${bugs.length}: which bug does this model have?`;
    const accuracy = points ? `${points} points against the right model’s` : "not measured";
    shape.textContent = `Every shape is right. Accuracy: ${accuracy}.`;
    orders.forEach((node, t) => {
      const known = ordered.includes(t);
      node.replaceChildren(tests[t], ...(known ? [" ", h("b", {}, verdict(t))] : []));
      node.dataset.verdict = known ? verdict(t) : "";
      allow(node, !known && !solved);
    });
    count.textContent = `${times(open.length, "suspect")} of ${lineup.length}`;
    const shown = solved ? patient : looked;
    chips.forEach((node, i) => {
      node.textContent = bugs[lineup[i]].name;
      node.setAttribute("aria-pressed", lineup[i] === shown);
      node.classList.toggle("cl-out", !open.includes(lineup[i]));
      allow(node, open.includes(lineup[i]));
    });
    const wrong = accused.filter((n) => n !== patient).map((n) => bugs[n].name);
    const last = ordered.at(-1);
    const said = ordered.length ? [`“${tests[last]}” ${verdict(last)} this model.`] : [];
    if (wrong.length) said.push(`It is not ${list(wrong)}.`);
    if (solved) {
      const proof = fewest(lineup, verdicts, patient).map((t) => tests[t]);
      const effort = [times(ordered.length, "test")];
      if (wrong.length) effort.push(times(wrong.length, "wrong name"));
      said.splice(0, 2, `Right, after ${list(effort)}. The fewest that prove it: ${list(proof)}.`);
    } else said.push(`${times(open.length, "suspect")} left.`);
    says.textContent = said.join(" ");
    does.textContent =
      shown < 0
        ? "Choose a suspect to read what it does."
        : `${bugs[shown].name}: it ${bugs[shown].symptom}.`;
    const diff = solved ? lines.split("\n") : [];
    code.replaceChildren(...diff.map((line) => h(line[0] === "+" ? "ins" : "del", {}, line)));
    code.hidden = !solved;
    const can = !solved && open.includes(looked);
    const name = can ? `Name it: ${bugs[looked].name}` : "Name it";
    act.textContent = solved ? "Next patient" : name;
    allow(act, solved || can);
    const total = moves.reduce((sum, one) => sum + one, 0);
    score.textContent = `So far: ${times(moves.length, "patient")}, ${total} tests and wrong names.`;
  }

  return draw;
}

export default figure(build);
