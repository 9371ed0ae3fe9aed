// A network that has just learned, opened in LiveViT.
import { h, heading } from "../kit/dom.js";
import { figure } from "../kit/figure.js";
import { buildLiveViT } from "../live_vit/live.js";

/** What a figure expects of Jupyter, with nobody behind it. */
function modelOf(traits) {
  const listeners = new Set();
  return {
    get: (name) => traits[name],
    set(name, value) {
      traits[name] = value;
      for (const listener of listeners) listener();
    },
    on: (_, listener) => listeners.add(listener),
    off: (_, listener) => listeners.delete(listener),
    save_changes() {},
  };
}

/** Put a network {config, layout, numbers} into LiveViT with test images; returns what closes it again. */
export function openInLiveViT(
  room,
  { config, layout, numbers },
  { images, labels },
  contest,
  racer,
) {
  const { mean, std } = contest.data.meta;
  const model = modelOf({
    config,
    layout,
    weights: numbers,
    classes: contest.classes,
    image_classes: contest.classes,
    images,
    labels,
    mean: [mean],
    std: [std],
    note: "",
    image: 0,
    own: new Uint8Array(0),
    mode: "hide",
    pen: [],
    token: 0,
    stage: config.depth,
    layer: config.depth - 1,
    head: 0,
    overlay: "head",
    hidden: [],
    order: [],
    positions: true,
    ablated: [],
    logits: [],
  });
  const title = heading(`${racer ? "Yours" : "The right model"}, as it has just learned`);
  title.tabIndex = -1;
  const el = h("div");
  room.replaceChildren(title, el);
  const close = figure(buildLiveViT).render({ model, el });
  title.focus();
  return () => {
    close();
    room.replaceChildren();
  };
}
