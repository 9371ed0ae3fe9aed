// What each head of each block attends to, as small maps; a head, or a whole block, can be ablated.
import { button } from "../kit/controls.js";
import { h, heading, s, soft } from "../kit/dom.js";
import { gallery } from "./gallery.js";
import { isAblated, mapRow, partsOf } from "./state.js";

export function headPanel({ net, put, state }) {
  const { rows, cols, prefix, L, h: heads } = net;
  const mapRows = L + (net.pool === "attn" ? 1 : 0);
  const at = (i) => [Math.floor(i / heads), i % heads];
  const maps = Array.from({ length: mapRows * heads }, () => headMap(rows, cols, prefix));
  const pick = (i) => {
    const [layer, head] = at(i);
    const { overlay } = state();
    put({ layer, head, overlay: overlay === "none" ? "head" : overlay });
  };
  const grid = gallery(
    "Attention heads",
    "lv-heads",
    maps.map(({ node }) => node),
    heads,
    pick,
  );
  grid.node.style.setProperty("--lv-heads", heads);
  for (let layer = 0; layer < mapRows; layer++) {
    const tag = layer === L ? "pool" : String(layer);
    grid.buttons[layer * heads].before(
      h("span", { className: "lv-tag", "aria-hidden": "true" }, tag),
    );
  }

  const ablate = (pairs) => {
    const now = state();
    const all = pairs.every((pair) => isAblated(now, ...pair));
    const rest = now.ablated.filter(([l, i]) => !isAblated({ ablated: pairs }, l, i));
    put({ ablated: all ? rest : [...rest, ...pairs] });
  };
  const ablateHead = (layer, head) => layer < L && ablate([[layer, head]]);
  grid.buttons.forEach((map, i) =>
    map.addEventListener("keydown", ({ key }) => key === "x" && ablateHead(...at(i))),
  );
  const blockHeads = (layer) => Array.from({ length: heads }, (_, head) => [layer, head]);
  const oneHead = button("", () => ablateHead(state().layer, state().head));
  const wholeBlock = button("", () => ablate(blockHeads(state().layer)));

  function show(now, { out }) {
    maps.forEach((map, i) => {
      const [layer, head] = at(i);
      map.show(mapRow(out, net, layer, head, now.token));
      const off = isAblated(now, layer, head);
      const where = layer === L ? `pooling, head ${head}` : `block ${layer}, head ${head}`;
      grid.buttons[i].classList.toggle("lv-ablated", off);
      grid.buttons[i].setAttribute("aria-label", `${where}${off ? ", ablated" : ""}`);
    });
    grid.show(now.layer * heads + now.head);
    const pooling = now.layer === L;
    const pressed = (...pairs) => String(pairs.every((pair) => isAblated(now, ...pair)));
    oneHead.textContent = pooling
      ? "Ablate this head"
      : `Ablate head ${now.head} of block ${now.layer}`;
    wholeBlock.textContent = pooling ? "Ablate its block" : `Ablate all of block ${now.layer}`;
    oneHead.disabled = wholeBlock.disabled = pooling;
    oneHead.setAttribute("aria-pressed", pressed([now.layer, now.head]));
    wholeBlock.setAttribute("aria-pressed", pressed(...blockHeads(now.layer)));
  }
  const hint = prefix ? " The line below it: the share of the cls token." : "";
  const node = h(
    "div",
    { className: "lv-attention" },
    heading("Attention: block × head"),
    h("div", { className: "vf-buttons" }, oneHead, wholeBlock), // near the answer, which they change
    grid.node,
    soft(`Each map is scaled to its largest share.${hint}`),
  );
  return { node, show };
}

/** One row of attention: the patches in shades, the cls token as a line below them. */
function headMap(rows, cols, prefix) {
  const cells = Array.from({ length: rows * cols }, (_, n) =>
    s("rect", { x: n % cols, y: Math.floor(n / cols), width: 1, height: 1 }),
  );
  const svg = s("svg", { viewBox: `0 0 ${cols} ${rows}`, "aria-hidden": "true" }, ...cells);
  const line = h("i");
  const node = h("span", { className: "lv-map" }, svg, h("span", { hidden: !prefix }, line));
  function show(row) {
    const parts = partsOf(row, prefix);
    cells.forEach((cell, n) => cell.setAttribute("fill-opacity", parts[n].toFixed(3)));
    line.style.width = `${prefix ? 100 * row[0] : 0}%`;
  }
  return { node, show };
}
