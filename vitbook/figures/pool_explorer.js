// PoolExplorer: the weight of each token when a network pools many into one vector, in three ways.
import { paint } from "./kit/canvas.js";
import { choice } from "./kit/controls.js";
import { controls, facts, h, heading, question, sentence, soft } from "./kit/dom.js";
import { figure, floats, needBytes, needIndex } from "./kit/figure.js";
import { patchGrid } from "./kit/grid.js";
import { largest } from "./kit/maps.js";
import { hundredths, list, placeOf, share } from "./kit/words.js";

/** What a kind of pooling says of its weights: exact or not, and why. */
export function honest(kind, heads, tokens, own) {
  const many = heads > 1 ? `, mean of ${heads} heads` : "";
  return {
    mean: `Exact: every token has the weight 1/${tokens}.`,
    attn: `Exact: these are the weights of the average${many}.`,
    cls:
      `An approximation: the attention row of the cls token in the last block${many}. What it ` +
      `gathered in earlier blocks is not in it, and it gives ${share(own)} to itself.`,
  }[kind];
}

/** The side of a tile, from 0 to 1, whose area is to the whole as a weight to the largest. */
export function tileSide(weight, largest) {
  return Math.sqrt(Math.min(Math.max(weight / largest, 0), 1));
}

const KINDS = ["cls", "mean", "attn"];

/** Read the traits; throw an error with words for people unless they fit together. */
function readPools(model) {
  const fixed = ["pools", "kinds", "heads", "names", "answers", "right", "grid", "shape"];
  const stored = Object.fromEntries(fixed.map((name) => [name, model.get(name)]));
  const { pools, kinds, names, answers, grid, shape } = stored;
  const count = pools.length * names.length * (1 + grid[0] * grid[1]);
  const shares = floats(needBytes(model.get("shares"), "weights", 4 * count));
  if (!shares.every((weight) => weight >= 0 && weight <= 1.001))
    throw Error("one of its weights does not lie between 0 and 1");
  const area = shape[0] * shape[1] * shape[2];
  const pixels = needBytes(model.get("pixels"), "images", names.length * area);
  if (answers.length !== pools.length || answers.some((one) => one.length !== names.length))
    throw Error("it should hold one answer for each image and pooling");
  for (const kind of kinds)
    if (!KINDS.includes(kind)) throw Error(`a pooling should be ${list(KINDS)}, not ${kind}`);
  return { ...stored, shares, area, pixels };
}

function build({ model, root, put }) {
  const stored = readPools(model);
  const { pools, kinds, heads, names, answers, right, shares, area, pixels } = stored;
  const { shape, grid } = stored;
  const [rows, cols] = grid;
  const N = rows * cols;
  // One row of 1 + N weights: what cls gives to itself, then the patches.
  const rowOf = (pool, index) => {
    const start = (pool * names.length + index) * (1 + N);
    return shares.subarray(start, start + 1 + N);
  };

  const images = choice("Image:", names, (index) => put({ image: index }));
  const switches = choice("Pooling:", pools, (pool) => put({ pool }));
  const makeGrid = (over) => patchGrid({ rows, cols, over, onpick: (patch) => put({ patch }) });
  const canvas = h("canvas");
  const cut = h("canvas", { width: 640, height: Math.round((640 * shape[1]) / shape[2]) });
  const [whole, tiles] = [canvas, cut].map(makeGrid);
  const [title, says, note, counts] = [heading(), sentence(), soft(), facts()];
  const [shows, answer] = [h("p"), h("p")];
  tiles.node.classList.add("vf-tiles");
  root.append(
    question("How much does each patch count?"),
    controls(...(names.length > 1 ? [images.node] : []), switches.node),
    h(
      "div",
      { className: "vf-side-by-side" },
      h("div", {}, heading("The image"), whole.node, shows),
      h("div", {}, title, tiles.node, answer),
    ),
    says,
    note,
    counts.node,
    soft(
      "The area of a tile and the number on it, in per cent, are the weight of its token; a full tile is the largest weight ",
      "that any of the poolings has in this image. Point at a patch, or focus the image and use the arrow keys. After the ",
      "blocks a token does not describe its patch alone, because it has attended to the others.",
    ),
  );

  return function draw() {
    const index = needIndex(model.get("image"), "image", names.length);
    const pool = needIndex(model.get("pool"), "pool", pools.length);
    const patch = needIndex(model.get("patch"), "patch", N);
    images.show(index);
    switches.show(pool);
    const all = pools.map((_, n) => rowOf(n, index));
    const most = Math.max(...all.map((row) => Math.max(...row.subarray(1))));
    const row = all[pool].subarray(1);
    const cells = Array.from(row, (weight) => ({
      size: tileSide(weight, most),
      word: hundredths(weight),
    }));
    paint(pixels.subarray(index * area, (index + 1) * area), shape, canvas);
    drawTiles(cut, canvas, cells, grid);
    const place = placeOf(patch, cols);
    const keys = `Arrow keys choose one: ${place}.`;
    const label = `${names[index]} in ${rows} rows of ${cols} patches. ${keys}`;
    whole.show({ chosen: patch, label });
    const how = `The same patches, each as large as its weight for ${pools[pool]}. ${keys}`;
    tiles.show({ chosen: patch, cells, label: how });

    shows.textContent = names[index];
    const mistaken = right.length > 0 && !right[pool][index];
    title.textContent = `By ${pools[pool]}${mistaken ? ": wrong" : ""}`;
    answer.textContent = `${right.length ? (mistaken ? "✗ " : "✓ ") : ""}${answers[pool][index]}`;
    answer.style.color = mistaken ? "var(--vf-mark)" : "";
    const best = largest(row);
    const top = row.every((weight) => weight === row[0])
      ? "All patches have the same weight"
      : `The largest weight is in ${placeOf(best, cols)}, ${share(row[best])}`;
    says.textContent =
      `${names[index]}, pooled by ${pools[pool]}: the network answers ${answers[pool][index]}` +
      `${mistaken ? ", which is wrong" : ""}. ` +
      `${top}; the patch in ${place} has ${share(row[patch])}.`;
    note.textContent = honest(kinds[pool], heads[pool], N, all[pool][0]);
    const about = (n) => (kinds[n] === "cls" ? "about " : "");
    const fact = (name, n) => [`${name}, this patch`, about(n) + share(all[n][1 + patch])];
    counts.show(pools.map(fact));
  };
}

/** The image in pieces, each in the middle of its cell and of the cell's size. */
function drawTiles(canvas, image, cells, [rows, cols]) {
  const pen = canvas.getContext("2d");
  const [wide, tall] = [canvas.width / cols, canvas.height / rows];
  const [inner, deep] = [image.width / cols, image.height / rows];
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.imageSmoothingEnabled = false;
  cells.forEach(({ size }, n) => {
    const [col, row] = [n % cols, Math.floor(n / cols)];
    const [x, y] = [(col + (1 - size) / 2) * wide, (row + (1 - size) / 2) * tall];
    pen.drawImage(image, col * inner, row * deep, inner, deep, x, y, size * wide, size * tall);
  });
}

export default figure(build);
