// What the network may lose: the order of its patches, its positions, the patches that are hidden.
import { button, toggle } from "../kit/controls.js";
import { shuffledOrder } from "../kit/random.js";

/** The switches: shuffle, sort, positions, removed and undo, each an element; and show(now). */
export function switchPanel({ net, get, put }) {
  let seed = 0;
  const words = get("compact")
    ? ["Shuffle", "Positions"]
    : ["Shuffle the patches", "Position embedding"];
  const shuffle = button(words[0], () => put({ order: shuffledOrder(net.N, ++seed) }));
  const sort = button("Back in order", () => put({ order: [] }));
  const positions = toggle(words[1], (on) => put({ positions: on }));
  const removed = toggle("Take hidden patches out", (on) => put({ removed: on }));
  const undo = button("Undo all", () =>
    put({ hidden: [], removed: false, order: [], positions: true, ablated: [] }),
  );

  function show(now) {
    positions.show(now.positions);
    removed.show(now.removed);
    sort.disabled = !now.order;
    const lost =
      now.hidden.length || now.order || now.ablated.length || now.removed || !now.positions;
    undo.disabled = !lost;
  }
  return { shuffle, sort, positions: positions.node, removed: removed.node, undo, show };
}
