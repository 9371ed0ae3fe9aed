// Buttons over which arrow keys walk, and images of which one is chosen.
import { KEYS, onArrows } from "../kit/controls.js";
import { h } from "../kit/dom.js";

/** Buttons of which one has the tab stop; arrow keys walk over them, `columns` to a row. Gives a function that moves it. */
export function walk(buttons, columns, arrive = () => {}) {
  const stop = (index) => buttons.forEach((button, i) => (button.tabIndex = i === index ? 0 : -1));
  buttons.forEach((button, i) => {
    button.addEventListener("focus", () => stop(i));
    onArrows(button, (dx, dy) => {
      const next = i + dx + dy * columns;
      if (!buttons[next]?.getClientRects().length) return; // none there, or none that shows
      buttons[next].focus();
      arrive(next);
    });
  });
  stop(0);
  return stop;
}

/** Images of which one is chosen: node, buttons, and show(index). */
export function gallery(label, className, faces, columns, pick) {
  const buttons = faces.map((face, i) =>
    h("button", { type: "button", role: "radio", onclick: () => pick(i), ...KEYS }, face),
  );
  const stop = walk(buttons, columns, pick);
  const node = h("div", { role: "radiogroup", "aria-label": label, className }, ...buttons);
  const show = (index) => {
    buttons.forEach((button, i) => button.setAttribute("aria-checked", String(i === index)));
    if (!node.contains(document.activeElement)) stop(Math.max(0, index));
  };
  return { node, buttons, show };
}
