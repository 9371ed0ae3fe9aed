// What the network may lose: the order of its patches, its positions, the patches that are hidden.
import { button, toggle } from "../kit/controls.js";
import { h } from "../kit/dom.js";
import { shuffledOrder } from "../kit/random.js";

export function switchPanel({ net, put }) {
  let seed = 0;
  const shuffle = button("Shuffle the patches", () => put({ order: shuffledOrder(net.N, ++seed) }));
  const sort = button("Back in order", () => put({ order: [] }));
  const positions = toggle("Position embedding", (on) => put({ positions: on }));
  const removed = toggle("Take hidden patches out", (on) => put({ removed: on }));
  const undo = button("Undo all", () =>
    put({ hidden: [], removed: false, order: [], positions: true, ablated: [] }),
  );
  const all = [shuffle, sort, positions.node, removed.node, undo];

  function show(now) {
    positions.show(now.positions);
    removed.show(now.removed);
    sort.disabled = !now.order;
    const lost =
      now.hidden.length || now.order || now.ablated.length || now.removed || !now.positions;
    undo.disabled = !lost;
  }
  return { node: h("div", { className: "vf-buttons lv-full" }, ...all), show };
}
