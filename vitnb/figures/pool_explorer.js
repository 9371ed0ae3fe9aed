// PoolExplorer: how much each token counts when a network makes one vector of many, in three ways.
import { color, letters, pad, picture, ring, write, zoomOf } from "./kit/canvas.js";
import { choice } from "./kit/controls.js";
import { h, sentence } from "./kit/dom.js";
import { bytes, figure, floats, needBytes } from "./kit/figure.js";
import { stepToken, tokenAt } from "./kit/grid.js";
import { list, share } from "./kit/words.js";

/** What a kind of pooling says of its weights: exact or not, and why. */
export function honest(kind, heads, tokens, own) {
  const many = heads > 1 ? `, mean of ${heads} heads` : "";
  return {
    mean: `Exact: every token counts 1/${tokens}.`,
    attn: `Exact: these are the weights of the average${many}.`,
    cls:
      `An approximation: the attention row of cls in the last layer${many}. What cls took in ` +
      `layers before is not in it, and it gives ${share(own)} to itself.`,
  }[kind];
}

/** The side of a tile, from 0 to 1, whose area is to the whole as a weight to the largest. */
export function tileSide(weight, largest) {
  return Math.sqrt(Math.min(Math.max(weight / largest, 0), 1));
}

/** The place of the largest number. */
export function heaviest(row) {
  return row.reduce((best, weight, i) => (weight > row[best] ? i : best), 0);
}

/** Throw an error with words for people unless the stored state fits together. */
function checkPools({ pools, kinds, names, answers, grid, shape }, shares, pixels) {
  const T = 1 + grid[0] * grid[1];
  const wanted = pools.length * names.length * T;
  if (shares.length !== wanted)
    throw Error(`its weights should be ${wanted} numbers and are ${shares.length}`);
  if (!shares.every((weight) => weight >= 0 && weight <= 1.001))
    throw Error("one of its weights does not lie between 0 and 1");
  needBytes(pixels, "pictures", names.length * shape[0] * shape[1] * shape[2]);
  if (answers.length !== pools.length || answers.some((one) => one.length !== names.length))
    throw Error("it should hold one answer for each picture and pooling");
  const known = ["cls", "mean", "attn"];
  for (const kind of kinds)
    if (!known.includes(kind)) throw Error(`a pooling should be ${list(known)}, not ${kind}`);
}

function build({ model, root, put }) {
  const get = (name) => model.get(name);
  const fixed = {};
  for (const name of ["pools", "kinds", "heads", "names", "answers", "grid", "shape"])
    fixed[name] = get(name);
  const { pools, kinds, heads, names, answers, grid, shape } = fixed;
  const shares = floats(get("shares"));
  const pixels = bytes(get("pixels"));
  checkPools(fixed, shares, pixels);
  const [rows, cols] = grid;
  const N = rows * cols;
  const state = () => {
    const now = {};
    for (const [name, count] of [
      ["picture", names.length],
      ["pool", pools.length],
      ["patch", N],
    ]) {
      now[name] = get(name);
      if (!(Number.isInteger(now[name]) && now[name] >= 0 && now[name] < count))
        throw Error(`there is no ${name} ${now[name]}; there are ${count}`);
    }
    return now;
  };
  // One row of 1 + N weights: what cls gives to itself, then the patches.
  const rowOf = (pool, index) => {
    const start = (pool * names.length + index) * (1 + N);
    return shares.subarray(start, start + 1 + N);
  };

  const pictures = choice("Picture:", names, (index) => put({ picture: index }));
  const switches = choice("Read by:", pools, (pool) => put({ pool }));
  const high = Math.round((640 * shape[1]) / shape[2]);
  const makePad = () =>
    pad(
      640,
      high,
      (x, y) => put({ patch: tokenAt(x, y, grid, 0, 0) }),
      (dx, dy) => put({ patch: stepToken(get("patch"), dx, dy, grid, 0) }),
    );
  const [whole, tiles] = [makePad(), makePad()];
  const title = h("p", { className: "vf-head" });
  const says = sentence();
  const note = h("p", { className: "vf-soft" });
  const facts = h("dl");
  const hint = h(
    "p",
    { className: "vf-soft" },
    "The area of a tile, and the per cent on it, say how much its token counts; a full tile is the largest weight of this ",
    "picture in any of the ways. Point at a patch, or focus a picture and use the arrow keys. After the last block a token is ",
    "no longer its patch alone: it has listened to the others.",
  );
  const side = (head, canvas) => h("div", {}, head, canvas);
  const controls = [switches.node];
  if (names.length > 1) controls.unshift(pictures.node);
  root.append(
    h("div", { className: "vf-controls" }, ...controls),
    h(
      "div",
      { className: "vf-side-by-side" },
      side(h("p", { className: "vf-head" }, "The picture"), whole),
      side(title, tiles),
    ),
    says,
    note,
    facts,
    hint,
  );

  return function draw() {
    const now = state();
    const { picture: index, pool, patch } = now;
    pictures.show(index);
    switches.show(pool);
    const area = shape[0] * shape[1] * shape[2];
    const image = picture(pixels.subarray(index * area, (index + 1) * area), shape);
    const all = pools.map((_, n) => rowOf(n, index));
    const largest = Math.max(...all.map((row) => Math.max(...row.subarray(1))));
    const row = all[pool].subarray(1);
    const ink = { mark: color(root, "mark"), line: color(root, "line") };
    drawPicture(whole, image, grid, high, patch, ink);
    drawTiles(tiles, image, row, { grid, high, shape, patch, largest }, ink);

    const place = (n) => `row ${Math.floor(n / cols)}, column ${n % cols}`;
    title.textContent = `By ${pools[pool]}`;
    const best = heaviest(row);
    const even = row.every((weight) => weight === row[0]);
    const most = even
      ? "All patches count alike"
      : `Most counts ${place(best)}, ${share(row[best])}`;
    says.textContent =
      `${names[index]}, read by ${pools[pool]}: the network answers ${answers[pool][index]}. ` +
      `${most}; the patch in ${place(patch)} counts ${share(row[patch])}.`;
    note.textContent = honest(kinds[pool], heads[pool], N, all[pool][0]);
    facts.replaceChildren(
      ...pools.map((name, n) => {
        const about = kinds[n] === "cls" ? "about " : "";
        const term = h("dt", {}, `${name}, this patch`);
        return h("div", {}, term, h("dd", {}, `${about}${share(all[n][1 + patch])}`));
      }),
    );
    whole.setAttribute(
      "aria-label",
      `${names[index]} in ${rows} rows of ${cols} patches. Arrow keys choose one: ${place(patch)}.`,
    );
    tiles.setAttribute(
      "aria-label",
      `The same patches, each as large as it counts for ${pools[pool]}. Arrow keys choose one: ${place(patch)}.`,
    );
  };
}

/** The picture with its grid, one patch marked. */
function drawPicture(canvas, image, [rows, cols], high, patch, ink) {
  const pen = canvas.getContext("2d");
  const [wide, tall] = [640 / cols, high / rows];
  pen.imageSmoothingEnabled = false;
  pen.drawImage(image, 0, 0, 640, high);
  Object.assign(pen, { strokeStyle: "rgb(255 255 255 / 0.6)", lineWidth: 2 });
  for (let n = 0; n < rows * cols; n++)
    pen.strokeRect((n % cols) * wide, Math.floor(n / cols) * tall, wide, tall);
  const corner = [(patch % cols) * wide, Math.floor(patch / cols) * tall];
  ring(pen, ...corner, wide, tall, zoomOf(canvas), ink.mark);
}

/** Each patch as a tile whose area says how much it counts. */
function drawTiles(canvas, image, row, { grid, high, shape, patch, largest }, ink) {
  const [rows, cols] = grid;
  const pen = canvas.getContext("2d");
  const zoom = zoomOf(canvas);
  const [wide, tall] = [640 / cols, high / rows];
  const [inner, deep] = [shape[2] / cols, shape[1] / rows];
  pen.clearRect(0, 0, 640, high);
  pen.imageSmoothingEnabled = false;
  letters(pen, canvas, 600);
  row.forEach((weight, n) => {
    const [col, line] = [n % cols, Math.floor(n / cols)];
    const part = tileSide(weight, largest);
    const [x, y] = [(col + (1 - part) / 2) * wide, (line + (1 - part) / 2) * tall];
    const [w, t] = [part * wide, part * tall];
    pen.drawImage(image, col * inner, line * deep, inner, deep, x, y, w, t);
    Object.assign(pen, { strokeStyle: ink.line, lineWidth: 1.5 * zoom });
    pen.strokeRect(x, y, w, t);
    if (n === patch) ring(pen, col * wide, line * tall, wide, tall, zoom, ink.mark);
    if (wide > 28 * zoom) {
      const text = (100 * weight).toFixed(0);
      write(pen, text, (col + 0.5) * wide, (line + 0.5) * tall, zoom);
    }
  });
}

export default figure(build);
