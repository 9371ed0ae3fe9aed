// Elements, and the pieces of text that every figure has.

/** Make an element: properties where the element has them, attributes otherwise. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Make an element of SVG: s("rect", { width: 4, fill: "var(--vf-blue)", "data-token": n }). */
export function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style") element.style.cssText = value; // the attribute is one that the book's pages forbid
    else if (value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** A row of controls. */
export function controls(...nodes) {
  return h("div", { className: "vf-controls" }, ...nodes);
}

/** Controls that stay in view above what they change, where a phone is lower than the figure. */
export function staying(row) {
  row.classList.add("vf-staying");
  return row;
}

/** A heading in a figure. */
export function heading(...words) {
  return h("p", { className: "vf-head" }, ...words);
}

/** The question that a figure answers, at its top; a slide has a title of its own. */
export function question(words) {
  return h("p", { className: "vf-head vf-question" }, words);
}

/** Words that stand back: a hint, a caption. */
export function soft(...words) {
  return h("p", { className: "vf-soft vf-number" }, ...words);
}

/** The line that says in words what is drawn; screen readers hear it when it changes. */
export function sentence() {
  return h("p", { className: "vf-says", role: "status" });
}

/** A list of facts: node, and show([[term, fact], ...]). */
export function facts() {
  const node = h("dl");
  const row = ([term, fact]) => h("div", {}, h("dt", {}, term), h("dd", {}, fact));
  return { node, show: (rows) => node.replaceChildren(...rows.map(row)) };
}
