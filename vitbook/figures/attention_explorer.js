// AttentionExplorer: the row of one token over the image, all heads side by side, raw weights against rollout;
// where it has scores, also what another axis of the softmax and larger scores make of them.
import { paint, palette, shades } from "./kit/canvas.js";
import { KEYS, choice, folded, pointable, slider } from "./kit/controls.js";
import { controls, facts, h, heading, question, s, sentence, soft } from "./kit/dom.js";
import { bytes, figure, floats, needBytes, needFloats, needIndex } from "./kit/figure.js";
import { boxOf, clamp, overlay, patchGrid, per, ringOf } from "./kit/grid.js";
import { AXES, meanOfHeads, sumOf, weigh } from "./kit/maps.js";
import { hundredths, list, number, placeOf, share } from "./kit/words.js";

const FULL = 6; // the colour is full at this many times an even share
const SHOWS = ["head", "mean", "rollout"];
const SCALES = [0, 0.25, 0.5, 1, 2, 4, 8, 16, 32]; // factors of the divided scores
const SATURATED = 0.95; // so large is the largest weight of a saturated row

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

/** One row of the rollout through the layers 0 to layer, of their mean maps: half of what a token attends to, half of what it is. */
export function rolloutRow(means, T, layer, token) {
  let row = new Float32Array(T);
  row[token] = 1;
  for (let l = layer; l >= 0; l--) {
    const next = row.map((share) => share / 2);
    for (let i = 0; i < T; i++)
      for (let j = 0; j < T; j++) next[j] += (row[i] / 2) * means[l][i * T + j];
    row = next;
  }
  return row;
}

/** How many tokens with equal weights would have the entropy of this row. */
export function effectiveTokens(row) {
  return Math.exp(row.reduce((sum, a) => sum - (a > 0 ? a * Math.log(a) : 0), 0));
}

/** The places of a row, the largest weight first. */
export function ranked(row) {
  return Array.from(row.keys()).sort((a, b) => row[b] - row[a] || a - b);
}

/** Read the traits; throw an error with words for people unless they fit together. */
function readMaps(model) {
  const fixed = ["networks", "names", "sizes", "grid", "prefix", "shape", "width"];
  const stored = Object.fromEntries(fixed.map((name) => [name, model.get(name)]));
  const { networks, names, sizes, grid, prefix, shape } = stored;
  const [L, heads, T] = sizes;
  const length = L * heads * T * T; // weights of one image
  const count = networks.length * names.length * length;
  const [scores, maps] = [model.get("scores"), model.get("maps")]; // one of them is empty, the other may come later
  const scored = scores === undefined ? !bytes(maps).length : bytes(scores).length > 0;
  const kind = scored ? "scores" : "maps";
  const need = () =>
    scored ? needFloats(model.get(kind), kind, count) : needBytes(model.get(kind), kind, 2 * count);
  const here = () => model.get(kind) !== undefined; // a page brings them when the figure is touched
  let all = here() ? need() : null;
  if (T !== prefix + grid[0] * grid[1] || ![0, 1].includes(prefix))
    throw Error(`${T} tokens are not ${prefix} and ${grid.join(" × ")} patches`);
  const area = shape[0] * shape[1] * shape[2];
  const pixels = needBytes(model.get("pixels"), "images", names.length * area);
  /** The weights of one image in one network, and the mean of the heads of each layer. */
  const read = (net, { image, axis, scale }) => {
    const start = (net * names.length + image) * length;
    all ??= need();
    const weights = scored
      ? weigh(all.subarray(start, start + length), T, axis, scale)
      : decodeRows(all.subarray(2 * start, 2 * (start + length)), T);
    const layer = (l) => weights.subarray(l * heads * T * T, (l + 1) * heads * T * T);
    return { weights, means: Array.from({ length: L }, (_, l) => meanOfHeads(layer(l), heads)) };
  };
  return {
    ...stored,
    scored,
    here,
    read,
    imageOf: (index) => pixels.subarray(index * area, (index + 1) * area),
  };
}

/** The rows with which a page begins, of each network: (column, layer, token) -> row; see AttentionExplorer.first. */
function firstRows(numbers, networks, [L, heads, T], { token: chosen }) {
  const columns = heads + 2;
  const length = (L * columns + T) * T;
  return networks.map((_, net) => (column, layer, token) => {
    const row = token === chosen ? layer * columns + column : L * columns + token;
    return numbers.subarray(net * length + row * T, net * length + (row + 1) * T);
  });
}

/** The choices of a figure. */
function readState(model, { names, scored, sizes: [L, heads, T] }) {
  const count = { image: names.length, token: T, layer: L, head: heads };
  const now = Object.fromEntries(
    Object.keys(count).map((name) => [name, needIndex(model.get(name), name, count[name])]),
  );
  const show = model.get("show");
  if (!SHOWS.includes(show)) throw Error(`it should show ${list(SHOWS)}, not ${show}`);
  const [axis, scale] = scored ? [model.get("axis"), model.get("scale")] : ["keys", 1];
  if (!AXES.includes(axis)) throw Error(`its softmax can run over ${list(AXES)}, not ${axis}`);
  if (!(scale >= 0 && scale < Infinity)) throw Error(`its scores cannot be scaled by ${scale}`);
  return {
    ...now,
    show,
    axis,
    scale,
    column: show === "head" ? now.head : heads + SHOWS.indexOf(show) - 1,
  };
}

/** Small maps of one token: a row for each layer, a column for each head, their mean and the rollout up to there. */
function makeTable(columns, [L, heads], prefix, onpick, onstep) {
  const head = (name, column) => {
    const word = h("span", {}, column < heads ? String(column) : name);
    word.style.setProperty("--vf-letters", word.textContent.length);
    return word;
  };
  const maps = Array.from({ length: L }, (_, layer) =>
    columns.map((_, column) => {
      const [canvas, cls] = [h("canvas"), h("i", { hidden: !prefix })];
      const node = h("div", { "data-layer": layer, "data-column": column }, cls, canvas);
      return { node, canvas, cls };
    }),
  );
  const lines = maps.map((line, layer) => [
    h("span", {}, `layer ${layer}`),
    ...line.map(({ node }) => node),
  ]);
  const node = h(
    "div",
    { className: "vf-heads" },
    h("span", {}, "head"),
    ...columns.map(head),
    ...lines.flat(),
  );
  node.style.setProperty("--vf-cols", columns.length);
  pointable(node, () => {}, onstep);
  node.addEventListener("click", ({ target }) => {
    const { layer, column } = target.closest("[data-layer]")?.dataset ?? {};
    if (layer) onpick(Number(column), Number(layer));
  });

  function show({ layer, column, label, grid, partsOf, colours }) {
    node.setAttribute("aria-label", label);
    maps.forEach((line, l) =>
      line.forEach((map, c) => {
        const parts = partsOf(c, l);
        shades(map.canvas, parts.subarray(prefix), grid, colours);
        map.cls.style.setProperty("--vf-part", `${100 * Math.min(parts[0], 1)}%`);
        map.node.toggleAttribute("data-chosen", l === layer && c === column);
      }),
    );
  }
  return { node, show };
}

/** What the rows of a map sum to: a bar for each, and a line at 1. */
function makeSums() {
  const svg = s("svg", { role: "img" });
  function show(sums) {
    const most = Math.max(1.25, ...sums);
    const bar = (sum, n) =>
      s("rect", {
        ...boxOf(0, (n + 0.15) / sums.length, sum / most, 0.7 / sums.length),
        "data-sum": sum.toFixed(5),
      });
    const one = { x1: per(1 / most), x2: per(1 / most), y1: 0, y2: "100%" };
    svg.replaceChildren(...sums.map(bar), s("line", one));
    svg.setAttribute("aria-label", `The sums of the rows: ${rangeOf(sums)}. A line marks 1.`);
  }
  return { node: h("div", { className: "vf-grid vf-sums" }, svg), show };
}

/** In words: all 1.00, or 0.31 to 2.20. */
function rangeOf(numbers) {
  const [low, high] = [Math.min, Math.max].map((f) => f(...numbers).toFixed(2));
  return low === high ? `all ${low}` : `${low} to ${high}`;
}

function build({ model, root, put }) {
  const stored = readMaps(model);
  const { networks, names, sizes, grid, prefix, shape, width, scored, here, read, imageOf } =
    stored;
  const [[L, heads, T], [rows, cols]] = [sizes, grid];
  const state = () => readState(model, stored);
  const first = { ...state(), numbers: floats(model.get("first")) };

  // The weights of the image that is shown, for each network; null while the page has not brought them.
  let known = {};
  const weightsOf = (now) => {
    if (first.numbers.length && Object.keys(now).every((name) => now[name] === first[name]))
      return firstRows(first.numbers, networks, sizes, first).map((rowsOf) => ({ rowsOf }));
    if (!here()) return null;
    if (["image", "axis", "scale"].some((name) => known[name] !== now[name]))
      known = { ...now, all: networks.map((_, net) => read(net, now)) };
    return known.all;
  };
  // The columns of the table: the heads, their mean, the rollout.
  const rowOf = ({ rowsOf, weights, means }, column, layer, token) => {
    if (rowsOf) return rowsOf(column, layer, token);
    if (column > heads) return rolloutRow(means, T, layer, token);
    if (column === heads) return means[layer].subarray(token * T, (token + 1) * T);
    const start = ((layer * heads + column) * T + token) * T;
    return weights.subarray(start, start + T);
  };
  const columns = [
    ...Array.from({ length: heads }, (_, head) => `head ${head}`),
    "mean",
    "rollout",
  ];
  const forms = columns.map((column) => (column === "mean" ? "mean of heads" : column)); // where there is room
  const tokenName = (n) =>
    n < prefix ? "token 0 (cls)" : `token ${n} (${placeOf(n - prefix, cols)})`;

  const images = choice("Image:", names, (index) => put({ image: index }));
  const tokens = slider("Token", (token) => put({ token }));
  const layers = slider("Layer", (layer) => put({ layer }));
  const pick = (column, layer = model.get("layer")) =>
    put({
      layer,
      ...(column < heads ? { show: "head", head: column } : { show: SHOWS[column - heads + 1] }),
    });
  const picks = choice("Show:", forms, (column) => pick(column));

  const axes = choice("Softmax over:", ["keys (rows)", "queries (columns)"], (axis) =>
    put({ axis: AXES[axis] }),
  );
  const scales = slider("Scores", (scale) => put({ scale }));
  const undivided = Math.sqrt(width);
  const scaleName = (scale) => {
    const words = { [undivided]: ": q · k, undivided", 1: `: q · k / √${width}, as it should be` };
    return `× ${number(scale)}${words[scale] ?? ""}`;
  };

  // A pointer over an image tries tokens out; a press keeps one, else the old one comes back. Keys keep.
  let kept = null;
  const choose = (token, event) => {
    if (event.type === "keydown") kept = kept === null ? null : token;
    else kept ??= model.get("token");
    put({ token });
  };
  const trying = ({ node }) => {
    node.addEventListener("pointerdown", () => (kept = model.get("token"))); // after choose
    node.addEventListener("pointerleave", () => {
      if (kept !== null) put({ token: kept });
      kept = null;
    });
  };
  const makePanel = () => {
    const over = h("canvas", { width: shape[2], height: shape[1] });
    const map = patchGrid({ rows, cols, over, prefix, onpick: choose });
    const matrix = overlay("vf-matrix");
    map.node.classList.add("vf-attended");
    pointable(
      matrix.svg,
      (_, y, event) => choose(Math.floor(y * T), event),
      (dx, dy, event) => choose(clamp(model.get("token") + dx + dy, T), event),
    );
    const step = (dx, dy) =>
      pick(clamp(state().column + dx, columns.length), clamp(model.get("layer") + dy, L));
    const table = makeTable(columns, sizes, prefix, pick, step);
    [map, matrix].forEach(trying);
    const sums = makeSums();
    const summed = { node: h("div", { className: "vf-summed" }, matrix.node, sums.node) };
    return { canvas: over, map, table, matrix, sums, square: scored ? summed : matrix };
  };
  const panels = networks.map(makePanel);

  const many = networks.length > 1;
  const titleOf = (title, i) => (many ? `${networks[i]}: ${title}` : title);
  const titled = (title, kind) =>
    panels.map((panel, i) => h("div", {}, heading(titleOf(title, i)), panel[kind].node));
  const titles = panels.map(() => heading());
  const maps = panels.map(({ map }, i) => h("div", {}, titles[i], map.node));
  const [tables, matrices] = [
    titled(`${heads} heads in each of ${L} layers`, "table"),
    titled(`the map, row = query, column = key${scored ? "; sums of rows" : ""}`, "square"),
  ];
  const [says, measures] = [sentence(), facts()];
  // A token that the sentence names is lit in the image while one points at its name; a press goes there.
  const word = (n) => {
    const light = (on) => () =>
      panels.forEach(({ map }) =>
        map.node.querySelector(`[data-cell="${n}"]`).toggleAttribute("data-lit", on),
      );
    const [onpointerenter, onpointerleave] = [light(true), light(false)];
    const on = { onpointerenter, onpointerleave, onfocus: onpointerenter, onblur: onpointerleave };
    const onclick = () => put({ token: n });
    return h(
      "button",
      { type: "button", className: "vf-word", onclick, ...on, ...KEYS },
      tokenName(n),
    );
  };
  const hint = soft(
    "A press keeps a token. Numbers are weights in per cent. ",
    `Blue is full at ${Math.min(Math.round((100 * FULL) / T), 100)} % and more, in all maps alike.`,
  );
  const [pair, wide] = ["vf-side-by-side", "vf-attention-wide"].map(
    (className) =>
      (...nodes) =>
        h("div", { className }, ...nodes),
  );
  root.append(
    question(
      "What does a token attend to? Point at one in the image, or press a small map for another head.",
    ),
    ...(names.length > 1 ? [controls(images.node)] : []),
    ...(many ? [pair(...maps), wide(...tables)] : [wide(...maps, ...tables)]),
    says,
    hint,
    folded(
      root,
      controls(tokens.node, layers.node, picks.node, ...(scored ? [axes.node, scales.node] : [])),
      ...(many ? [pair(...matrices), measures.node] : [wide(...matrices, measures.node)]),
    ),
  );

  return function draw() {
    const now = state();
    const { token, layer, show, head, column, axis, scale } = now;
    const all = weightsOf(now);
    if (!all) return;
    images.show(now.image);
    tokens.show([...Array(T).keys()], token, tokenName(token));
    layers.show([...Array(L).keys()], layer, `layer ${layer} of 0 to ${L - 1}`);
    picks.show(column);
    axes.show(AXES.indexOf(axis));
    const factors = new Set([...SCALES, undivided, scale]);
    scales.show(
      [...factors].sort((a, b) => a - b),
      scale,
      scaleName(scale),
    );

    const name = names[now.image];
    const changed = [
      axis === "queries" ? ", softmax over the queries" : "",
      scale === 1 ? "" : `, scores ${scaleName(scale)}`,
    ].join("");
    const what = {
      head: `head ${head} of layer ${layer}`,
      mean: `the mean of ${heads} heads in layer ${layer}`,
      rollout: `the rollout through layers 0 to ${layer}`,
    }[show].concat(changed);
    const rowsShown = all.map((one) => rowOf(one, column, layer, token));
    const full = Math.min(FULL / T, 1);
    const linesOf = (one) => [...Array(T).keys()].map((n) => rowOf(one, column, layer, n));
    const sumsOf = (one) => linesOf(one).map(sumOf);
    const colours = palette(root);
    panels.forEach((panel, i) => {
      const net = many ? `, ${networks[i]} network` : "";
      const partsOf = (c, l, n = token) => rowOf(all[i], c, l, n).map((weight) => weight / full);
      const cells = Array.from(rowsShown[i], (weight, n) => ({
        color: "blue",
        opacity: 0.88 * Math.min(weight / full, 1),
        word: `${n < prefix ? "cls " : ""}${hundredths(weight)}`,
      }));
      paint(imageOf(now.image), shape, panel.canvas);
      const from = tokenName(ranked(rowsShown[i])[0]);
      const label = `${name}${net}: what ${tokenName(token)} attends to, in ${what}; most to ${from}. Arrow keys choose a token.`;
      panel.map.show({ cells, chosen: token, label });
      titles[i].textContent = titleOf(`${forms[column]}, layer ${layer}`, i);
      const small = `Small maps of ${tokenName(token)}${net}: ${L} layers of ${heads} heads, their mean, and rollout. Arrow keys choose one: ${what}.`;
      panel.table.show({ layer, column, label: small, grid, partsOf, colours });
      const { canvas, svg } = panel.matrix;
      const matrix = new Float32Array(T * T);
      for (let n = 0; n < T; n++) matrix.set(partsOf(column, layer, n), n * T);
      shades(canvas, matrix, [T, T], colours);
      panel.sums.show(sumsOf(all[i]));
      svg.replaceChildren(...ringOf(boxOf(0, token / T, 1, 1 / T), token));
      svg.setAttribute(
        "aria-label",
        `All ${T} rows of ${what}${net}; row ${token} is marked. Arrow keys choose a row.`,
      );
    });
    const spoken = rowsShown.flatMap((row, i) => {
      const [first, second] = ranked(row);
      return [
        `${many ? `${networks[i]}: ` : ""}${share(row[first])} to `,
        word(first),
        `, ${share(row[second])} to `,
        word(second),
        axis === "keys"
          ? `; as concentrated as equal weights on ${effectiveOf(row)} tokens. `
          : `; the row sums to ${sumOf(row).toFixed(2)}. `,
      ];
    });
    const held = says.contains(document.activeElement);
    says.replaceChildren(`${name}, ${what}. What ${tokenName(token)} attends to: `, ...spoken);
    if (held) says.querySelector("button").focus();
    const together = (fact) =>
      rowsShown.map((row, i) => `${many ? `${networks[i]} ` : ""}${fact(row, all[i])}`).join(", ");
    const saturated = (_, one) => linesOf(one).filter((row) => Math.max(...row) > SATURATED).length;
    measures.show([
      ["largest weight", together((row) => share(row[ranked(row)[0]]))],
      ["its own weight", together((row) => share(row[token]))],
      ...(axis === "keys" ? [["effective number of tokens", together(effectiveOf)]] : []),
      ...(scored
        ? [
            ["sums of all rows", together((_, one) => rangeOf(sumsOf(one)))],
            [`rows with a weight above ${SATURATED}`, `${together(saturated)} of ${T}`],
          ]
        : []),
    ]);
  };
}

/** The effective number of tokens of a row, in words: 1.1 of 17. */
function effectiveOf(row) {
  return `${effectiveTokens(row).toFixed(1)} of ${row.length}`;
}

export default figure(build);
