// LiveViT: a trained Vision Transformer that runs where it is read.
import { color } from "./kit/canvas.js";
import { ARROWS, choice, KEYS, slider } from "./kit/controls.js";
import { h, sentence } from "./kit/dom.js";
import { bytes, figure } from "./kit/figure.js";
import { list } from "./kit/words.js";
import { borderMean, imageSize, shrink, stroke } from "./upload.js";
import { forward, meanOfHeads, network, rollout, shuffledOrder, softmax } from "./vit.js";

const MODES = { hide: "hides it", look: "looks from it", draw: "draws" };
const OVERLAYS = {
  head: "the chosen head",
  mean: "the mean of its block",
  rollout: "rollout",
  none: "nothing",
};
const MOST_BYTES = 40e6;
const MOST_PIXELS = 25e6;
const FINER = 4; // a file is first drawn so many times larger than the network reads it, then averaged

/** A share for people: 97 %, 3.1 %, <0.1 %. */
export function shortShare(share) {
  if (share > 0 && share < 0.001) return "<0.1 %";
  return `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
}

/** The place of the largest number. */
export function largest(numbers) {
  return numbers.reduce((best, value, i) => (value > numbers[best] ? i : best), 0);
}

function within(value, low, high) {
  return Math.min(high, Math.max(low, Math.round(Number(value)) || 0));
}

function count(n, one, more = `${one}s`) {
  return `${n} ${n === 1 ? one : more}`;
}

/** What the reader has set, made to fit the network: whatever was stored or sent, a picture can be drawn. */
export function settings(get, net, stored) {
  const area = net.channels * net.height * net.width;
  const many = Math.floor(stored.length / area);
  const array = (name) => (Array.isArray(get(name)) ? get(name) : []);
  const own = bytes(get("own"));
  const order = array("order");
  let picture = within(get("picture"), -1, many - 1);
  if (picture < 0 && own.length !== area) picture = many ? 0 : -1;
  const ownPixels = own.length === area ? own : new Uint8Array(area);
  return {
    picture,
    pixels: picture < 0 ? ownPixels : stored.subarray(picture * area, (picture + 1) * area),
    token: within(get("token"), 0, net.T - 1),
    layer: within(get("layer"), 0, net.L - (net.pool === "attn" ? 0 : 1)),
    head: within(get("head"), 0, net.h - 1),
    stage: within(get("stage"), 0, net.L),
    mode: get("mode") in MODES ? get("mode") : "hide",
    overlay: get("overlay") in OVERLAYS ? get("overlay") : "head",
    hidden: [...new Set(array("hidden"))].filter(
      (patch) => Number.isInteger(patch) && patch >= 0 && patch < net.N,
    ),
    removed: Boolean(get("removed")),
    order:
      order.length === net.N && new Set(order).size === net.N && order.every((n) => n in order)
        ? order
        : null,
    positions: Boolean(get("positions")),
    erase: Boolean(get("erase")),
    pen: array("pen").length === 3 ? array("pen") : null,
    cut: array("cut").filter(
      ([layer, head]) => layer >= 0 && layer < net.L && head >= 0 && head < net.h,
    ),
  };
}

/** Bytes (C, H, W) to what the network reads: as data.normalize does it. */
export function normalised(pixels, plane, mean, std) {
  return Float32Array.from(pixels, (value, i) => {
    const c = Math.floor(i / plane);
    return (value / 255 - (mean[c] ?? mean[0])) / (std[c] ?? std[0]);
  });
}

/** Row `token` of one of the maps that forward gives; layer L is the pooling, which has one row. */
export function mapRow(out, net, layer, head, token) {
  const start = layer === net.L ? head * net.T : (head * net.T + token) * net.T;
  return (
    (layer === net.L ? out.poolMap : out.maps[layer])?.subarray(start, start + net.T) ??
    new Float32Array(net.T)
  );
}

/** What is laid over the picture: T shares, or null. */
export function overlayRow(out, net, { overlay, layer, head, token }) {
  if (overlay === "none" || !out.logits) return null;
  if (overlay === "head") return mapRow(out, net, layer, head, token);
  if (overlay === "rollout")
    return rollout(out.maps, net.h, net.T).subarray(token * net.T, (token + 1) * net.T);
  if (layer < net.L)
    return meanOfHeads(out.maps[layer], net.h, net.T).subarray(token * net.T, (token + 1) * net.T);
  const mean = new Float32Array(net.T);
  for (let i = 0; i < net.h; i++)
    mapRow(out, net, layer, i, 0).forEach((share, j) => (mean[j] += share / net.h));
  return mean;
}

/** Buttons of which one has the tab stop; arrow keys walk over them, `columns` to a row. Gives a function that moves it. */
function walk(buttons, columns, arrive = () => {}) {
  const stop = (index) => buttons.forEach((button, i) => (button.tabIndex = i === index ? 0 : -1));
  buttons.forEach((button, i) => {
    button.addEventListener("focus", () => stop(i));
    button.addEventListener("keydown", (event) => {
      const [dx, dy] = ARROWS[event.key] ?? [];
      if (dx === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      const next = i + dx + dy * columns;
      buttons[next]?.focus();
      if (buttons[next]) arrive(next);
    });
  });
  stop(0);
  return stop;
}

/** Pictures of which one is chosen. show(index) marks it. */
function gallery(label, className, faces, columns, pick) {
  const buttons = faces.map((face, i) =>
    h("button", { type: "button", role: "radio", onclick: () => pick(i), ...KEYS }, face),
  );
  const stop = walk(buttons, columns, pick);
  const node = h("div", { role: "radiogroup", "aria-label": label, className }, ...buttons);
  const show = (index) => {
    buttons.forEach((button, i) => button.setAttribute("aria-checked", String(i === index)));
    if (!node.contains(document.activeElement)) stop(Math.max(0, index));
  };
  return { node, buttons, show };
}

function pill(text, onclick) {
  return h("button", { type: "button", className: "lv-button", onclick, ...KEYS }, text);
}

function checkbox(text, onpick) {
  const input = h("input", { type: "checkbox", onchange: () => onpick(input.checked), ...KEYS });
  return { node: h("label", { className: "lv-check" }, input, text), input };
}

/** Read a file of the reader's into bytes (C, H, W), or throw an error with words for people. It goes nowhere else. */
async function readPicture(file, net) {
  const name = file.name || "This file";
  const kinds = "Choose a PNG, JPEG, WebP, GIF or BMP file.";
  if (file.size > MOST_BYTES) {
    const [mega, most] = [file.size, MOST_BYTES].map((size) => Math.round(size / 1e6));
    throw Error(`${name} has ${mega} MB. Choose a file of at most ${most} MB.`);
  }
  const size = imageSize(new Uint8Array(await file.slice(0, 1 << 20).arrayBuffer()));
  if (!size) throw Error(`${name} is no picture that this figure can read. ${kinds}`);
  if (size.width * size.height > MOST_PIXELS) {
    const [mega, most] = [size.width * size.height, MOST_PIXELS].map((pixels) =>
      Math.round(pixels / 1e6),
    );
    throw Error(
      `${name} has ${size.width} × ${size.height} pixels, ${mega} million. Choose one of at most ${most} million.`,
    );
  }
  const bitmap = await createImageBitmap(file).catch(() => {
    throw Error(`${name} is damaged: the browser cannot decode it. ${kinds}`);
  });
  const canvas = h("canvas", { width: net.width * FINER, height: net.height * FINER });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  pen.imageSmoothingQuality = "high";
  pen.fillRect(0, 0, canvas.width, canvas.height); // black behind what is transparent
  const scale = Math.max(canvas.width / bitmap.width, canvas.height / bitmap.height); // the middle, not distorted
  const [width, height] = [bitmap.width * scale, bitmap.height * scale];
  pen.drawImage(bitmap, (canvas.width - width) / 2, (canvas.height - height) / 2, width, height);
  bitmap.close();
  const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
  return shrink(data, net.width, net.height, FINER, net.channels);
}

function build({ model, root, put }) {
  const get = (name) => model.get(name);
  const net = network(get("config"), get("layout"), bytes(get("weights")));
  const { width: W, height: H, channels: C, rows, cols, N, T, L, D, h: heads, prefix } = net;
  const stored = bytes(get("pictures"));
  const area = C * H * W;
  const many = stored.length / area;
  if (!Number.isInteger(many))
    throw Error(`its pictures should take ${area} bytes each and take ${stored.length}`);
  const [classes, names, labels] = ["classes", "picture_classes", "labels"].map(get);
  if (classes.length !== net.classes)
    throw Error(`it has ${net.classes} logits and ${classes.length} class names`);
  const known = names.join() === classes.join(); // do the pictures show what the network was trained on?
  const onDark = many > 0 && borderMean(stored, W, H) < 64;
  const state = () => settings(get, net, stored);

  const place = (n) => `row ${Math.floor(n / cols)}, column ${n % cols}`;
  const tokenName = (n) =>
    n < prefix ? "token 0, the cls token" : `token ${n} (${place(n - prefix)})`;
  const pictureName = (n) =>
    n < 0 ? "your picture" : `picture ${n}: ${names[labels[n]] ?? "no label"}`;
  const isCut = ({ cut }, layer, head) => cut.some(([l, i]) => l === layer && i === head);
  const shows = ({ order }, n) => (order ? order[n] : n); // the patch that stands at a place

  // Where a pixel of the screen is at home: patches may be shuffled.
  function home(order, y, x) {
    if (!order) return y * W + x;
    const patch = order[Math.floor(y / net.ph) * cols + Math.floor(x / net.pw)];
    return (
      (Math.floor(patch / cols) * net.ph + (y % net.ph)) * W +
      (patch % cols) * net.pw +
      (x % net.pw)
    );
  }
  function paint(canvas, pixels, order = null) {
    const image = new ImageData(W, H);
    for (let y = 0; y < H; y++)
      for (let x = 0; x < W; x++) {
        const [to, from] = [4 * (y * W + x), home(order, y, x)];
        for (let c = 0; c < 3; c++) image.data[to + c] = pixels[Math.min(c, C - 1) * H * W + from];
        image.data[to + 3] = 255;
      }
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
  }

  // ---- which picture
  const faces = Array.from({ length: many }, (_, n) =>
    paint(
      h("canvas", { width: W, height: H, "aria-hidden": "true" }),
      stored.subarray(n * area, (n + 1) * area),
    ),
  );
  const trouble = h("p", { className: "lv-trouble", role: "alert" }); // beside the button that makes it, not at the end
  const complain = (text) => (trouble.textContent = text);
  const shelf = gallery("Test pictures", "lv-shelf", faces, 1, (picture) => {
    complain("");
    put({ picture });
  });
  shelf.buttons.forEach((face, n) => face.setAttribute("aria-label", pictureName(n)));
  const own = (pixels, more = {}) =>
    put({ own: new DataView(pixels.buffer), picture: -1, ...more });
  const load = async (chosen) => {
    complain("");
    try {
      const pixels = await readPicture(chosen, net);
      // Trained on things on a dark ground, a network is lost on a bright one: take the negative.
      own(onDark && borderMean(pixels, W, H) > 128 ? pixels.map((value) => 255 - value) : pixels);
    } catch (error) {
      complain(error.message);
    }
  };
  const file = h("input", { type: "file", accept: "image/*", className: "lv-file", ...KEYS });
  file.addEventListener("change", () => {
    if (file.files[0]) load(file.files[0]);
    file.value = ""; // the same file may be chosen again
  });
  root.addEventListener("dragover", (event) => event.preventDefault());
  root.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) load(event.dataTransfer.files[0]);
  });
  const blank = pill("New drawing", () => own(new Uint8Array(area), { mode: "draw" }));
  const negative = pill("Negative", () =>
    own(Uint8Array.from(state().pixels, (value) => 255 - value)),
  );
  const upload = h("label", { className: "lv-button" }, "Load a file", file);

  // ---- the picture, cut into patches
  const zoom = Math.ceil(560 / Math.max(W, H));
  const canvas = h("canvas", { width: W * zoom, height: H * zoom, role: "img", ...KEYS });
  const hide = (n) => {
    const { hidden, order } = state();
    const patch = shows({ order }, n);
    put({
      hidden: hidden.includes(patch) ? hidden.filter((m) => m !== patch) : [...hidden, patch],
    });
  };
  const look = (n) => put({ token: prefix + n });
  const patches = Array.from({ length: N }, (_, n) =>
    h("button", {
      type: "button",
      onclick: () => (state().mode === "look" ? look(n) : hide(n)),
      ...KEYS,
    }),
  );
  patches.forEach((patch, n) =>
    patch.addEventListener("keydown", ({ key }) => {
      if (key === "h") hide(n);
      if (key === "l") look(n);
    }),
  );
  walk(patches, cols);
  const grid = h(
    "div",
    { role: "group", "aria-label": "Patches", className: "lv-grid" },
    ...patches,
  );
  grid.style.setProperty("--lv-cols", cols);
  const easel = h("div", { className: "lv-easel" }, canvas, grid);
  const modes = choice("A click on it", Object.values(MODES), (i) => {
    put({ mode: Object.keys(MODES)[i], pen: [] });
  });

  // ---- drawing on it
  let last = null; // of the pointer: [x, y]
  const rubber = pill("Rubber", () => put({ erase: !state().erase }));
  const ink = (line) => {
    const { pixels, order, erase } = state();
    const next = pixels.slice();
    stroke(next, W, H, line, Math.max(W, H) / 24, erase, (y, x) => home(order, y, x));
    own(next);
  };
  const pointed = ({ clientX, clientY }) => {
    const box = canvas.getBoundingClientRect();
    return [((clientX - box.left) / box.width) * W, ((clientY - box.top) / box.height) * H];
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (state().mode !== "draw") return;
    canvas.setPointerCapture(event.pointerId);
    last = pointed(event);
    ink([...last, ...last]);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!last) return;
    const next = pointed(event);
    ink([...last, ...next]);
    last = next;
  });
  for (const end of ["pointerup", "pointercancel"])
    canvas.addEventListener(end, () => (last = null));
  canvas.addEventListener("keydown", (event) => {
    const step = ARROWS[event.key];
    if (state().mode !== "draw" || !(step || event.key === " ")) return;
    event.preventDefault();
    event.stopPropagation();
    const [x, y, down] = state().pen ?? [W >> 1, H >> 1, 0];
    const [dx, dy] = step ?? [0, 0];
    const pen = [within(x + dx, 0, W - 1), within(y + dy, 0, H - 1), step ? down : 1 - down];
    put({ pen });
    if (pen[2]) ink([x + 0.5, y + 0.5, pen[0] + 0.5, pen[1] + 0.5]);
  });

  // ---- heads
  const mapRows = L + (net.pool === "attn" ? 1 : 0);
  const at = (i) => [Math.floor(i / heads), i % heads];
  const maps = Array.from({ length: mapRows * heads }, () => {
    const map = h("canvas", { width: cols, height: rows, "aria-hidden": "true" });
    const share = h("i");
    return {
      node: h("span", { className: "lv-map" }, map, h("span", { hidden: !prefix }, share)),
      map,
      share,
    };
  });
  const pickHead = (i) => {
    const [layer, head] = at(i);
    const { overlay } = state();
    put({ layer, head, overlay: overlay === "none" ? "head" : overlay });
  };
  const faceOf = ({ node }) => node;
  const headGrid = gallery("Attention heads", "lv-heads", maps.map(faceOf), heads, pickHead);
  headGrid.node.style.setProperty("--lv-heads", heads);
  for (let layer = 0; layer < mapRows; layer++) {
    const tag = layer === L ? "pool" : String(layer);
    headGrid.buttons[layer * heads].before(
      h("span", { className: "lv-tag", "aria-hidden": "true" }, tag),
    );
  }
  const cutOff = (pairs) => {
    const now = state();
    const all = pairs.every(([layer, head]) => isCut(now, layer, head));
    const rest = now.cut.filter(
      ([l, i]) => !pairs.some(([layer, head]) => l === layer && i === head),
    );
    put({ cut: all ? rest : [...rest, ...pairs] });
  };
  const cutHead = (layer, head) => layer < L && cutOff([[layer, head]]);
  headGrid.buttons.forEach((map, i) =>
    map.addEventListener("keydown", ({ key }) => key === "x" && cutHead(...at(i))),
  );
  const blockHeads = (layer) => Array.from({ length: heads }, (_, head) => [layer, head]);
  const cutOne = pill("", () => cutHead(state().layer, state().head));
  const cutBlock = pill("", () => cutOff(blockHeads(state().layer)));
  const overlays = choice("Over it", Object.values(OVERLAYS), (i) =>
    put({ overlay: Object.keys(OVERLAYS)[i] }),
  );

  // ---- the answer
  const shown = Math.min(classes.length, 10);
  const bars = Array.from({ length: shown }, () => {
    const [name, bar, tick, share] = [h("span"), h("b"), h("i"), h("span")];
    const line = h(
      "li",
      {},
      name,
      h("span", { className: "lv-bar", "aria-hidden": "true" }, bar, tick),
      share,
    );
    return { name, bar, tick, share, line };
  });
  const clock = h("p", { className: "vf-soft" });

  // ---- switches
  let seed = 0;
  const shuffle = pill("Shuffle the patches", () => put({ order: shuffledOrder(N, ++seed) }));
  const sort = pill("Back in order", () => put({ order: [] }));
  const positions = checkbox("Position embedding", (on) => put({ positions: on }));
  const removed = checkbox("Take hidden patches out", (on) => put({ removed: on }));
  const undo = pill("Undo all", () =>
    put({ hidden: [], removed: false, order: [], positions: true, cut: [] }),
  );

  // ---- tokens
  const tokenSlider = slider("Look from token", (token) => put({ token }));
  const stageSlider = slider("Tokens", (stage) => put({ stage }));
  const tall = within(220 / T, 2, 12);
  const strip = h("canvas", { width: net.pw, height: net.ph * T, "aria-hidden": "true" });
  const matrix = h("canvas", { width: D, height: T, role: "img" });
  const ring = h("i");
  const table = h("div", { className: "lv-table" }, strip, h("div", {}, matrix, ring));
  table.style.height = `${tall * T}px`;
  strip.style.width = `${Math.max(8, tall)}px`;
  table.addEventListener("click", ({ clientY }) => {
    const box = table.getBoundingClientRect();
    put({ token: within(((clientY - box.top) / box.height) * T - 0.5, 0, T - 1) });
  });

  const head = (text) => h("p", { className: "vf-head" }, text);
  const says = sentence();
  const about = known || !many ? get("note") : strangers(classes, names);
  root.classList.add("lv");
  root.append(
    h("p", { className: "vf-soft", hidden: !about }, about),
    shelf.node,
    h("div", { className: "lv-row" }, blank, upload, negative),
    trouble,
    h("div", { className: "lv-row" }, shuffle, sort, positions.node, removed.node, undo),
    h(
      "div",
      { className: "lv-main" },
      h("div", {}, head("The picture"), easel, modes.node, rubber, overlays.node),
      h(
        "div",
        {},
        head("Attention: block × head"),
        headGrid.node,
        h(
          "p",
          { className: "vf-soft" },
          `Each map is scaled to its largest share.${prefix ? " The line below it: the share of the cls token." : ""}`,
        ),
        h("div", { className: "lv-row" }, cutOne, cutBlock),
      ),
      h(
        "div",
        { className: "lv-answer" },
        head("The answer"),
        h("ul", { className: "lv-bars" }, ...bars.map(({ line }) => line)),
        clock,
      ),
    ),
    says,
    h("div", { className: "vf-controls" }, tokenSlider.node, stageSlider.node),
    table,
    h(
      "p",
      { className: "vf-soft" },
      `Each row is a token, each column one of its ${D} numbers: blue above 0, orange below.`,
    ),
  );

  const raw = h("canvas", { width: W, height: H }); // the picture as the network gets it
  const rgb = (name) =>
    color(root, name)
      .match(/[\d.]+/g)
      .slice(0, 3)
      .map(Number);
  const inks = () => ({
    hot: rgb("mark"),
    low: rgb("paper"),
    high: rgb("blue"),
    plus: rgb("blue"),
    minus: rgb("mark"),
  });
  let computed = {}; // {key, out, ms}: stays until the picture or a switch changes; to look around is free
  let untouched = {}; // {key, logits} of the whole picture
  let words = "";
  let speak = 0;
  let tell = 0;

  function compute({ pixels, hidden, removed, order, positions: on, cut }) {
    const picture = pixels.join();
    const key = JSON.stringify([picture, hidden, removed, order, on, cut]);
    if (computed.key === key) return;
    const numbers = normalised(pixels, H * W, get("mean"), get("std"));
    const start = performance.now();
    const out = forward(net, numbers, { hidden, removed, order, positions: on, cut });
    computed = { key, out, ms: performance.now() - start };
    if (untouched.key !== picture)
      untouched = { key: picture, logits: forward(net, numbers).logits };
  }

  function draw() {
    if (!root.isConnected) return; // no colours yet
    const now = state();
    compute(now);
    const { out, ms } = computed;
    const row = overlayRow(out, net, now);
    const colors = inks();
    drawPicture(now, row, colors);
    drawMaps(now, out, colors);
    drawAnswer(now, out, ms);
    drawTokens(now, out, colors);
    drawControls(now);
    root.dataset.ms = ms.toFixed(2);
    // A hand that draws changes all this faster than anybody, or a kernel, can listen.
    const next = inWords(now, out, row);
    if (next !== words) {
      clearTimeout(speak);
      speak = setTimeout(() => (says.textContent = next), words ? 200 : 0);
      words = next;
    }
    clearTimeout(tell);
    tell = setTimeout(() => {
      const logits = out.logits ? Array.from(out.logits) : [];
      if (logits.join() !== String(get("logits"))) put({ logits });
    }, 60);
  }

  function drawPicture({ pixels, order, hidden, removed, token, mode, pen }, row, { hot }) {
    const brush = canvas.getContext("2d");
    const [w, tallness] = [net.pw * zoom, net.ph * zoom];
    const top = row ? row.subarray(prefix).reduce((a, b) => Math.max(a, b), 1e-9) : 1;
    brush.imageSmoothingEnabled = false;
    brush.drawImage(paint(raw, pixels, order), 0, 0, canvas.width, canvas.height);
    for (let n = 0; n < N; n++) {
      const [x, y] = [(n % cols) * w, Math.floor(n / cols) * tallness];
      if (hidden.includes(shows({ order }, n))) cover(brush, x, y, w, tallness, removed);
      brush.fillStyle = row
        ? `rgb(${hot.join(" ")} / ${(0.75 * row[prefix + n]) / top})`
        : "transparent";
      brush.fillRect(x, y, w, tallness);
    }
    brush.strokeStyle = "rgb(128 128 128 / 0.8)";
    brush.lineWidth = 3;
    for (let n = 1; n < cols; n++) brush.strokeRect(n * w, -9, 0, canvas.height + 18);
    for (let n = 1; n < rows; n++) brush.strokeRect(-9, n * tallness, canvas.width + 18, 0);
    const seat = token - prefix;
    for (const [style, width] of [
      ["#000", 12],
      ["#fff", 6],
    ]) {
      Object.assign(brush, { strokeStyle: style, lineWidth: width });
      if (seat >= 0)
        brush.strokeRect(
          (seat % cols) * w + 6,
          Math.floor(seat / cols) * tallness + 6,
          w - 12,
          tallness - 12,
        );
      if (pen && mode === "draw")
        brush.strokeRect(pen[0] * zoom - 3, pen[1] * zoom - 3, zoom + 6, zoom + 6);
    }
  }

  // Painted over with the mean of the training pixels; or no token at all: nothing but stripes.
  function cover(brush, x, y, w, tallness, gone) {
    const mean = get("mean").map((value) => Math.round(255 * value));
    brush.save();
    brush.beginPath();
    brush.rect(x, y, w, tallness);
    brush.clip();
    brush.fillStyle = gone ? "#ddd" : `rgb(${mean[0]} ${mean[1] ?? mean[0]} ${mean[2] ?? mean[0]})`;
    brush.fillRect(x, y, w, tallness);
    Object.assign(brush, {
      strokeStyle: gone ? "#777" : "rgb(255 255 255 / 0.3)",
      lineWidth: gone ? 4 : 2,
    });
    brush.beginPath();
    for (let i = -tallness; i < w; i += 18) {
      brush.moveTo(x + i, y + tallness);
      brush.lineTo(x + i + tallness, y);
    }
    brush.stroke();
    brush.restore();
  }

  function drawMaps(now, out, { low, high }) {
    maps.forEach(({ map, share }, i) => {
      const [layer, head] = at(i);
      const row = mapRow(out, net, layer, head, now.token);
      const top = row.subarray(prefix).reduce((a, b) => Math.max(a, b), 1e-9);
      const image = new ImageData(cols, rows);
      for (let n = 0; n < N; n++) {
        const part = row[prefix + n] / top;
        image.data.set([...low.map((value, c) => value + (high[c] - value) * part), 255], 4 * n);
      }
      map.getContext("2d").putImageData(image, 0, 0);
      share.style.width = `${prefix ? 100 * row[0] : 0}%`;
      const gone = isCut(now, layer, head);
      headGrid.buttons[i].classList.toggle("lv-cut", gone);
      const where = layer === L ? `pooling, head ${head}` : `block ${layer}, head ${head}`;
      headGrid.buttons[i].setAttribute("aria-label", `${where}${gone ? ", cut" : ""}`);
    });
  }

  function drawAnswer({ picture }, { logits }, ms) {
    const shares = logits ? softmax(logits) : classes.map(() => 0);
    const before = untouched.logits ? softmax(untouched.logits) : shares;
    const ranked = classes.map((_, k) => k);
    const weight = (k) => Math.max(shares[k], before[k]);
    if (classes.length > shown) ranked.sort((a, b) => weight(b) - weight(a));
    const best = logits ? largest(shares) : -1;
    bars.forEach(({ name, bar, tick, share, line }, i) => {
      const k = ranked[i];
      const truth = known && picture >= 0 && labels[picture] === k;
      name.textContent = `${classes[k]}${truth ? " ✓" : ""}`;
      bar.style.width = `${100 * shares[k]}%`;
      tick.style.left = `${100 * before[k]}%`;
      share.textContent = shortShare(shares[k]);
      line.classList.toggle("lv-best", k === best);
    });
    const label = known && picture >= 0 ? " ✓ is what the picture shows." : "";
    clock.textContent = `The thin line is the answer for the whole picture, untouched.${label} ${ms.toFixed(1)} ms in your browser.`;
  }

  function drawTokens({ token, stage, hidden, order }, out, { low, plus, minus }) {
    const image = new ImageData(D, T);
    const numbers = out.tokens[stage] ?? new Float32Array(T * D);
    const spread =
      2.5 * Math.sqrt(numbers.reduce((sum, x) => sum + x * x, 0) / numbers.length) || 1;
    numbers.forEach((x, i) => {
      const end = x < 0 ? minus : plus;
      const part = Math.min(1, Math.abs(x) / spread);
      for (let c = 0; c < 3; c++) image.data[4 * i + c] = low[c] + (end[c] - low[c]) * part;
      image.data[4 * i + 3] = 255;
    });
    matrix.getContext("2d").putImageData(image, 0, 0);
    const brush = strip.getContext("2d");
    brush.fillStyle = color(root, "soft");
    brush.fillRect(0, 0, strip.width, strip.height);
    for (let n = 0; n < N; n++) {
      if (hidden.includes(shows({ order }, n))) continue;
      const [x, y] = [(n % cols) * net.pw, Math.floor(n / cols) * net.ph];
      brush.drawImage(raw, x, y, net.pw, net.ph, 0, (prefix + n) * net.ph, net.pw, net.ph);
    }
    Object.assign(ring.style, { top: `${token * tall - 1}px`, height: `${tall + 2}px` });
    const where = stage ? `after ${stage} of ${count(L, "block")}` : "before the first block";
    matrix.setAttribute("aria-label", `${T} tokens of ${D} numbers each, ${where}`);
    tokenSlider.show([...Array(T).keys()], token, tokenName(token));
    stageSlider.show([...Array(L + 1).keys()], stage, where);
  }

  function drawControls(now) {
    const { picture, mode, overlay, hidden, order, layer, head: chosen, erase } = now;
    shelf.show(picture);
    modes.show(Object.keys(MODES).indexOf(mode));
    overlays.show(Object.keys(OVERLAYS).indexOf(overlay));
    headGrid.show(layer * heads + chosen);
    const drawing = mode === "draw";
    rubber.hidden = !drawing;
    rubber.setAttribute("aria-pressed", String(erase));
    easel.classList.toggle("lv-drawing", drawing);
    canvas.tabIndex = drawing ? 0 : -1;
    canvas.setAttribute("role", drawing ? "application" : "img");
    const board = "Drawing board: arrow keys move the pen, the space bar puts it down and lifts it";
    canvas.setAttribute("aria-label", drawing ? board : "The picture as the network sees it");
    patches.forEach((patch, n) => {
      const other = shows(now, n) === n ? "" : `, with the patch of ${place(shows(now, n))}`;
      patch.setAttribute("aria-pressed", String(hidden.includes(shows(now, n))));
      patch.setAttribute("aria-label", `hidden: ${place(n)}${other}`);
    });
    const pooling = layer === L;
    cutOne.textContent = pooling ? "Cut this head" : `Cut head ${chosen} of block ${layer}`;
    cutBlock.textContent = pooling ? "Cut its block" : `Cut all of block ${layer}`;
    cutOne.disabled = cutBlock.disabled = pooling;
    cutOne.setAttribute("aria-pressed", String(isCut(now, layer, chosen)));
    cutBlock.setAttribute(
      "aria-pressed",
      String(blockHeads(layer).every((pair) => isCut(now, ...pair))),
    );
    positions.input.checked = now.positions;
    removed.input.checked = now.removed;
    sort.disabled = !order;
    undo.disabled = !(hidden.length || order || now.cut.length || now.removed || !now.positions);
  }

  function inWords(now, { logits }, row) {
    const parts = [`${pictureName(now.picture)}.`];
    if (logits) {
      const shares = softmax(logits);
      const [best, was] = [largest(shares), untouched.logits ? largest(untouched.logits) : -1];
      const change =
        was < 0 || was === best ? "" : `, where it said ${classes[was]} of the untouched picture`;
      parts.push(`The network says ${classes[best]}, ${shortShare(shares[best])}${change}.`);
    } else {
      parts.push(
        "No token is left, and this network has no cls token: there is nothing to read a class from.",
      );
    }
    const done = [];
    const fate = now.removed ? "taken out" : "painted grey";
    if (now.hidden.length)
      done.push(`${now.hidden.length} of ${count(N, "patch", "patches")} ${fate}`);
    if (now.order) done.push("the patches are shuffled");
    if (!now.positions) done.push("no positions are added");
    if (now.cut.length) done.push(`${count(now.cut.length, "head")} cut`);
    if (done.length) parts.push(`Changed: ${list(done)}.`);
    if (row) parts.push(gaze(now, row));
    const text = parts.join(" ");
    return text[0].toUpperCase() + text.slice(1);
  }

  function gaze({ token, layer, head: chosen, overlay }, row) {
    const capital = (text) => text[0].toUpperCase() + text.slice(1);
    const who = token < prefix ? "the cls token" : tokenName(token);
    if (!row.some((share) => share > 0))
      return `${capital(who)} is taken out and looks at nothing.`;
    const most = largest(row);
    const goal = most < prefix ? "the cls token" : tokenName(most);
    const it = most === token ? "itself" : goal;
    if (overlay === "rollout")
      return `By rollout ${who} comes most from ${it}, ${shortShare(row[most])}.`;
    const where = layer === L ? "the pooling" : `block ${layer}`;
    const eye = overlay === "mean" ? `the mean of ${where}` : `head ${chosen} of ${where}`;
    if (layer === L) return `${capital(eye)} looks most at ${goal}, ${shortShare(row[most])}.`;
    return `In ${eye} ${who} looks most at ${it}, ${shortShare(row[most])}.`;
  }

  return draw;
}

function strangers(classes, names) {
  const few = (words) => `${words.slice(0, 3).join(", ")}${words.length > 3 ? " and so on" : ""}`;
  return (
    `This network was trained to tell ${few(classes)} apart. ` +
    `The pictures here show something else: ${few(names)}. Watch how it works; its answers mean nothing.`
  );
}

export default figure(build);
