// Loss and accuracy by step.
import { axes, legend, ticksOf } from "../kit/axes.js";
import { h } from "../kit/dom.js";
import { percent } from "../kit/words.js";
import { NAMES } from "./speech.js";
import { smooth } from "./state.js";

const LOOK = [{ color: "blue" }, { color: "mark", dash: "7 4" }];
const WINDOW = 10; // steps in a mean
const TOP = 4; // a loss above is drawn here

/** The panel of both curves: node, and show(run, contest). */
export function curvePanel() {
  const size = { size: [360, 250], margin: [28, 14, 44, 46] };
  const [loss, accuracy, keys] = [axes(size), axes(size), legend()];
  const lineOf = (racer, xs, ys) => ({ name: NAMES[racer], ...LOOK[racer], xs, ys });
  function show({ losses, judged }, { steps }) {
    const x = { from: 0, to: steps, ticks: ticksOf(0, steps, 4), label: "step" };
    const means = losses.map((some) => smooth(some, WINDOW).map((one) => (one < TOP ? one : TOP)));
    const most = Math.max(2.5, ...means.flat());
    const last = means.map((some) => some.at(-1)?.toFixed(2) ?? "none yet");
    loss.show({
      label: `Training loss by step. Now: right ${last[0]}, yours ${last[1]}.`,
      x,
      y: { from: 0, to: most, ticks: ticksOf(0, most), label: `loss, mean of ${WINDOW} steps` },
      lines: means.map((ys, i) =>
        lineOf(
          i,
          [...ys.keys()].map((step) => step + 1),
          ys,
        ),
      ),
    });
    const now = judged.at(-1)?.accuracy.map((share) => percent(share)) ?? ["none yet", "none yet"];
    const xs = judged.map(({ step }) => step);
    accuracy.show({
      label: `Test accuracy by step. Now: right ${now[0]}, yours ${now[1]}.`,
      x,
      y: { from: 0, to: 100, ticks: ticksOf(0, 100), label: "accuracy on test images, %" },
      lines: NAMES.map((_, i) => {
        const ys = judged.map((one) => 100 * one.accuracy[i]);
        return { ...lineOf(i, xs, ys), dots: xs.map((step, k) => [step, ys[k]]), radius: 3 };
      }),
    });
  }
  keys.show(NAMES.map((name, i) => ({ name, ...LOOK[i] })));
  const pair = h("div", { className: "tr-curves" }, accuracy.node, loss.node); // the bet was on the accuracy
  return { node: h("div", {}, keys.node, pair), show };
}
