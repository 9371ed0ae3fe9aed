// PositionExplorer: how similar all position embeddings are to one, and what four trained models answer when the patches are shuffled.
import { legend } from "./kit/axes.js";
import { inOrder, paint } from "./kit/canvas.js";
import { button, select } from "./kit/controls.js";
import { controls, h, heading, question, sentence, soft, staying } from "./kit/dom.js";
import { bytes, figure, needFloats, needIndex } from "./kit/figure.js";
import { patchGrid } from "./kit/grid.js";
import { cosines, largest } from "./kit/maps.js";
import { percent, whole } from "./kit/words.js";

/** Two lists of probabilities: the first of each, the classes to show, and the largest change in points. */
export function compare(before, now, count = 3) {
  const most = before.map((p, i) => Math.max(p, now[i]));
  const shown = most
    .map((_, i) => i)
    .toSorted((a, b) => most[b] - most[a])
    .slice(0, count);
  const points = 100 * Math.max(...before.map((p, i) => Math.abs(p - now[i])));
  return { before: largest(before), now: largest(now), shown, points };
}

/** Read the traits; throw an error with words for people unless they fit together. */
function read(model) {
  const grid = model.get("grid");
  const classes = model.get("classes");
  const widths = model.get("widths");
  const names = model.get("models");
  const orders = bytes(model.get("orders"));
  const pixels = bytes(model.get("pixels"));
  const N = grid ** 2;
  const C = classes.length;
  const count = orders.length / N;
  if (!(Number.isInteger(grid) && grid > 1))
    throw Error(`a grid of ${grid} patches a side is none`);
  const side = Math.sqrt(pixels.length / C);
  if (side % grid !== 0) throw Error(`its ${C} images do not divide into ${N} patches each`);
  const need = (name, count) => needFloats(model.get(name), name, count);
  const all = need("tables", N * widths.reduce((a, b) => a + b, 0));
  const probabilities = need("probabilities", names.length * C * count * C);
  const accuracy = need("accuracy", names.length * count);
  let start = 0;
  const tables = widths.map((width) => all.subarray(start, (start += N * width)));
  return {
    grid,
    N,
    C,
    count,
    classes,
    widths,
    names,
    orders,
    pixels,
    side,
    tables,
    probabilities,
    accuracy,
  };
}

/** The two cards of one model: its answers, and its similarities, where one chooses a place. */
function makeCards(name, grid, onpick) {
  const map = patchGrid({ rows: grid, cols: grid, onpick });
  const [near, answers, counted] = [soft(), h("div"), soft()];
  return {
    said: h("div", {}, heading(name), answers, counted),
    told: h("div", {}, heading(name), map.node, near),
    map,
    near,
    answers,
    counted,
  };
}

function build({ model, root, put }) {
  const stored = read(model);
  const { grid, N, C, count, classes, widths, names, orders, pixels, side } = stored;
  const { tables, probabilities, accuracy } = stored;
  const pick = select("Image:", classes, (index) => put({ image: index }));
  const shuffle = button("Shuffle again", () =>
    put({ order: (model.get("order") % (count - 1)) + 1 }),
  );
  const sort = button("In order", () => put({ order: 0 }));
  const canvas = h("canvas", { width: side, height: side });
  const patches = patchGrid({ rows: grid, cols: grid, over: canvas });
  const [says, chosen, keys] = [sentence(), sentence(), legend()];
  const cards = names.map((name) => makeCards(name, grid, (place) => put({ place })));
  keys.node.classList.add("vf-soft");
  keys.show(
    [
      { name: "in order", color: "blue", width: 6 },
      { name: "as shown now", color: "mark", width: 6 },
    ],
    `Accuracy: of ${whole(model.get("tested"))} test images, all in the order shown.`,
  );
  root.append(
    h(
      "div",
      { className: "vf-pos-part" },
      question("Does a network notice that its patches are shuffled?"),
      staying(controls(pick.node, h("div", { className: "vf-buttons" }, shuffle, sort))),
      h("div", { className: "vf-pos-top" }, patches.node, h("div", {}, says, keys.node)),
      h("div", { className: "vf-pos" }, ...cards.map(({ said }) => said)),
    ),
    h(
      "div",
      { className: "vf-pos-part" },
      heading("What tells it where a patch is: the position embeddings"),
      h("div", { className: "vf-pos" }, ...cards.map(({ told }) => told)),
      chosen,
    ),
  );

  return function draw() {
    const index = needIndex(model.get("image"), "image", C);
    const turn = needIndex(model.get("order"), "order", count);
    const place = needIndex(model.get("place"), "place", N);
    const order = orders.subarray(turn * N, turn * N + N);
    const shape = [1, side, side];
    const image = pixels.subarray(index * side ** 2, (index + 1) * side ** 2);
    pick.show(index);
    sort.disabled = turn === 0;
    shuffle.textContent = turn ? "Shuffle again" : "Shuffle";
    paint(inOrder(image, shape, [grid, grid], order), shape, canvas);
    const how = turn ? `shuffled (order ${turn} of ${count - 1})` : "in order";
    patches.show({ label: `${classes[index]}, ${how}` });

    const answer = (m, o) => {
      const start = ((m * C + index) * count + o) * C;
      return Array.from(probabilities.subarray(start, start + C));
    };
    const said = cards.map((card, m) => {
      const near = widths[m] ? cosines(tables[m], widths[m], place) : null;
      const nearBy = near && largest(near, place);
      card.near.textContent = near
        ? `most similar: place ${nearBy}, ${near[nearBy].toFixed(2)}`
        : "no positions";
      card.map.show({
        chosen: place,
        cells: near ? near.map(shadeOf) : Array(N).fill({ word: "–" }),
        label: near
          ? `${names[m]}: cosines of place ${place} with places 0 to ${N - 1}: ` +
            near.map((v) => v.toFixed(2)).join(", ")
          : `${names[m]}: no position embeddings, all places are alike`,
      });
      const [before, now] = [answer(m, 0), answer(m, turn)];
      const result = compare(before, now);
      const rows = result.shown.map((c) => makeAnswer(classes[c], before[c], now[c], turn));
      card.answers.replaceChildren(...rows);
      const [all, here] = [accuracy[m * count], accuracy[m * count + turn]];
      card.counted.textContent = turn
        ? `Largest change: ${result.points.toFixed(1)} points. Accuracy in this order: ` +
          `${percent(here)} (in order ${percent(all)})`
        : `Accuracy in order: ${percent(all)}`;
      if (!turn) return `${names[m]}: ${classes[result.now]}`;
      const answers =
        result.before === result.now
          ? `still ${classes[result.now]}`
          : `${classes[result.now]}, no longer ${classes[result.before]}`;
      return `${names[m]}: ${answers}${result.points < 0.05 ? ", every probability as before" : ""}`;
    });
    says.textContent =
      `The image is of class “${classes[index]}”, ${how}. ` +
      `Positions and answers: ${said.join("; ")}.`;
    chosen.textContent =
      `Place ${place} of 0 to ${N - 1} is chosen: point at another, or use the arrow keys. ` +
      "A number is the cosine similarity to it: 1 alike, 0 unrelated, −1 opposed.";
  };
}

/** A cosine as a cell: orange alike, blue opposed. */
function shadeOf(value) {
  return {
    color: value < 0 ? "blue" : "mark",
    opacity: 0.65 * Math.min(Math.abs(value), 1),
    word: value.toFixed(2).replace("-", "−"),
  };
}

/** One class: its name, its probability in order and now, as words and as bars. */
function makeAnswer(name, before, now, turn) {
  const bar = (share, kind) => {
    const node = h("div", { className: `vf-pos-bar ${kind}` });
    node.style.width = `${100 * share}%`;
    return node;
  };
  const words = turn ? `${percent(before)} → ${percent(now)}` : percent(before);
  return h(
    "div",
    { className: "vf-pos-class" },
    h("div", { className: "vf-pos-words vf-number" }, h("span", {}, name), h("span", {}, words)),
    bar(before, ""),
    ...(turn ? [bar(now, "vf-pos-now")] : []),
  );
}

export default figure(build);
