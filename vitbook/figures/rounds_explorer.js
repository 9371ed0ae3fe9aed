// RoundsExplorer: what is left of an image when attention replaces its patches, round after round.
import { paint } from "./kit/canvas.js";
import { slider } from "./kit/controls.js";
import { controls, h, heading, question, sentence } from "./kit/dom.js";
import { figure, needBytes, needIndex } from "./kit/figure.js";

/** How many rounds there were, in words. */
function roundsInWords(rounds) {
  return rounds === 1 ? "1 round" : `${rounds} rounds`;
}

function build({ model, root, put }) {
  const [side, kinds] = [model.get("side"), model.get("kinds")];
  const counts = [...kinds.keys()];
  const all = needBytes(model.get("pixels"), "images", kinds.length * side * side);
  const show = (canvas, rounds) => {
    paint(all.subarray(rounds * side * side, (rounds + 1) * side * side), [1, side, side], canvas);
    canvas.setAttribute("aria-label", `The boot after ${roundsInWords(rounds)} of attention`);
  };
  const pick = slider("Rounds of attention", (rounds) => put({ rounds }));
  const [first, now, title, says] = [image(), image(), heading(), sentence()];
  root.append(
    question("What is left of a boot when patches only attend to each other?"),
    controls(pick.node),
    h(
      "div",
      { className: "vf-side-by-side" },
      h("div", {}, heading("At first"), framed(first)),
      h("div", {}, title, framed(now)),
    ),
    says,
  );
  show(first, 0);

  return function draw() {
    const rounds = needIndex(model.get("rounds"), "number of rounds", kinds.length);
    pick.show(counts, rounds, roundsInWords(rounds));
    title.textContent = `After ${roundsInWords(rounds)}`;
    show(now, rounds);
    says.textContent =
      `After ${roundsInWords(rounds)} of attention the boot consists of ` +
      `${kinds[rounds]} different patches; at first there were ${kinds[0]}.`;
  };
}

/** A canvas that says what it shows. */
function image() {
  return h("canvas", { role: "img" });
}

/** Sharp pixels, however large. */
function framed(canvas) {
  return h("div", { className: "vf-grid" }, canvas);
}

export default figure(build);
