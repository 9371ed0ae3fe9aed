// What the network answers: a bar for each class, and where it stood for the untouched image.
import { h, heading } from "../kit/dom.js";
import { largest, softmax } from "../kit/maps.js";
import { share } from "../kit/words.js";

const MOST = 10; // of more classes the most probable are shown

export function answerPanel({ classes, labels, known }) {
  const bars = Array.from({ length: Math.min(classes.length, MOST) }, makeBar);
  const clock = h("span");
  const [was, shows] = [
    h("span", {}, h("i", { "aria-hidden": "true" }), "before you changed it"),
    h("span", {}, h("b", { "aria-hidden": "true" }, "✓"), "what the image shows"),
  ];
  const keys = h("p", { className: "lv-keys vf-soft vf-number" }, was, shows, clock);

  function show({ image }, { out: { logits }, untouched, ms }) {
    const shares = logits ? softmax(logits) : classes.map(() => 0);
    const before = untouched ? softmax(untouched) : shares;
    const ranked = classes.map((_, k) => k);
    const weight = (k) => Math.max(shares[k], before[k]);
    if (classes.length > bars.length) ranked.sort((a, b) => weight(b) - weight(a));
    const best = logits ? largest(shares) : -1;
    const truth = known && image >= 0 ? labels[image] : -1;
    bars.forEach((bar, i) => {
      const k = ranked[i];
      bar.show(classes[k], k === truth, shares[k], before[k], k === best);
    });
    shows.hidden = truth < 0;
    // Some browsers count in whole milliseconds only.
    clock.textContent =
      ms === null ? "" : `computed here in ${ms < 1 ? "less than 1" : Math.round(ms)} ms`;
  }
  /** How far the bars have grown, from 0 to 1; the numbers come at the end. */
  const grow = (grown) => {
    lines.style.setProperty("--lv-grown", grown);
    lines.toggleAttribute("data-growing", grown < 1);
  };
  const lines = h("ul", { className: "lv-bars" }, ...bars.map(({ node }) => node));
  return {
    node: h("div", { className: "lv-answer" }, heading("The answer"), lines, keys),
    show,
    grow,
  };
}

function makeBar() {
  const [name, mark, bar, tick, number] = [h("span"), h("span"), h("b"), h("i"), h("span")];
  const rail = h("span", { className: "lv-bar", "aria-hidden": "true" }, bar, tick);
  const node = h("li", {}, name, mark, rail, number);
  function show(words, right, part, before, best) {
    name.textContent = words;
    mark.textContent = right ? "✓" : "";
    bar.style.width = `${100 * part}%`;
    tick.style.left = `${100 * before}%`;
    number.textContent = share(part);
    node.classList.toggle("lv-best", best);
  }
  return { node, show };
}
