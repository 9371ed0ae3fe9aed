// What a reader sets: by mouse, touch and key, in the page and in JupyterLab.
import { h } from "./dom.js";

/** JupyterLab takes the arrow keys away from whatever does not say this. */
export const KEYS = { "data-lm-suppress-shortcuts": "true" };

/** Which way an arrow key goes: [dx, dy]. */
export const ARROWS = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

/** Let the arrow keys on an element call step(dx, dy, event), and do nothing else. */
export function onArrows(element, step) {
  element.addEventListener("keydown", (event) => {
    if (!ARROWS[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    step(...ARROWS[event.key], event);
  });
}

/** A labelled slider over a list of values: node, and show(values, value, words for that value). */
export function slider(label, onmove) {
  let choices = [];
  const input = h("input", { type: "range", min: 0, step: 1, ...KEYS });
  const output = h("span", { className: "vf-value" });
  input.addEventListener("input", () => onmove(choices[Number(input.value)]));
  function show(values, value, words) {
    choices = values;
    input.max = values.length - 1;
    input.value = values.indexOf(value);
    input.setAttribute("aria-valuetext", words);
    output.textContent = words;
  }
  return {
    node: h("label", { className: "vf-slider" }, h("span", {}, label), input, output),
    show,
  };
}

let groups = 0;

/** A row of choices of which one holds (radio buttons): node, and show(index). */
export function choice(legend, words, onpick) {
  const name = `vf-choice-${++groups}-${Math.random().toString(36).slice(2)}`; // two modules may share a page
  const inputs = words.map((_, i) =>
    h("input", { type: "radio", name, onchange: () => onpick(i), ...KEYS }),
  );
  const labels = words.map((word, i) => h("label", {}, inputs[i], word));
  const show = (index) => inputs.forEach((input, i) => (input.checked = i === index));
  return {
    node: h("fieldset", { className: "vf-choice" }, h("legend", {}, legend), ...labels),
    show,
  };
}

/** A labelled list that folds, for more choices than a row holds, each a word or [word, group]: node, and show(index). */
export function select(label, words, onpick) {
  const list = h("select", { onchange: () => onpick(Number(list.value)), ...KEYS });
  words.forEach((one, value) => {
    const [word, group] = [one].flat();
    if (group && list.lastChild?.label !== group) list.append(h("optgroup", { label: group }));
    (group ? list.lastChild : list).append(h("option", { value }, word));
  });
  return {
    node: h("label", { className: "vf-select" }, label, list),
    show: (index) => (list.value = String(index)),
  };
}

/** A button; several stand in a div of class vf-buttons. */
export function button(text, onclick) {
  return h("button", { type: "button", className: "vf-button", onclick, ...KEYS }, text);
}

/** Something that is on or off: node, and show(on). */
export function toggle(text, onpick) {
  const input = h("input", { type: "checkbox", onchange: () => onpick(input.checked), ...KEYS });
  return {
    node: h("label", { className: "vf-toggle" }, input, text),
    show: (on) => (input.checked = on),
  };
}

/** What is seldom needed, behind "More"; on a slide, where the teacher knows the figure, it lies open. */
export function folded(root, ...nodes) {
  if (root.closest("[data-wide]")) return h("div", { className: "vf-more" }, ...nodes);
  return h("details", { className: "vf-more" }, h("summary", KEYS, "More"), ...nodes);
}

/**
 * Make an element, HTML or SVG, a place on which one points by mouse, touch or arrow keys.
 * onpoint(x, y, event) gets the place as shares of the width and height, from 0 to 1;
 * onstep(dx, dy, event) gets a step of an arrow key. A finger that moves up or down scrolls the page.
 */
export function pointable(element, onpoint, onstep) {
  const attributes = { tabindex: 0, role: "application", ...KEYS };
  element.classList.add("vf-pad");
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  const point = (event) => {
    const box = element.getBoundingClientRect();
    const part = (place, start, length) =>
      Math.min(Math.max((place - start) / length, 0), 1 - 1e-6);
    const [x, y] = [
      part(event.clientX, box.left, box.width),
      part(event.clientY, box.top, box.height),
    ];
    onpoint(x, y, event);
  };
  element.addEventListener("pointerdown", point);
  element.addEventListener("pointermove", point);
  onArrows(element, onstep);
  return element;
}
