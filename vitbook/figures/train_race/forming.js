// What forms inside: the cls token's attention over one test image, and how similar the positions are.
import { paint } from "../kit/canvas.js";
import { h, heading } from "../kit/dom.js";
import { patchGrid } from "../kit/grid.js";
import { percent, placeOf } from "../kit/words.js";
import { NAMES } from "./speech.js";
import { gazeOf, similarity } from "./state.js";

/** The panel of both models' grids: node, and show(run, contest). */
export function formingPanel() {
  const node = h("div", { className: "tr-forming" });
  let shown = null; // what the grids show
  let grids = []; // of each model

  function make({ config }) {
    const side = config.img_size / config.patch_size;
    const canvas = () => h("canvas");
    grids = NAMES.map(() => {
      const image = canvas();
      const gaze = patchGrid({ rows: side, cols: side, over: image });
      const alike = patchGrid({ rows: side ** 2, cols: side ** 2 });
      alike.node.classList.add("tr-alike");
      const [says, means] = [h("figcaption"), h("figcaption")];
      return { side, image, gaze, alike, says, means };
    });
    node.replaceChildren(
      ...grids.flatMap(({ gaze, alike, says, means }, i) => [
        h("figure", {}, heading(`${NAMES[i]}: attention`), gaze.node, says),
        h("figure", {}, heading(`${NAMES[i]}: positions`), alike.node, means),
      ]),
    );
  }

  /** Row 0 of the last map over the image. */
  function showGaze({ side, image, gaze, says }, map, { pixels, label }, { config, fault }, i) {
    const T = side ** 2 + 1;
    const odd = i === 1 ? fault.map : "";
    paint(pixels, [1, config.img_size, config.img_size], image);
    const shares = gazeOf(map, T, i === 1 && fault.cls_last ? 0 : 1);
    const top = Math.max(...shares);
    const most = `most to ${placeOf(shares.indexOf(top), side)}, ${percent(top)}`;
    const cells = shares.map((share) => ({ color: "mark", opacity: (0.75 * share) / (top || 1) }));
    gaze.show({ cells, label: `What the cls token attends to in an image of ${label}: ${most}` });
    says.textContent = odd || most;
  }

  /** The cosine of each two places of the table. */
  function showAlike({ side, alike, means }, table) {
    alike.node.hidden = !table;
    means.textContent = table
      ? "cosine, patch by patch: blue alike, orange opposite"
      : "no position table";
    if (!table) return;
    const all = similarity(table, side ** 2 + 1).flat();
    const cells = all.map((one) => ({ color: one < 0 ? "mark" : "blue", opacity: Math.abs(one) }));
    alike.show({ cells, label: "Cosine similarity of the position vectors, patch by patch" });
  }

  function show({ looks, image, key }, contest) {
    node.hidden = !(looks && image);
    if (node.hidden || shown === looks) return;
    if (shown?.key !== key) make(contest);
    shown = looks;
    looks.key = key;
    const { images, labels } = image; // the last of them is watched
    const one = {
      pixels: images.subarray(images.length - contest.config.img_size ** 2),
      label: contest.classes[labels.at(-1)],
    };
    looks.forEach(({ maps, positions }, i) => {
      showGaze(grids[i], maps.at(-1), one, contest, i);
      showAlike(grids[i], positions);
    });
  }
  return { node, show };
}
