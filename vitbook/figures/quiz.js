// Quiz: questions with one right answer each; whichever is checked is answered with its own feedback.
import { button, choice } from "./kit/controls.js";
import { h } from "./kit/dom.js";
import { figure, needIndex } from "./kit/figure.js";

/** A text with code between `marks`, as an element. */
function prose(text) {
  const pieces = text.split("`").map((piece, i) => (i % 2 ? h("code", {}, piece) : piece));
  return h("span", {}, ...pieces);
}

/** One question: node, and show(number of the checked answer, or -1). onchecked(number) when the reader checks. */
function ask({ text, answers, right }, onchecked) {
  needIndex(right, "answer", answers.length);
  let picked = -1;
  let shown = -1;
  const options = answers.map((answer) => prose(answer.text));
  const pick = choice(prose(text), options, (answer) => {
    picked = answer;
    onchecked(-1); // what was said belongs to another answer
  });
  for (const input of pick.node.querySelectorAll("input")) input.required = true;
  const check = button("Check this answer", null);
  check.type = "submit";
  const output = h("output");
  const onsubmit = (event) => {
    event.preventDefault();
    onchecked(picked);
  };
  function show(checked) {
    if (checked === shown) return; // announced once
    if (checked !== -1) picked = needIndex(checked, "answer", answers.length);
    shown = checked;
    if (checked === -1) return output.replaceChildren();
    pick.show(picked);
    output.dataset.right = picked === right;
    const verdict = h("strong", {}, picked === right ? "Right." : "Not this one.");
    output.replaceChildren(verdict, " ", prose(answers[picked].feedback));
  }
  return { node: h("form", { onsubmit }, pick.node, check, output), show };
}

function build({ model, root, put }) {
  const questions = model.get("questions");
  if (!Array.isArray(questions) || !questions.length) throw Error("it has no questions");
  const checked = () => {
    const answers = model.get("checked");
    if (!Array.isArray(answers) || answers.length !== questions.length)
      throw Error(`it needs an answer, or -1, for each of ${questions.length} questions`);
    return answers;
  };
  const asked = questions.map((one, i) =>
    ask(one, (answer) => put({ checked: checked().with(i, answer) })),
  );
  root.classList.add("vf-quiz");
  root.append(...asked.map(({ node }) => node));

  return function draw() {
    checked().forEach((answer, i) => asked[i].show(answer));
  };
}

export default figure(build);
