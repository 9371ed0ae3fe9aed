// SplitExplorer: which number of which token lands in which head, by view and transpose and by view alone.
import { slider } from "./kit/controls.js";
import { controls, h, question, s, sentence } from "./kit/dom.js";
import { figure } from "./kit/figure.js";
import { eased } from "./kit/motion.js";
import { list } from "./kit/words.js";

const COLORS = ["blue", "green", "pink"]; // of the tokens
const CODE = ["wrong: q.view(h, T, d)", "right: q.view(T, h, d).transpose(0, 1)"];
const [WIDE, HIGH, SMALL] = [36, 30, 25]; // a cell, and one in the strip of memory
const [LEFT, TOP, GAP, STRIP] = [84, 24, 36, 164]; // the grid and the strip of memory

/** Where a number stands in an order (h, T, d) of all numbers: { head, row, column }. */
export function seatOf(number, order, [, T, d]) {
  const at = order.indexOf(number);
  return { head: Math.floor(at / (T * d)), row: Math.floor(at / d) % T, column: at % d };
}

/** The numbers that a head takes for each token: a list of d for each of T rows. */
export function rowsOf(head, order, [, T, d]) {
  return Array.from({ length: T }, (_, row) => {
    const start = (head * T + row) * d;
    return order.slice(start, start + d);
  });
}

/** The runs of numbers side by side in memory that one head takes: [{ head, from, to }, ...]. */
export function runsOf(order, shape) {
  const runs = [];
  for (let number = 0; number < order.length; number++) {
    const { head } = seatOf(number, order, shape);
    if (runs.at(-1)?.head === head) runs.at(-1).to = number;
    else runs.push({ head, from: number, to: number });
  }
  return runs;
}

/** What a head takes for which token, and from which, in words. */
export function told(head, order, shape, names) {
  const [h, , d] = shape;
  const owner = (number) => Math.floor(number / (h * d));
  const rows = rowsOf(head, order, shape);
  const said = rows.map((row, t) => {
    const from = owner(row[0]) === t ? "its own" : `the ${names[owner(row[0])]}’s`;
    return `for the ${names[t]} ${from} ${list(row.map(String))}`;
  });
  return `Head ${head} takes ${list(said)}.`;
}

/** An order that a notebook stored: each number once. */
function needOrder(order, name, count) {
  const whole = Array.isArray(order) && new Set(order).size === count && order.length === count;
  if (!whole || order.some((number) => !(number >= 0 && number < count)))
    throw Error(`its ${name} split should hold each of ${count} numbers once`);
  return order;
}

/** A word in the drawing. */
function word(x, y, text, anchor = "middle") {
  return s("text", { x, y, "text-anchor": anchor, "dominant-baseline": "central" }, text);
}

/** A cell with its number, in the colour of its token; moved by its transform. */
function cell(number, token, width, height) {
  const fill = `var(--vf-${COLORS[token]})`;
  const box = s("rect", { width, height, fill, "fill-opacity": 0.32 });
  return s("g", { "data-number": number }, box, word(width / 2, height / 2, String(number)));
}

function moved(element, x, y) {
  element.setAttribute("transform", `translate(${x} ${y})`);
}

function build({ model, root, put }) {
  const [names, heads, most] = [model.get("names"), model.get("heads"), model.get("most")];
  const [right, wrong] = ["right", "wrong"].map((name) => model.get(name));
  const [T, count] = [names.length, right.length];
  const D = count / T;
  const d = D / heads;
  if (T !== COLORS.length || !Number.isInteger(d)) throw Error(`it cannot split ${count} numbers`);
  const shape = [heads, T, d];
  const orders = [needOrder(wrong, "wrong", count), needOrder(right, "right", count)];
  const places = Array.from({ length: 2 * most + 1 }, (_, i) => i - most);
  const middle = (GAP * (heads - 1)) / 2;
  const headAt = (head) => LEFT + head * (d * WIDE + GAP);

  const pick = slider("Split the heads", (place) => put({ place }));
  const ends = ["view alone", "view, transpose"].map((end) => h("span", {}, end));
  const row = h("span", { className: "vf-split-ends", ariaHidden: "true" }, ...ends);
  pick.node.querySelector("input").after(row);
  const says = sentence();
  const svg = s("svg", { role: "img", class: "vf-split", viewBox: `0 0 340 ${STRIP + 58}` });
  const cells = [...right.keys()].map((n) => cell(n, Math.floor(n / D), WIDE, HIGH));
  const strip = [...right.keys()].map((n) => cell(n, Math.floor(n / D), SMALL, SMALL));
  strip.forEach((one, n) => {
    one.removeAttribute("data-number");
    moved(one, 20 + n * SMALL, STRIP);
  });
  const rows = names.map((name, t) => word(LEFT - 10, TOP + (t + 0.5) * HIGH, name, "end"));
  const owners = names.map((name, t) => word(20 + (t + 0.5) * D * SMALL, STRIP - 11, name));
  const [frames, borders] = [s("g"), s("g")];
  const title = word(20, STRIP - 34, "In memory, in this order:", "start");
  svg.append(...rows, frames, ...cells, title, ...owners, ...strip, borders);
  root.append(question("Which numbers does each head get?"), controls(pick.node), svg, says);

  function frame(head) {
    const box = { x: headAt(head) - 3, y: TOP - 3, width: d * WIDE + 6, height: T * HIGH + 6 };
    const middleOf = headAt(head) + (d * WIDE) / 2;
    return [s("rect", { ...box, class: "vf-split-head" }), word(middleOf, 10, `head ${head}`)];
  }

  function border({ head, from, to }) {
    const [x, end, y] = [21 + from * SMALL, 19 + (to + 1) * SMALL, STRIP + SMALL + 5];
    const line = s("path", {
      d: `M${x} ${y}v4H${end}v-4`,
      "data-run": `${head}: ${from} to ${to}`,
    });
    return [line, word((x + end) / 2, y + 14, `head ${head}`)];
  }

  return function draw() {
    const place = model.get("place");
    if (!places.includes(place)) throw Error(`there is no place ${place} of its slider`);
    const order = orders[Number(place > 0)];
    const share = eased(Math.abs(place) / most);
    cells.forEach((one, n) => {
      const { head, row, column } = seatOf(n, order, shape);
      const start = [LEFT + middle + (n % D) * WIDE, TOP + Math.floor(n / D) * HIGH];
      const end = [headAt(head) + column * WIDE, TOP + row * HIGH];
      moved(one, ...start.map((x, axis) => x + share * (end[axis] - x)));
    });
    frames.replaceChildren(...(place ? [...Array(heads).keys()].flatMap(frame) : []));
    borders.replaceChildren(...(place ? runsOf(order, shape).flatMap(border) : []));
    pick.show(places, place, place ? CODE[Number(place > 0)] : "not split yet");
    says.textContent = place
      ? told(0, order, shape, names)
      : `As they lie in memory, each of ${T} tokens has ${D} numbers side by side.`;
    svg.setAttribute("aria-label", `Three tokens and their numbers. ${says.textContent}`);
  };
}

export default figure(build);
