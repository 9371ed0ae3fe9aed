// What the network answers: a bar for each class, and where it stood for the untouched image.
import { h, heading, soft } from "../kit/dom.js";
import { largest } from "../kit/maps.js";
import { share } from "../kit/words.js";
import { softmax } from "../vit.js";

const MOST = 10; // of more classes the most probable are shown

export function answerPanel({ classes, labels, known }) {
  const bars = Array.from({ length: Math.min(classes.length, MOST) }, makeBar);
  const clock = soft();

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
      bar.show(`${classes[k]}${k === truth ? " ✓" : ""}`, shares[k], before[k], k === best);
    });
    const label = known && image >= 0 ? " ✓ is what the image shows." : "";
    clock.textContent = `The thin line is the answer for the whole image, untouched.${label} ${ms.toFixed(1)} ms in your browser.`;
  }
  const lines = h("ul", { className: "lv-bars" }, ...bars.map(({ node }) => node));
  return {
    node: h("div", { className: "lv-answer" }, heading("The answer"), lines, clock),
    show,
  };
}

function makeBar() {
  const [name, bar, tick, number] = [h("span"), h("b"), h("i"), h("span")];
  const rail = h("span", { className: "lv-bar", "aria-hidden": "true" }, bar, tick);
  const node = h("li", {}, name, rail, number);
  function show(words, part, before, best) {
    name.textContent = words;
    bar.style.width = `${100 * part}%`;
    tick.style.left = `${100 * before}%`;
    number.textContent = share(part);
    node.classList.toggle("lv-best", best);
  }
  return { node, show };
}
