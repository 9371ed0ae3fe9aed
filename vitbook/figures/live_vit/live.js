// What LiveViT does with its traits, for its own module and for figures that open a network in it.
import { button, folded } from "../kit/controls.js";
import { h, question, sentence, soft } from "../kit/dom.js";
import { bytes, floats } from "../kit/figure.js";
import { network, sizesOf } from "../kit/vit.js";
import { answerPanel } from "./answer.js";
import { easelPanel } from "./easel.js";
import { flightPanel } from "./flight.js";
import { headPanel } from "./heads.js";
import { imagePanel } from "./images.js";
import { sceneAt } from "./moments.js";
import { passPanel } from "./pass.js";
import { speaker, strangers } from "./speech.js";
import { normalised, overlayRow, settings } from "./state.js";
import { switchPanel } from "./switches.js";
import { tokenPanel } from "./tokens.js";

/** The figure on the traits of LiveViT; its weights are float16, or a Float32Array as it is. */
export function buildLiveViT({ model, root, put }) {
  const get = (name) => model.get(name);
  const net = sizesOf(get("config"));
  const compute = computer(net, get);
  const stored = bytes(get("images"));
  const area = net.channels * net.height * net.width;
  if (stored.length % area)
    throw Error(`its images should take ${area} bytes each and take ${stored.length}`);
  const [classes, shown, labels] = ["classes", "image_classes", "labels"].map(get);
  if (classes.length !== net.K)
    throw Error(`it has ${net.K} logits and ${classes.length} class names`);
  const known = shown.join() === classes.join(); // do the images show what the network was trained on?
  const names = speaker({ net, classes, shown, labels });
  const state = () => settings(get, net, stored);
  const bench = { net, root, get, put, state, stored, classes, labels, known, names };
  const about = known || !stored.length ? get("note") : strangers(classes, shown);
  if (about) root.append(soft(about));
  root.classList.add("lv");
  root.prepend(question("Which patch does the answer depend on? Click one to hide it."));
  const { panels, says, at, end } = get("compact") ? smallForm(bench) : wholeForm(bench);

  const say = later((words) => (says.textContent = words));
  const send = later((logits) => {
    if (logits.join() !== String(get("logits"))) put({ logits });
  });
  function draw() {
    if (!root.isConnected) return; // no colours yet
    const now = state();
    const computed = compute(now);
    if (!computed) return; // the page has not brought the weights
    const found = { ...computed, row: overlayRow(computed.out, net, now) };
    for (const panel of panels) panel.show(now, found);
    at?.(now, found);
    root.dataset.ms = found.ms?.toFixed(2);
    // A hand that draws changes all this faster than anybody, or a kernel, can follow.
    const words = names.tell(now, found);
    if (words !== say.last) say(words, say.last ? 200 : 0);
    send(Array.from(found.out.logits ?? []), 60);
  }
  draw.end = end;
  return draw;
}

/** What the answer depends on, and all else that can be done behind "More": chapter 11's. */
function wholeForm(bench) {
  const [images, switches, easel, heads, answer] = [
    imagePanel,
    switchPanel,
    easelPanel,
    headPanel,
    answerPanel,
  ].map((panel) => panel(bench));
  const tokens = tokenPanel(bench, easel.canvas);
  const says = sentence();
  const { shuffle, sort, positions, removed, undo } = switches;
  const flight = flightPanel(bench, easel);
  const buttons = (...nodes) => h("div", { className: "vf-buttons" }, ...nodes);
  bench.root.append(
    images.node,
    h("div", { className: "lv-main" }, easel.node, answer.node, flight.node),
    buttons(removed, undo),
    says,
    images.trouble,
    folded(
      bench.root,
      h(
        "div",
        { className: "lv-more" },
        heads.node,
        h(
          "div",
          {},
          easel.overlays,
          ...easel.tools,
          buttons(shuffle, sort, positions),
          buttons(...images.buttons),
        ),
        tokens.node,
      ),
    ),
  );
  return { panels: [images, switches, easel, heads, answer, tokens, flight], says };
}

/** One forward pass and few switches: the first page's. A button brings what makes an image of one's own. */
function smallForm(bench) {
  const [images, switches, easel, answer] = [imagePanel, switchPanel, easelPanel, answerPanel].map(
    (panel) => panel(bench),
  );
  const flight = flightPanel(bench, easel);
  const pass = passPanel(bench, easel, flight.tiles);
  const drawer = drawerPanel(bench, images, easel, switches);
  const says = sentence();
  const { shuffle, positions, undo } = switches;
  const buttons = h("div", { className: "vf-buttons" }, shuffle, positions, undo, drawer.more);
  bench.root.classList.add("lv-compact");
  bench.root.append(
    h("div", { className: "lv-top" }, images.node, buttons),
    drawer.node,
    h("div", { className: "lv-main" }, easel.node, pass.node, answer.node, flight.node),
    pass.controls,
    says,
  );
  function at(now, { out }) {
    const paint = (moment) => {
      const scene = sceneAt(out, bench.net, moment, now.token);
      const looking = scene.block >= 0 && scene.grown === 0; // the answer's image is not painted over
      easel.shade(looking ? scene.row : null, scene.pulse);
      answer.grow(scene.grown);
      pass.at(scene);
    };
    pass.show(now, out, paint);
    if (!pass.moving()) paint(now.moment);
  }
  return { panels: [images, switches, easel, answer, flight, drawer], says, at, end: pass.end };
}

/** What makes an image of one's own, and the button that brings it: node, more, and show(now). */
function drawerPanel({ put, state }, images, easel, { removed }) {
  const more = button("More", () => put({ more: !state().more }));
  const node = h("div", { className: "vf-buttons" });
  node.append(...images.buttons, ...easel.tools, removed, images.trouble);
  function show(now) {
    node.hidden = !now.more;
    more.textContent = now.more ? "Less" : "More";
    more.setAttribute("aria-expanded", String(now.more));
  }
  return { node, more, show };
}

/** The weights of a trait: bytes of float16, or float32 numbers as they are. */
const weightsOf = (value) => (value instanceof Float32Array ? value : bytes(value));

/** The pass with which a page begins, as LiveViT.first has it; null where there is none. */
function firstPass({ K, L, h, T, D }, numbers) {
  if (!numbers.length) return null;
  let at = 0;
  const take = (count) => numbers.subarray(at, (at += count));
  const several = (count, each) => Array.from({ length: count }, each);
  const logits = take(K);
  const heads = (mean) => Float32Array.from({ length: h * T * T }, (_, i) => mean[i % (T * T)]);
  const maps = several(L, () => heads(take(T * T))); // the small form shows the mean of the heads alone
  return { logits, maps, poolMap: null, tokens: several(L + 1, () => take(T * D)) };
}

/** Run the network when the image or a switch has changed; to explore the maps is free. Null without weights. */
function computer(net, get) {
  const { height, width } = net;
  const load = () => network(get("config"), get("layout"), weightsOf(get("weights")));
  let first = firstPass(net, floats(get("first")));
  let vit = first ? null : load();
  let computed = {}; // { key, out, ms, untouched }
  let whole = {}; // { key, logits } of the untouched image
  return ({ pixels, hidden, removed, order, positions, ablated }) => {
    const image = pixels.join();
    const key = JSON.stringify([image, hidden, removed, order, positions, ablated]);
    if (computed.key === key) return computed;
    if (first) {
      computed = { key, out: first, ms: null, untouched: first.logits };
      first = null;
      return computed;
    }
    if (!vit && get("weights") === undefined) return null;
    vit ??= load();
    const numbers = normalised(pixels, height * width, get("mean"), get("std"));
    const start = performance.now();
    const out = vit.run(numbers, { hidden, removed, order, positions, ablated });
    const ms = performance.now() - start;
    if (whole.key !== image) whole = { key: image, logits: vit.run(numbers).logits };
    return (computed = { key, out, ms, untouched: whole.logits });
  };
}

/** A function that does something with the last value that it was given, when no other comes within `wait` milliseconds. */
function later(work) {
  let waiting = 0;
  const call = (value, wait) => {
    call.last = value;
    clearTimeout(waiting);
    waiting = setTimeout(() => work(value), wait);
  };
  return call;
}
