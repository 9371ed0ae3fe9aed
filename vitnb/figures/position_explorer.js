// PositionExplorer: how similar all places are to one, and what four trained models answer when the patches are shuffled.
import { color, drawing, pad, picture } from "./kit/canvas.js";
import { h, sentence } from "./kit/dom.js";
import { bytes, figure, needFloats } from "./kit/figure.js";
import { percent, whole } from "./kit/words.js";

/** The cosines of the angles between row n of a table (N, width) and all of its rows. */
export function cosines(table, width, n) {
  const length = table.length / width;
  const dot = (a, b) => {
    let sum = 0;
    for (let d = 0; d < width; d++) sum += table[a * width + d] * table[b * width + d];
    return sum;
  };
  return Array.from({ length }, (_, m) => dot(n, m) / Math.sqrt(dot(n, n) * dot(m, m)));
}

/** A square gray picture whose place n shows patch order[n] of a grid × grid cut. */
export function inOrder(pixels, grid, order) {
  const side = Math.round(Math.sqrt(pixels.length));
  const p = side / grid;
  return Uint8Array.from(pixels, (_, i) => {
    const [row, column] = [Math.floor(i / side), i % side];
    const patch = order[Math.floor(row / p) * grid + Math.floor(column / p)];
    const [top, left] = [Math.floor(patch / grid) * p, (patch % grid) * p];
    return pixels[(top + (row % p)) * side + left + (column % p)];
  });
}

/** Two lists of probabilities: the first of each, the classes to show, and the largest change in points. */
export function compare(before, now, count = 3) {
  const best = (values) => values.indexOf(Math.max(...values));
  const most = before.map((p, i) => Math.max(p, now[i]));
  const shown = most
    .map((_, i) => i)
    .toSorted((a, b) => most[b] - most[a])
    .slice(0, count);
  const points = 100 * Math.max(...before.map((p, i) => Math.abs(p - now[i])));
  return { before: best(before), now: best(now), shown, points };
}

/** The place that is most similar to n, other than n. */
export function nearest(values, n) {
  return values.reduce(
    (best, value, m) => (m !== n && !(value <= values[best]) ? m : best),
    n ? 0 : 1,
  );
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
  if (side % grid !== 0) throw Error(`its ${C} pictures do not divide into ${N} patches each`);
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

/** The card of one model: its similarities and its answers. */
function makeCard(name) {
  const map = drawing(320, 320);
  const near = h("p", { className: "vf-soft vf-number" });
  const answers = h("div");
  const counted = h("p", { className: "vf-soft vf-number" });
  const node = h("div", {}, h("p", { className: "vf-head" }, name), map, near, answers, counted);
  return { node, map, near, answers, counted };
}

function build({ model, root, put }) {
  const {
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
  } = read(model);
  const select = h("select", { onchange: () => put({ picture: Number(select.value) }) });
  select.append(...classes.map((name, value) => h("option", { value }, name)));
  const shuffle = h("button", { type: "button" }, "Shuffle again");
  shuffle.onclick = () => put({ order: (model.get("order") % (count - 1)) + 1 });
  const sort = h("button", { type: "button", onclick: () => put({ order: 0 }) }, "In order");
  const point = (x, y) => put({ place: Math.floor(y * grid) * grid + Math.floor(x * grid) });
  const step = (dx, dy) => {
    const place = model.get("place");
    const clip = (value) => Math.min(Math.max(value, 0), grid - 1);
    put({ place: clip(Math.floor(place / grid) + dy) * grid + clip((place % grid) + dx) });
  };
  const canvas = pad(560, 560, point, step);
  const says = sentence();
  const hint = h(
    "p",
    { className: "vf-soft" },
    "Point at a place of the picture, or focus it and use the arrow keys. Each small map shows how " +
      "similar the vectors of all places are to the one of this place: 1 alike, 0 unrelated, −1 opposed. The last " +
      `line of each model: the share of ${whole(model.get("tested"))} test pictures that it gets right, all in the order shown.`,
  );
  const keys = h(
    "p",
    { className: "vf-soft" },
    h("span", { className: "vf-pos-key" }, "in order"),
    "\u2003",
    h("span", { className: "vf-pos-key vf-pos-key-now" }, "as shown now"),
  );
  const cards = names.map(makeCard);
  root.append(
    h(
      "div",
      { className: "vf-controls" },
      h("label", { className: "vf-pos-pick" }, "Picture:", select),
      h("div", { className: "vf-pos-buttons" }, shuffle, sort),
    ),
    h("div", { className: "vf-pos-top" }, canvas, h("div", {}, says, keys)),
    hint,
    h("div", { className: "vf-pos" }, ...cards.map(({ node }) => node)),
  );

  return function draw() {
    const [index, turn, place] = ["picture", "order", "place"].map((name) => model.get(name));
    if (!classes[index]) throw Error(`there is no picture ${index}; there are ${C}`);
    if (!Number.isInteger(turn) || turn < 0 || turn >= count)
      throw Error(`there is no order ${turn}; there are ${count}`);
    if (!Number.isInteger(place) || place < 0 || place >= N)
      throw Error(`there is no place ${place}; there are ${N}`);
    const order = orders.subarray(turn * N, turn * N + N);
    const image = inOrder(pixels.subarray(index * side ** 2, (index + 1) * side ** 2), grid, order);
    select.value = String(index);
    sort.disabled = turn === 0;
    shuffle.textContent = turn ? "Shuffle again" : "Shuffle";
    drawPlaces(root, canvas, picture(image, [1, side, side]), grid, place);
    const where = `place ${place}, row ${Math.floor(place / grid)}, column ${place % grid}`;
    canvas.setAttribute(
      "aria-label",
      `${classes[index]}, ${turn ? "shuffled" : "in order"}. Arrow keys choose a place: ${where}.`,
    );

    const answer = (m, o) => {
      const start = ((m * C + index) * count + o) * C;
      return Array.from(probabilities.subarray(start, start + C));
    };
    const said = cards.map((card, m) => {
      const near = widths[m] ? cosines(tables[m], widths[m], place) : null;
      drawSimilarity(root, card.map, near, grid, place);
      if (near) {
        const other = nearest(near, place);
        card.near.textContent = `nearest: place ${other}, ${near[other].toFixed(2)}`;
        const label = `${names[m]}: cosines of place ${place} with places 0 to ${N - 1}: `;
        card.map.setAttribute("aria-label", label + near.map((v) => v.toFixed(2)).join(", "));
      } else {
        card.near.textContent = "nothing is added";
        card.map.setAttribute("aria-label", `${names[m]}: no vectors, all places are alike`);
      }
      const [before, now] = [answer(m, 0), answer(m, turn)];
      const result = compare(before, now);
      const rows = result.shown.map((c) => makeAnswer(classes[c], before[c], now[c], turn));
      card.answers.replaceChildren(...rows);
      const [all, here] = [accuracy[m * count], accuracy[m * count + turn]];
      card.counted.textContent = turn
        ? `Largest change: ${result.points.toFixed(1)} points. Right in this order: ` +
          `${percent(here)} (in order ${percent(all)})`
        : `Right in order: ${percent(all)}`;
      if (!turn) return `${names[m]}: ${classes[result.now]}`;
      const same = result.before === result.now;
      const how = same
        ? `still ${classes[result.now]}`
        : `${classes[result.now]}, no longer ${classes[result.before]}`;
      return `${names[m]}: ${how}${result.points < 0.05 ? ", every probability as before" : ""}`;
    });
    const patch = turn ? `, now showing patch ${order[place]},` : "";
    says.textContent =
      `Place ${place} of 0 to ${N - 1}${patch} is chosen. The picture is of class ` +
      `“${classes[index]}”, ${turn ? `shuffled (order ${turn} of ${count - 1})` : "in order"}. ` +
      `Positions and answers: ${said.join("; ")}.`;
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

/** The picture under its grid, one place marked. */
function drawPlaces(root, canvas, image, grid, place) {
  const pen = canvas.getContext("2d");
  const unit = canvas.width / grid;
  pen.imageSmoothingEnabled = false;
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  pen.strokeStyle = "rgb(255 255 255 / 0.75)";
  pen.lineWidth = 2;
  for (let i = 1; i < grid; i++) {
    pen.strokeRect(i * unit, -9, 0, canvas.height + 18);
    pen.strokeRect(-9, i * unit, canvas.width + 18, 0);
  }
  for (const [style, width] of [
    ["#ffffff", 14],
    [color(root, "mark"), 8],
  ]) {
    Object.assign(pen, { strokeStyle: style, lineWidth: width });
    pen.strokeRect(
      (place % grid) * unit + 4,
      Math.floor(place / grid) * unit + 4,
      unit - 8,
      unit - 8,
    );
  }
}

/** The cosines as a map: orange alike, blue opposed, each with its number; null: there are none. */
function drawSimilarity(root, canvas, values, grid, place) {
  const pen = canvas.getContext("2d");
  const unit = canvas.width / grid;
  const [ink, line, mark, blue] = ["ink", "line", "mark", "blue"].map((name) => color(root, name));
  pen.clearRect(0, 0, canvas.width, canvas.height);
  Object.assign(pen, {
    textAlign: "center",
    textBaseline: "middle",
    font: `${unit * 0.29}px system-ui`,
  });
  for (let n = 0; n < grid ** 2; n++) {
    const [x, y] = [(n % grid) * unit, Math.floor(n / grid) * unit];
    if (values) {
      pen.globalAlpha = 0.65 * Math.min(Math.abs(values[n]), 1);
      pen.fillStyle = values[n] < 0 ? blue : mark;
      pen.fillRect(x, y, unit, unit);
      pen.globalAlpha = 1;
    }
    Object.assign(pen, { strokeStyle: line, lineWidth: 2, fillStyle: ink });
    pen.strokeRect(x, y, unit, unit);
    pen.fillText(values ? values[n].toFixed(2).replace("-", "−") : "–", x + unit / 2, y + unit / 2);
  }
  Object.assign(pen, { strokeStyle: mark, lineWidth: 8 });
  pen.strokeRect(
    (place % grid) * unit + 4,
    Math.floor(place / grid) * unit + 4,
    unit - 8,
    unit - 8,
  );
}

export default figure(build);
