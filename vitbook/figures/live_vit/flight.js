// Patches in another order fly to their new places, so that one sees where each has gone.
import { calm, eased, glide } from "../kit/motion.js";
import { boxBetween, boxIn, cellOf, tileLayer } from "./tiles.js";

const MILLISECONDS = 700;

/** The layer over the figure in which patches fly: node, tiles, and show(now). */
export function flightPanel({ net }, easel) {
  const tiles = tileLayer(net);
  const home = [...Array(net.N).keys()];
  let last = null; // what was shown: { pixels, order }
  let halt = null;

  /** From their places in one order to those in another. */
  function fly(from, to) {
    const board = boxIn(tiles.node, easel.board);
    const cells = home.map((place) => cellOf(board, place, tiles.shape));
    halt?.();
    tiles.node.hidden = false;
    easel.board.style.opacity = 0;
    const move = (share) =>
      home.forEach((patch) => {
        const [start, end] = [from, to].map((order) => cells[order.indexOf(patch)]);
        tiles.show(patch, true);
        tiles.place(patch, boxBetween(start, end, eased(share)));
      });
    move(0);
    halt = glide(MILLISECONDS, move, land);
  }

  function land() {
    halt = null;
    tiles.node.hidden = true;
    easel.board.style.opacity = "";
  }

  function show(now) {
    tiles.cut(now, easel.grey);
    const [pixels, order] = [now.pixels.join(), now.order ?? home];
    const moved = last?.pixels === pixels && last.order.join() !== order.join();
    const inTheAir = now.compact && now.moment > 0 && now.moment < 2; // as patches of the forward pass
    if (moved && !calm() && !inTheAir && easel.board.getClientRects().length)
      fly(last.order, order);
    last = { pixels, order };
  }
  return { node: tiles.node, tiles, show };
}
