// AttentionExplorer: the row of one token over the picture, all heads side by side, raw weights against rollout.
import { color, letters, pad, picture, ring, write, zoomOf } from "./kit/canvas.js";
import { choice, slider } from "./kit/controls.js";
import { h, sentence } from "./kit/dom.js";
import { bytes, figure, needBytes } from "./kit/figure.js";
import { stepToken, tokenAt } from "./kit/grid.js";
import { list, share } from "./kit/words.js";

const FULL = 6; // the colour is full at so many times an even share
const SHOWS = ["head", "mean", "rollout"];

/** Weights from bytes, two each: every row was stored in parts of its largest weight, and sums to 1. */
export function decodeRows(stored, T) {
  const weights = new Float32Array(stored.length / 2);
  for (let start = 0; start < weights.length; start += T) {
    let sum = 0;
    for (let i = start; i < start + T; i++)
      sum += weights[i] = stored[2 * i] + 256 * stored[2 * i + 1];
    if (!sum) throw Error(`row ${(start / T) % T} of one of its maps is empty`);
    for (let i = start; i < start + T; i++) weights[i] /= sum;
  }
  return weights;
}

/** The mean of the heads: (L, h, T, T) -> (L, T, T). */
export function meanHeads(weights, [L, heads, T]) {
  const area = T * T;
  const means = new Float32Array(L * area);
  for (let i = 0; i < means.length; i++) {
    const first = Math.floor(i / area) * heads * area + (i % area);
    for (let head = 0; head < heads; head++) means[i] += weights[first + head * area] / heads;
  }
  return means;
}

/** One row of the rollout through the layers 0 to layer: half of what a token hears, half of what it is. */
export function rolloutRow(means, T, layer, token) {
  let row = new Float32Array(T);
  row[token] = 1;
  for (let l = layer; l >= 0; l--) {
    const next = row.map((share) => share / 2);
    for (let i = 0; i < T; i++)
      for (let j = 0; j < T; j++) next[j] += (row[i] / 2) * means[(l * T + i) * T + j];
    row = next;
  }
  return row;
}

/** How many tokens with equal weights would have the entropy of this row. */
export function tokensHeard(row) {
  return Math.exp(row.reduce((sum, a) => sum - (a > 0 ? a * Math.log(a) : 0), 0));
}

/** The places of a row, the largest weight first. */
export function ranked(row) {
  return Array.from(row.keys()).sort((a, b) => row[b] - row[a] || a - b);
}

/** Throw an error with words for people unless the stored state fits together. */
function checkAttention(state, stored, pixels) {
  const { nets, names, sizes, grid, prefix, shape, show, picked } = state;
  const [L, heads, T] = sizes;
  const wanted = 2 * nets.length * names.length * L * heads * T * T;
  needBytes(stored, "maps", wanted);
  if (T !== prefix + grid[0] * grid[1] || ![0, 1].includes(prefix))
    throw Error(`${T} tokens are not ${prefix} and ${grid.join(" × ")} patches`);
  needBytes(pixels, "pictures", names.length * shape[0] * shape[1] * shape[2]);
  if (!SHOWS.includes(show)) throw Error(`it should show ${list(SHOWS)}, not ${show}`);
  for (const [name, value, count] of picked)
    if (!(Number.isInteger(value) && value >= 0 && value < count))
      throw Error(`there is no ${name} ${value}; there are ${count}`);
}

function build({ model, root, put }) {
  const get = (name) => model.get(name);
  const [nets, names, sizes, grid, prefix, shape] = [
    "networks",
    "names",
    "sizes",
    "grid",
    "prefix",
    "shape",
  ].map(get);
  const [L, heads, T] = sizes;
  const [rows, cols] = grid;
  const stored = bytes(get("maps"));
  const pixels = bytes(get("pixels"));
  const state = () => {
    const now = { nets, names, sizes, grid, prefix, shape };
    for (const name of ["picture", "token", "layer", "head", "show"]) now[name] = get(name);
    const counts = { picture: names.length, token: T, layer: L, head: heads };
    now.picked = Object.entries(counts).map(([name, count]) => [name, now[name], count]);
    checkAttention(now, stored, pixels);
    return now;
  };
  state();

  // The weights of the picture that is shown, for each network.
  let known = { picture: -1 };
  const weightsOf = (index) => {
    if (known.picture !== index) {
      const length = 2 * L * heads * T * T;
      const all = nets.map((_, net) => {
        const start = (net * names.length + index) * length;
        const weights = decodeRows(stored.subarray(start, start + length), T);
        return { weights, means: meanHeads(weights, sizes) };
      });
      known = { picture: index, all };
    }
    return known.all;
  };
  const rowOf = ({ weights, means }, show, layer, head, token) => {
    if (show === "rollout") return rolloutRow(means, T, layer, token);
    const start = show === "mean" ? layer * T + token : (layer * heads + head) * T + token;
    return (show === "mean" ? means : weights).subarray(start * T, (start + 1) * T);
  };

  const place = (n) => `row ${Math.floor((n - prefix) / cols)}, column ${(n - prefix) % cols}`;
  const tokenName = (n) => (n < prefix ? "token 0 (cls)" : `token ${n} (${place(n)})`);

  const pictures = choice("Picture:", names, (index) => put({ picture: index }));
  const tokens = slider("Token", (token) => put({ token }));
  const layers = slider("Layer", (layer) => put({ layer }));
  const columns = [
    ...Array.from({ length: heads }, (_, head) => `head ${head}`),
    "mean",
    "rollout",
  ];
  const pick = (column, layer = get("layer")) =>
    put({
      layer,
      ...(column < heads ? { show: "head", head: column } : { show: SHOWS[column - heads + 1] }),
    });
  const shows = choice("Show:", columns, (column) => pick(column));
  const columnOf = ({ show, head }) => (show === "head" ? head : heads + SHOWS.indexOf(show) - 1);

  // A pointer over a picture tries tokens out; a press keeps one, else the old one comes back.
  let kept = null;
  const tryOut = (token) => {
    kept ??= get("token");
    put({ token });
  };
  const trying = (width, height, find, step) => {
    const canvas = pad(width, height, (x, y) => tryOut(find(x, y)), step);
    canvas.addEventListener("pointerdown", () => (kept = get("token"))); // after that of pad
    canvas.addEventListener("pointerleave", () => {
      if (kept !== null) put({ token: kept });
      kept = null;
    });
    return canvas;
  };
  const go = (token) => {
    kept = kept === null ? null : token;
    put({ token });
  };
  const high = Math.round((640 * shape[1]) / shape[2]);
  const strip = prefix ? 84 : 0;
  const makeMap = () =>
    trying(
      640,
      high + strip,
      (x, y) => tokenAt(x, y, grid, prefix, strip / (high + strip)),
      (dx, dy) => go(stepToken(get("token"), dx, dy, grid, prefix)),
    );
  const makeMatrix = () =>
    trying(
      640,
      640,
      (_, y) => Math.floor(y * T),
      (dx, dy) => go(Math.min(Math.max(get("token") + dx + dy, 0), T - 1)),
    );
  const table = tableOfHeads(L, heads + 2, rows / cols, prefix);
  const makeTable = () => {
    let under = null;
    const canvas = pad(
      640,
      table.height,
      (x, y) => (under = table.at(640 * x, table.height * y)),
      (dx, dy) => {
        const column = Math.min(Math.max(columnOf(state()) + dx, 0), heads + 1);
        pick(column, Math.min(Math.max(get("layer") + dy, 0), L - 1));
      },
    );
    canvas.addEventListener("click", () => under && pick(under.column, under.layer));
    return canvas;
  };
  const panels = nets.map(() => ({ map: makeMap(), table: makeTable(), matrix: makeMatrix() }));

  const many = nets.length > 1;
  const titled = (title, kind) =>
    panels.map((panel, i) => {
      const words = many
        ? [nets[i], ...(title ? [title] : [])].join(": ")
        : title || "over the picture";
      return h("div", {}, h("p", { className: "vf-head" }, words), panel[kind]);
    });
  const maps = titled("", "map");
  const tables = titled("every head of every layer", "table");
  const matrices = titled("the map, row asks column", "matrix");
  const says = sentence();
  const facts = h("dl");
  const hint = h(
    "p",
    { className: "vf-soft" },
    "Move over a picture to try a token, press to keep it; press a small map to see it large. ",
    "Or focus either and use the arrow keys. Numbers are per cent of a row, which sums to 100. ",
    `Blue is full at ${Math.min(Math.round((100 * FULL) / T), 100)} % and more, in all maps alike.`,
  );
  const words = h("div", {}, hint, says, facts);
  const controls = [tokens.node, layers.node, shows.node];
  if (names.length > 1) controls.unshift(pictures.node);
  root.append(
    h("div", { className: "vf-controls" }, ...controls),
    ...(many
      ? [
          h("div", { className: "vf-side-by-side" }, ...maps),
          h("div", { className: "vf-attention-wide" }, ...tables),
          h("div", { className: "vf-side-by-side" }, ...matrices),
          words,
        ]
      : [h("div", { className: "vf-attention-wide" }, maps[0], tables[0], matrices[0], words)]),
  );

  return function draw() {
    const now = state();
    const { token, layer, show, head } = now;
    const all = weightsOf(now.picture);
    pictures.show(now.picture);
    tokens.show([...Array(T).keys()], token, tokenName(token));
    layers.show([...Array(L).keys()], layer, `layer ${layer} of 0 to ${L - 1}`);
    shows.show(columnOf(now));

    const area = shape[0] * shape[1] * shape[2];
    const image = picture(pixels.subarray(now.picture * area, (now.picture + 1) * area), shape);
    const rowsShown = all.map((one) => rowOf(one, show, layer, head, token));
    const ink = inks(root, Math.min(FULL / T, 1));
    const what = {
      head: `head ${head} of layer ${layer}`,
      mean: `the mean of ${heads} heads in layer ${layer}`,
      rollout: `the rollout through layers 0 to ${layer}`,
    }[show];
    panels.forEach((panel, i) => {
      drawMap(panel.map, image, rowsShown[i], { grid, prefix, strip, high, token }, ink);
      drawTable(panel.table, table, all[i], { ...now, columns, column: columnOf(now) }, rowOf, ink);
      drawMatrix(panel.matrix, (n) => rowOf(all[i], show, layer, head, n), T, token, ink);
      const [best] = ranked(rowsShown[i]);
      const net = many ? `, ${nets[i]} network` : "";
      panel.map.setAttribute(
        "aria-label",
        `${names[now.picture]}${net}: what ${tokenName(token)} takes in, in ${what}; most from ${tokenName(best)}. Arrow keys choose a token.`,
      );
      panel.table.setAttribute(
        "aria-label",
        `Small maps of ${tokenName(token)}${net}: ${L} layers of ${heads} heads, their mean, and rollout. Arrow keys choose one: ${what}.`,
      );
      panel.matrix.setAttribute(
        "aria-label",
        `All ${T} rows of ${what}${net}; row ${token} is marked. Arrow keys choose a row.`,
      );
    });
    const spoken = rowsShown.map((row, i) => {
      const [first, second] = ranked(row);
      return (
        `${many ? `${nets[i]}: ` : ""}${share(row[first])} from ${tokenName(first)}, ${share(row[second])} ` +
        `from ${tokenName(second)}; in effect ${heardOf(row)} tokens are heard`
      );
    });
    says.textContent =
      `${names[now.picture]}, ${what}. What ${tokenName(token)} takes in: ` +
      `${spoken.join(". ")}.`;
    const together = (fact) =>
      rowsShown.map((row, i) => `${many ? `${nets[i]} ` : ""}${fact(row)}`).join(", ");
    const measures = [
      ["largest weight", (row) => share(row[ranked(row)[0]])],
      ["its own weight", (row) => share(row[token])],
      ["tokens heard", heardOf],
    ];
    facts.replaceChildren(
      ...measures.map(([term, fact]) =>
        h("div", {}, h("dt", {}, term), h("dd", {}, together(fact))),
      ),
    );
  };
}

/** How many tokens a row hears, in words: 1.1 of 17. */
function heardOf(row) {
  return `${tokensHeard(row).toFixed(1)} of ${row.length}`;
}

/** Where the small maps lie in a canvas 640 wide, and which of them lies at a place. */
export function tableOfHeads(L, columns, tall, prefix) {
  const [left, top] = [44, 50];
  const wide = (640 - left) / columns;
  const side = 0.86 * wide;
  const cell = prefix ? side / 6 : 0;
  const deep = side * tall + cell + 0.14 * wide;
  return {
    left,
    top,
    wide,
    side,
    cell,
    deep,
    height: Math.ceil(top + L * deep),
    at(x, y) {
      const [column, layer] = [Math.floor((x - left) / wide), Math.floor((y - top) / deep)];
      return column >= 0 && column < columns && layer >= 0 && layer < L ? { layer, column } : null;
    },
  };
}

/** What all drawings of one frame share: colours, and a way to put weights on a canvas as shades of blue. */
function inks(root, full) {
  const scratch = h("canvas");
  const [r, g, b] = color(root, "blue")
    .match(/[\d.]+/g)
    .map(Number);
  return {
    soft: color(root, "soft"),
    line: color(root, "line"),
    mark: color(root, "mark"),
    // Weights as cols × rows cells; over a picture in a blue that shows on black and on white.
    paint(pen, weights, cols, rows, x, y, width, height, over = false) {
      Object.assign(scratch, { width: cols, height: rows });
      const image = new ImageData(cols, rows);
      weights.forEach((weight, i) => {
        const alpha = (over ? 0.88 : 1) * Math.min(weight / full, 1);
        image.data.set([...(over ? [60, 165, 255] : [r, g, b]), 255 * alpha], 4 * i);
      });
      scratch.getContext("2d").putImageData(image, 0, 0);
      pen.imageSmoothingEnabled = false;
      pen.drawImage(scratch, x, y, width, height);
    },
  };
}

/** The picture with the row of a token over it, each patch with its per cent; above it the share of cls. */
function drawMap(canvas, image, row, { grid, prefix, strip, high, token }, ink) {
  const [rows, cols] = grid;
  const pen = canvas.getContext("2d");
  const zoom = zoomOf(canvas);
  const [wide, tall] = [640 / cols, high / rows];
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(image, 0, strip, 640, high);
  pen.fillStyle = "rgb(0 0 0 / 0.25)";
  pen.fillRect(0, strip, 640, high);
  ink.paint(pen, row.subarray(prefix), cols, rows, 0, strip, 640, high, true);
  letters(pen, canvas, 600);
  if (wide > 28 * zoom)
    for (let n = 0; n < rows * cols; n++) {
      const text = (100 * row[prefix + n]).toFixed(0);
      write(
        pen,
        text,
        ((n % cols) + 0.5) * wide,
        strip + (Math.floor(n / cols) + 0.5) * tall,
        zoom,
      );
    }
  const box = Math.max(wide, 60 * zoom);
  if (prefix) {
    pen.fillStyle = "#40444c";
    pen.fillRect(0, 0, box, strip - 12);
    ink.paint(pen, row.subarray(0, 1), 1, 1, 0, 0, box, strip - 12, true);
    write(pen, `cls ${(100 * row[0]).toFixed(0)}`, box / 2, strip / 2 - 6, zoom);
  }
  const inside = 1.5 * zoom;
  const n = token - prefix;
  if (token < prefix)
    ring(pen, inside, inside, box - 2 * inside, strip - 12 - 2 * inside, zoom, ink.mark);
  else
    ring(pen, (n % cols) * wide, strip + Math.floor(n / cols) * tall, wide, tall, zoom, ink.mark);
}

/** All heads of all layers as small maps of one token, beside them their mean and the rollout up to there. */
function drawTable(canvas, table, weights, { prefix, grid, sizes, ...now }, rowOf, ink) {
  const { left, top, wide, side, cell, deep } = table;
  const [rows, cols] = grid;
  const [L, heads] = sizes;
  const pen = canvas.getContext("2d");
  const zoom = zoomOf(canvas);
  pen.clearRect(0, 0, canvas.width, canvas.height);
  letters(pen, canvas);
  pen.fillStyle = ink.soft;
  now.columns.forEach((name, column) => {
    const words = column < heads ? String(column) : name;
    pen.fillText(words, left + column * wide + side / 2, top / 2, side);
  });
  for (let layer = 0; layer < L; layer++) {
    pen.fillStyle = ink.soft;
    pen.fillText(layer, left / 2, top + layer * deep + cell + (deep - cell) / 2, left);
    now.columns.forEach((_, column) => {
      const show = SHOWS[Math.max(0, column - heads + 1)];
      const row = rowOf(weights, show, layer, column, now.token);
      const [x, y] = [left + column * wide, top + layer * deep];
      const tall = deep - 0.14 * wide - cell;
      ink.paint(pen, row.subarray(prefix), cols, rows, x, y + cell, side, tall);
      Object.assign(pen, { strokeStyle: ink.line, lineWidth: zoom });
      pen.strokeRect(x, y + cell, side, tall);
      if (prefix) {
        ink.paint(pen, row.subarray(0, 1), 1, 1, x, y, cell, cell);
        pen.strokeRect(x, y, cell, cell);
      }
      if (layer === now.layer && column === now.column)
        ring(pen, x, y, side, tall + cell, zoom, ink.mark);
    });
  }
}

/** All rows of a map, the chosen one marked. */
function drawMatrix(canvas, rowOfToken, T, token, ink) {
  const pen = canvas.getContext("2d");
  const zoom = zoomOf(canvas);
  const weights = new Float32Array(T * T);
  for (let n = 0; n < T; n++) weights.set(rowOfToken(n), n * T);
  pen.clearRect(0, 0, 640, 640);
  ink.paint(pen, weights, T, T, 0, 0, 640, 640);
  Object.assign(pen, { strokeStyle: ink.line, lineWidth: 2 * zoom });
  pen.strokeRect(0, 0, 640, 640);
  const inside = 1.5 * zoom;
  const height = Math.max(640 / T, 2 * zoom);
  ring(pen, inside, token * (640 / T), 640 - 2 * inside, height, zoom, ink.mark);
}

export default figure(build);
