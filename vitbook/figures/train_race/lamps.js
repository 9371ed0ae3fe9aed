// Six tests of properties, run on both models before any training.
import { h, heading } from "../kit/dom.js";
import { darkOf } from "./speech.js";

const TESTS = {
  reference: "each block and each norm computes what an independent implementation does",
  count: "it has as many parameters as a ViT of this size, and each gets a gradient",
  cut: "its tokens are those of patches cut row by row",
  cls: "what is read is the same for all images before the first block",
  order: "patches in another order give other logits",
  scores: "its outputs are scores, not probabilities, and the same in any batch",
};

/** The panel of the tests of yours: node, and show(lights of both, contest). */
export function lightPanel() {
  const [head, rows] = [heading(), h("ul", { className: "tr-lights" })];
  let shown;
  function row([name, words], lights, { positions }) {
    const asked = !(name === "order" && positions === "none");
    const sign = !asked ? "–" : lights[name] ? "✓" : "✗";
    const state = !asked ? "not asked without positions" : lights[name] ? "passes" : "fails";
    const line = h("li", {}, h("b", { ariaHidden: "true" }, sign), `${name} `, h("i", {}, state));
    line.append(h("span", {}, words));
    line.dataset.light = name;
    line.dataset.state = state;
    return line;
  }
  function show([right, its], contest) {
    if (shown === its && its) return;
    shown = its;
    const [dark, wrong] = [darkOf(its), darkOf(right)];
    if (wrong.length) throw Error(`the right model fails ${wrong}`);
    const count = dark.length ? `${dark.length} of 6 fail` : "all pass";
    head.textContent = `Six tests of your model before any training: ${its ? count : "running"}`;
    if (its) rows.replaceChildren(...Object.entries(TESTS).map((test) => row(test, its, contest)));
  }
  return { node: h("div", {}, head, rows), show };
}
