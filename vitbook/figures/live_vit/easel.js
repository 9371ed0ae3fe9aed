// The image, split into patches: to hide them, to choose one as the query, to draw on them; and the attention of a token, over it.
import { inOrder, paint } from "../kit/canvas.js";
import { ARROWS, button, choice, KEYS } from "../kit/controls.js";
import { h, heading } from "../kit/dom.js";
import { walk } from "./gallery.js";
import { MODES, OVERLAYS, partsOf, patchAt, within } from "./state.js";
import { stroke } from "./upload.js";

const [MODE_KEYS, OVERLAY_KEYS] = [MODES, OVERLAYS].map(Object.keys);
const BOARD = "Drawing board: arrow keys move the pen, the space bar puts it down and lifts it";

export function easelPanel({ net, get, put, state, names }) {
  const { width: W, height: H, channels: C, rows, cols, N, prefix } = net;
  const canvas = h("canvas", { width: W, height: H, ...KEYS });
  const grid = patchButtons({ rows, cols, prefix, put, state, names });
  const mean = get("mean").map((value) => Math.round(255 * value));
  const grey = `rgb(${[0, 1, 2].map((c) => mean[c] ?? mean[0])})`;
  grid.node.style.setProperty("--lv-mean", grey);
  const dot = h("i", { className: "lv-pen" }); // where the keyboard's pen is
  Object.assign(dot.style, { width: `${100 / W}%`, height: `${100 / H}%` });
  const board = h("div", { className: "lv-board" }, canvas, grid.node);
  const easel = h("div", { className: "lv-easel" }, board, dot);
  // A query shows in the maps of the heads, which the small form does not have.
  const modeKeys = MODE_KEYS.filter((key) => !(get("compact") && key === "query"));
  const modes = choice(
    "A click on a patch",
    modeKeys.map((key) => MODES[key]),
    (i) => put({ mode: modeKeys[i], pen: [] }),
  );
  const rubber = button("Rubber", () => put({ erase: !state().erase }));
  const overlays = choice("Drawn over it", Object.values(OVERLAYS), (i) =>
    put({ overlay: OVERLAY_KEYS[i] }),
  );

  // A line is drawn on what is shown; what is stored has every patch at home.
  const reordered = (pixels, order) =>
    order ? inOrder(pixels, [C, H, W], [rows, cols], order) : pixels.slice();
  const ink = (line) => {
    const { pixels, order, erase } = state();
    const drawn = reordered(pixels, order);
    stroke(drawn, W, H, line, Math.max(W, H) / 24, erase);
    const home = order?.map((_, patch) => order.indexOf(patch));
    put({ own: new DataView(reordered(drawn, home).buffer), image: -1 });
  };
  drawsOn(canvas, { W, H, ink, put, state });

  /** What a token attends to, over the image, as strongly as `strength` says. */
  const shade = (row, strength = 1) =>
    grid.shade(row ? partsOf(row, prefix).map((part) => strength * part) : new Float32Array(N));

  function show(now, { row }) {
    const { pixels, order, mode, overlay, erase, pen } = now;
    const drawing = mode === "draw";
    paint(reordered(pixels, order), [C, H, W], canvas);
    grid.show(now);
    shade(row);
    grid.node.inert = drawing;
    dot.hidden = !(pen && drawing);
    if (pen)
      Object.assign(dot.style, { left: `${(100 * pen[0]) / W}%`, top: `${(100 * pen[1]) / H}%` });
    modes.show(modeKeys.indexOf(mode));
    overlays.show(OVERLAY_KEYS.indexOf(overlay));
    rubber.hidden = !drawing;
    rubber.setAttribute("aria-pressed", String(erase));
    easel.classList.toggle("lv-drawing", drawing);
    canvas.tabIndex = drawing ? 0 : -1;
    canvas.setAttribute("role", drawing ? "application" : "img");
    canvas.setAttribute("aria-label", drawing ? BOARD : "The image as the network sees it");
  }
  const tools = [modes.node, rubber];
  const node = h("div", {}, heading("The image"), easel);
  return { node, canvas, board, grey, tools, overlays: overlays.node, show, shade };
}

/** A button over each patch: pressed if it is hidden, shaded by what the chosen token takes from it. */
function patchButtons({ rows, cols, prefix, put, state, names }) {
  const hide = (n) => {
    const now = state();
    const patch = patchAt(now, n);
    const rest = now.hidden.filter((m) => m !== patch);
    put({ hidden: rest.length < now.hidden.length ? rest : [...rest, patch] });
  };
  const ask = (n) => put({ token: prefix + n });
  const patches = Array.from({ length: rows * cols }, (_, n) => {
    const onclick = () => (state().mode === "query" ? ask(n) : hide(n));
    const patch = h("button", { type: "button", onclick, ...KEYS });
    patch.addEventListener("keydown", ({ key }) => {
      if (key === "h") hide(n);
      if (key === "l") ask(n);
    });
    return patch;
  });
  walk(patches, cols);
  const node = h(
    "div",
    { role: "group", "aria-label": "Patches", className: "lv-grid" },
    ...patches,
  );
  node.style.setProperty("--lv-cols", cols);

  const shade = (parts) =>
    patches.forEach((patch, n) => patch.style.setProperty("--lv-shade", parts[n].toFixed(3)));

  function show(now) {
    node.classList.toggle("lv-removed", now.removed);
    patches.forEach((patch, n) => {
      const shown = patchAt(now, n);
      const other = shown === n ? "" : `, with the patch of ${names.place(shown)}`;
      patch.setAttribute("aria-pressed", String(now.hidden.includes(shown)));
      patch.setAttribute("aria-label", `hidden: ${names.place(n)}${other}`);
      patch.toggleAttribute("data-chosen", prefix + n === now.token);
    });
  }
  return { node, show, shade };
}

/** A pen for pointer and keyboard: ink([x0, y0, x1, y1]) in pixels of the image. */
function drawsOn(canvas, { W, H, ink, put, state }) {
  let last = null; // of the pointer: [x, y]
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
}
