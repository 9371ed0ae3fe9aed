// QKVExplorer: queries and keys as arrows to drag, and the scores, weights and output that follow from them.
import { KEYS, button, choice, onArrows, slider, toggle } from "./kit/controls.js";
import { controls, h, question, s, sentence } from "./kit/dom.js";
import { figure, needIndex } from "./kit/figure.js";
import { AXES, sumOf, weigh } from "./kit/maps.js";
import { phrases } from "./kit/phrases.js";
import { number } from "./kit/words.js";

const PARTS = ["query", "key", "scores", "weights", "output"];
const SCALES = [0, 0.5, 1, 2, 4, 8, 16]; // factors of the divided scores
const [LEFT, RIGHT, LOW, HIGH] = [-1.5, 2.5, -0.75, 2.5]; // the plane
const [UNIT, STEP] = [64, 0.25]; // of the plane in its drawing, and of a key's step

/** Scores q · k (T, T), their weights and the output (T, e), all flat, of q (T, d), k (T, d) and v (T, e). */
export function attend(q, k, v, axis, scale) {
  const T = q.length;
  const scores = q.flatMap((one) => k.map((key) => sumOf(one.map((x, i) => x * key[i]))));
  const weights = weigh(scores, T, axis, scale / Math.sqrt(q[0].length));
  const output = q.flatMap((_, i) =>
    v[0].map((__, e) => sumOf(v.map((value, j) => weights[i * T + j] * value[e]))),
  );
  return { scores, weights: Array.from(weights), output };
}

/** A trait of T vectors. */
function needVectors(vectors, name, T) {
  const sound = (x) => x.length === vectors[0].length && x.every(Number.isFinite);
  if (vectors.length !== T || !vectors.every(sound))
    throw Error(`its ${name} should be ${T} vectors`);
  return vectors;
}

/** A vector in words: (1, 0.5). */
const written = (vector) => `(${vector.map(number).join(", ")})`;

/** A place of the plane in units of its drawing. */
const placed = ([x, y]) => [UNIT * (x - LEFT), UNIT * (HIGH - y)];

/** The plane: lines that stay, and arrows with a tip to drag: node and show([{ part, at, word, label }, ...]). */
function makePlane(onmove) {
  const [wide, high] = placed([RIGHT, LOW]);
  const [x0, y0] = placed([0, 0]);
  const svg = s(
    "svg",
    { viewBox: `0 0 ${wide} ${high}`, class: "vf-qkv-plane" },
    s("line", { x1: 0, x2: wide, y1: y0, y2: y0 }),
    s("line", { x1: x0, x2: x0, y1: 0, y2: high }),
  );
  const near = (x, from, to) => Math.min(Math.max(Math.round(x / STEP) * STEP, from), to);
  const move = (arrow, x, y) => {
    arrow.at = [near(x, LEFT, RIGHT), near(y, LOW, HIGH)]; // two keys may come before it is drawn
    onmove(arrow.part, arrow.at);
  };
  function makeArrow() {
    const arrow = { line: s("line"), tip: s("circle"), name: s("text") };
    const { line, tip, name } = arrow;
    const node = s("g", { tabindex: 0, role: "application", ...KEYS }, line, tip, name);
    node.addEventListener("pointerdown", ({ pointerId }) => node.setPointerCapture(pointerId));
    node.addEventListener("pointermove", ({ pointerId, clientX, clientY }) => {
      if (!node.hasPointerCapture(pointerId)) return;
      const { left, top, width } = svg.getBoundingClientRect();
      const along = (pixels) => (pixels / width) * (RIGHT - LEFT);
      move(arrow, LEFT + along(clientX - left), HIGH - along(clientY - top));
    });
    onArrows(node, (dx, dy) => move(arrow, arrow.at[0] + STEP * dx, arrow.at[1] - STEP * dy));
    svg.append(node);
    return Object.assign(arrow, { node });
  }
  const arrows = [];
  const set = (element, values) =>
    Object.entries(values).forEach(([name, value]) => element.setAttribute(name, value));
  function show(shown) {
    shown.forEach(({ part, at, word, label }, i) => {
      const { node, line, tip, name } = Object.assign((arrows[i] ??= makeArrow()), { part, at });
      const [[x, y], kind] = [placed(at), part.split(" ")[0]];
      set(node, { class: `vf-qkv-${kind}`, "data-part": part, "aria-label": label });
      set(line, { x1: x0, y1: y0, x2: x, y2: y });
      set(tip, { cx: x, cy: y, r: kind === "query" ? 13 : 9 });
      set(name, { x: x + (kind === "query" ? -17 : 13), y: y - 8 });
      name.textContent = word;
    });
  }
  return { node: svg, show };
}

/** A matrix with names of its rows and columns, and words behind the rows under the name `last`, if there is one. */
function makeMatrix(part, rows, cols, onpick, last = "") {
  const [tall, left, top] = [30, 42, 20];
  const wide = Math.max(50, ...cols.map((name) => 8 * name.length));
  const size = [left + (cols.length + Boolean(last)) * wide, top + rows.length * tall];
  const svg = s("svg", { role: "img", viewBox: `0 0 ${size.join(" ")}` });
  const word = (x, y, text, anchor = "middle") =>
    s("text", { x, y, "text-anchor": anchor, "dominant-baseline": "central" }, text);
  const [across, down] = [(j) => left + (j + 0.5) * wide, (i) => top + (i + 0.5) * tall];
  function show({ numbers, most, digits, row, ends = [], label }) {
    const cells = numbers.flatMap((value, n) => {
      const [i, j] = [Math.floor(n / cols.length), n % cols.length];
      const box = { x: left + j * wide, y: top + i * tall, width: wide, height: tall };
      const shade = {
        "fill-opacity": Math.min(Math.abs(value) / most, 1) / 2,
        "data-value": value,
      };
      const rect = s("rect", { ...box, ...shade, "data-part": `${part} ${i} ${j}` });
      rect.addEventListener("click", () => onpick(i));
      return [rect, word(across(j), down(i), value.toFixed(digits))];
    });
    const ring = { x: left, y: top + row * tall, width: cols.length * wide, height: tall };
    svg.replaceChildren(
      ...rows.map((name, i) => word(left - 5, down(i), name, "end")),
      ...[...cols, last].map((name, j) => word(across(j), top - 10, name)),
      ...cells,
      ...ends.map((text, i) => word(across(cols.length), down(i), text)),
      s("rect", { ...ring, class: "vf-qkv-row" }),
    );
    svg.setAttribute("aria-label", label);
  }
  return { node: svg, show };
}

function build({ model, root, put }) {
  const [names, features] = [model.get("names"), model.get("features")];
  const T = names.length;
  const vectors = (name) => needVectors(model.get(name), name, T);
  const v = vectors("v");
  if (vectors("q")[0].length !== 2) throw Error("its q should have two numbers");
  const first = ["q", "k", "token", "axis", "scale"].map((name) => [name, model.get(name)]);
  const pick = (token) => put({ token });
  const plane = makePlane((part, at) => {
    const [kind, index] = part.split(" ");
    const trait = { query: "q", key: "k" }[kind];
    put({ [trait]: vectors(trait).map((old, i) => (i === Number(index) ? at : old)) });
  });
  const matrices = {
    scores: makeMatrix("scores", names, names, pick),
    weights: makeMatrix("weights", names, names, pick, "sum"),
    output: makeMatrix("output", names, features, pick),
  };
  const root2 = Math.sqrt(2);
  const scaleName = (scale) =>
    `× ${number(scale)}${{ 1: ": divided by √2", [root2]: ": undivided" }[scale] ?? ""}`;
  const tokens = choice("Query of:", names, pick);
  const axes = choice("Softmax over:", ["keys (rows)", "queries (columns)"], (i) =>
    put({ axis: AXES[i] }),
  );
  const scales = slider("Scores", (scale) => put({ scale }));
  const pin = toggle("Keep in view", (on) => {
    root.toggleAttribute("data-pinned", on);
  });
  const again = button("Reset", () => put(Object.fromEntries(first)));
  const [asks, says] = [question("Whom does the query find? Drag an arrow."), sentence()];
  const titled = (title, { node }) => h("div", {}, h("p", { className: "vf-soft" }, title), node);
  const panels = h(
    "div",
    { className: "vf-qkv" },
    titled("query and keys", plane),
    titled("scores = query · key", matrices.scores),
    titled("weights = softmax", matrices.weights),
    titled("output", matrices.output),
    h("div", {}, says, h("div", { className: "vf-buttons" }, pin.node, again)),
  );
  root.append(asks, controls(tokens.node, axes.node, scales.node), panels);
  // In view stays what lies below the controls.
  const cell = root.closest(".cell");
  const above = new ResizeObserver(() => {
    const [from, to] = [cell, panels].map((one) => one.getBoundingClientRect().top);
    const bar = document.querySelector(".bd-header-article")?.offsetHeight ?? 0; // of the page
    cell.style.top = `${bar + from - to}px`;
  });
  if (cell) above.observe(root);
  pin.show(true);
  root.toggleAttribute("data-pinned", true);
  const links = phrases(root, PARTS);

  function draw() {
    const [q, k] = [vectors("q"), vectors("k")];
    const token = needIndex(model.get("token"), "token", T);
    const [axis, scale] = [model.get("axis"), model.get("scale")];
    if (!AXES.includes(axis)) throw Error(`its softmax cannot run over ${axis}`);
    const { scores, weights, output } = attend(q, k, v, axis, scale);
    const rowOf = (numbers, n = token) => {
      const width = numbers.length / T;
      return numbers.slice(n * width, (n + 1) * width);
    };
    const arrow = (kind, at, i) => ({
      part: `${kind} ${i}`,
      at,
      word: kind === "query" ? "query" : names[i],
      label: `${kind} of the ${names[i]}: ${written(at)}. Arrow keys move it.`,
    });
    plane.show([arrow("query", q[token], token), ...k.map((at, i) => arrow("key", at, i))]);
    const row = rowOf(weights);
    const show = (name, numbers, most, digits, ends) => {
      const label = `${name}, row ${names[token]}: ${rowOf(numbers)
        .map((x) => x.toFixed(3))
        .join(", ")}`;
      matrices[name].show({ numbers, most, digits, row: token, ends, label });
    };
    show("scores", scores, 4, 2);
    show(
      "weights",
      weights,
      1,
      3,
      names.map((_, i) => sumOf(rowOf(weights, i)).toFixed(2)),
    );
    show("output", output, 2, 3);
    tokens.show(token);
    axes.show(AXES.indexOf(axis));
    scales.show(
      [...new Set([...SCALES, root2, scale])].sort((a, b) => a - b),
      scale,
      scaleName(scale),
    );
    const mix = row.map((weight, j) => `${weight.toFixed(3)} × ${written(v[j])}`).join(" + ");
    says.textContent = `Output of the ${names[token]}: ${mix} = ${written(rowOf(output))}.`;
    links.again();
  }
  draw.end = () => {
    above.disconnect();
    links.end();
  };
  return draw;
}

export default figure(build);
