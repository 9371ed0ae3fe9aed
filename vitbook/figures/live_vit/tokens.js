// The tokens themselves, block by block: each a row of numbers, its patch beside it.
import { color, palette, shades } from "../kit/canvas.js";
import { slider } from "../kit/controls.js";
import { controls, h, soft } from "../kit/dom.js";
import { count } from "./speech.js";
import { patchAt, within } from "./state.js";

/** board is the canvas with the image as it is shown. */
export function tokenPanel({ net, root, put, names }, board) {
  const { cols, ph, pw, N, T, L, D, prefix } = net;
  const from = slider("Query: token", (token) => put({ token }));
  const stages = slider("Tokens", (stage) => put({ stage }));
  const tall = within(220 / T, 2, 12);
  const strip = h("canvas", { width: pw, height: ph * T, "aria-hidden": "true" });
  const matrix = h("canvas", { width: D, height: T, role: "img" });
  const ringed = h("i");
  const table = h("div", { className: "lv-table" }, strip, h("div", {}, matrix, ringed));
  table.style.height = `${tall * T}px`;
  strip.style.width = `${Math.max(8, tall)}px`;
  table.addEventListener("click", ({ clientY }) => {
    const box = table.getBoundingClientRect();
    put({ token: within(((clientY - box.top) / box.height) * T - 0.5, 0, T - 1) });
  });

  function showNumbers(numbers) {
    const scale = 2.5 * Math.sqrt(numbers.reduce((sum, x) => sum + x * x, 0) / numbers.length) || 1;
    const parts = numbers.map((x) => x / scale);
    shades(matrix, parts, [T, D], palette(root));
  }

  function showPatches(now) {
    const brush = strip.getContext("2d");
    brush.fillStyle = color(root, "soft");
    brush.fillRect(0, 0, strip.width, strip.height);
    for (let n = 0; n < N; n++) {
      if (now.hidden.includes(patchAt(now, n))) continue;
      const [x, y] = [(n % cols) * pw, Math.floor(n / cols) * ph];
      brush.drawImage(board, x, y, pw, ph, 0, (prefix + n) * ph, pw, ph);
    }
  }

  function show(now, { out }) {
    const { token, stage } = now;
    showNumbers(out.tokens[stage] ?? new Float32Array(T * D));
    showPatches(now);
    Object.assign(ringed.style, { top: `${token * tall - 1}px`, height: `${tall + 2}px` });
    const where = stage ? `after ${stage} of ${count(L, "block")}` : "before the first block";
    matrix.setAttribute("aria-label", `${T} tokens of ${D} numbers each, ${where}`);
    from.show([...Array(T).keys()], token, names.token(token));
    stages.show([...Array(L + 1).keys()], stage, where);
  }
  const hint = soft(
    `Each row is a token, each column one of its ${D} numbers: blue above 0, orange below.`,
  );
  const node = h("div", { className: "lv-tokens" }, controls(from.node, stages.node), table, hint);
  return { node, show };
}
