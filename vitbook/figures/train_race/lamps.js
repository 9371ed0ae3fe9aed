// Six tests of properties, run on both models before any training.
import { h, heading } from "../kit/dom.js";

const TESTS = {
  reference: "each block and each norm computes what an independent implementation does",
  count: "it has as many parameters as a ViT of this size, and each gets a gradient",
  cut: "its tokens are those of patches cut row by row",
  cls: "what is read is the same for all images before the first block",
  order: "patches in another order give other logits",
  scores: "its outputs are scores, not probabilities, and the same in any batch",
};

/** The names of the tests that a model fails. */
export const darkOf = (lights) => Object.keys(lights ?? {}).filter((name) => !lights[name]);

/** The line of one test: its sign and state, and in small words what it asks. */
function lampRow([name, words], state, sign) {
  const line = h("li", {}, h("b", { ariaHidden: "true" }, sign), `${name} `, h("i", {}, state));
  line.append(h("span", {}, words));
  line.dataset.light = name;
  line.dataset.state = state;
  return line;
}

/** A list of the six tests: node, and show(lights, stateOf) where stateOf(name) is "" or what to say in place of a verdict. */
export function lampList() {
  const node = h("ul", { className: "tr-lights" });
  function show(lights, stateOf = () => "") {
    const rows = Object.entries(TESTS).map((test) => {
      const other = stateOf(test[0]);
      if (other) return lampRow(test, other, "–");
      return lights[test[0]] ? lampRow(test, "passes", "✓") : lampRow(test, "fails", "✗");
    });
    node.replaceChildren(...rows);
  }
  const names = Object.keys(TESTS);
  return { node, show, names, count: names.length };
}

/** The panel of the tests of yours: node, and show(lights of both, contest). */
export function lightPanel() {
  const [head, list] = [heading(), lampList()];
  let shown;
  function show([right, its], { positions }) {
    if (shown === its && its) return;
    shown = its;
    const [dark, wrong] = [darkOf(its), darkOf(right)];
    if (wrong.length) throw Error(`the right model fails ${wrong}`);
    const count = dark.length ? `${dark.length} of 6 fail` : "all pass";
    head.textContent = `Six tests of your model before any training: ${its ? count : "running"}`;
    const moot = (name) =>
      name === "order" && positions === "none" ? "not asked without positions" : "";
    if (its) list.show(its, moot);
  }
  return { node: h("div", {}, head, list.node), show };
}
