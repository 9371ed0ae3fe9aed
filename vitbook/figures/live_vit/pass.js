// One forward pass, live: patches leave the image and become tokens, blocks let them attend, the bars of the answer grow.
import { palette } from "../kit/canvas.js";
import { KEYS, button, onArrows, slider } from "../kit/controls.js";
import { h, s, soft } from "../kit/dom.js";
import { between, calm, eased, glide } from "../kit/motion.js";
import { answerOf, stopAt, stopsOf } from "./moments.js";
import { boxBetween, boxIn, cellOf } from "./tiles.js";

const SECONDS = 3; // of the whole pass
const STEPS = 20; // of the slider between two moments
const GAP = 0.22; // of a cell, when the patches are apart
const LATE = 0.5; // of the flight, by which the last patch leaves after the first
const ARCS = 66; // pixels that arcs may be high

/** Where patch number n of N is on its way to its seat when all are `flown`. */
const flightOf = (flown, n, N) => eased(between(flown * (1 + LATE) - (LATE * n) / N, 0, 1));

export function passPanel({ net, root, put, state, names }, easel, tiles) {
  const { N, T, D, prefix } = net;
  const [stops, last] = [stopsOf(net), answerOf(net)];
  const seats = Array.from({ length: T }, (_, token) =>
    token < prefix
      ? h("i", { className: "lv-cls" })
      : h("canvas", { width: net.pw, height: net.ph }),
  );
  const arcs = s("svg", { class: "lv-arcs", role: "img" });
  const columns = h("canvas", { width: T, height: D, role: "img" });
  const row = h("div", { className: "lv-seats", ariaHidden: "true" }, ...seats);
  const title = h("p", { className: "vf-head" });
  const seatKey = h("span", {}, h("b", {}, "◆"), " cls");
  const arcKey = h("span", {}, "thick: more attention");
  const keys = h(
    "p",
    { className: "lv-sky", ariaHidden: "true" },
    ...(prefix ? [seatKey] : []),
    arcKey,
  );
  const says = soft();
  const play = button("", toggle);
  const track = slider("Forward pass", (moment) => leap(moment));
  const marks = stops.map((name, stop) =>
    h("button", { type: "button", onclick: () => travel(stop), ...KEYS }, name),
  );
  const values = Array.from({ length: STEPS * last + 1 }, (_, i) => i / STEPS);
  onArrows(track.node.querySelector("input"), (dx, dy) => {
    const half = Math.round(2 * now.moment) / 2 + (dx - dy) / 2; // an arrow goes to the next half of a moment
    leap(Math.min(last, Math.max(0, half)));
  });

  let halt = null; // what stops the motion, while there is one
  let air = false; // are patches in the air?
  let seen = null; // what the network gave that was shown last
  let [now, scene, paintScene, colours] = [state(), null, () => {}, null];
  const arrive = (moment) => {
    halt = null;
    put({ moment });
    name();
  };

  /** To a moment at once. */
  function leap(moment) {
    halt?.();
    arrive(moment);
  }

  /** To a moment through all that lie between, or at once where the reader asks for no motion. */
  function travel(to, from = halt ? scene.moment : now.moment) {
    halt?.();
    if (calm() || from === to) return arrive(to);
    const time = (1000 * SECONDS * Math.abs(to - from)) / last;
    halt = glide(
      time,
      (share) => paintScene(from + share * (to - from)),
      () => arrive(to),
    );
    name();
  }

  function toggle() {
    if (halt) leap(Math.round(STEPS * scene.moment) / STEPS);
    else travel(last, now.moment === last ? 0 : now.moment);
  }

  function name() {
    play.textContent = halt ? "Pause" : "Play";
    play.setAttribute("aria-label", halt ? "Pause the forward pass" : "Play the forward pass");
  }

  /** What is set has changed; each(moment) paints the whole figure as it is at a moment. */
  function show(settings, out, each) {
    [now, paintScene] = [settings, each];
    if (halt && seen !== out) leap(last); // who changes something wants to see the answer
    seen = out;
    colours = palette(root);
    play.hidden = calm();
    seats.slice(prefix).forEach((seat, n) => {
      const patch = now.order ? now.order[n] : n;
      tiles.drawPatch(seat, patch, now.hidden, easel.grey);
      seat.classList.toggle("lv-gone", now.removed && now.hidden.includes(patch));
    });
    name();
  }

  /** Paint a moment. */
  function at(next) {
    scene = next;
    showTiles();
    showColumns();
    showArcs();
    const stop = stopAt(scene.moment);
    says.textContent = names.moment(now, scene);
    title.textContent = `${T} tokens of ${D} numbers`;
    track.show(
      values,
      Math.round(STEPS * scene.moment) / STEPS,
      `${stops[stop]}. ${says.textContent}`,
    );
    marks.forEach((mark, i) => mark.toggleAttribute("data-now", i === stop));
  }

  /** Between the image and the tokens the patches are in the air, and the image is where they left it. */
  function showTiles() {
    const { moment, apart, flown } = scene;
    const flying = moment > 0 && flown < 1;
    if (flying || air) {
      tiles.node.hidden = !flying;
      easel.board.style.opacity = flying ? flown : "";
    }
    air = flying;
    seats.forEach((seat) => (seat.style.opacity = flown < 1 ? 0 : ""));
    if (prefix) drop(seats[0], flown);
    if (!flying) return;
    const from = boxIn(tiles.node, easel.board);
    const to = seats.slice(prefix).map((seat) => boxIn(tiles.node, seat));
    for (let n = 0; n < N; n++) {
      const patch = now.order ? now.order[n] : n;
      const start = cellOf(from, n, tiles.shape, 1 - GAP * apart);
      tiles.place(patch, boxBetween(start, to[n], flightOf(flown, n, N)));
      tiles.show(patch, !(now.removed && now.hidden.includes(patch)));
    }
  }

  /** The cls token drops in when the patches are on their way. */
  function drop(diamond, flown) {
    const way = eased(between(flown, 0.4, 0.9));
    diamond.style.opacity = way;
    seatKey.style.visibility = way > 0 ? "" : "hidden";
    diamond.style.transform = `translateY(${(way - 1) * ARCS}px) rotate(45deg)`;
  }

  /** The tokens, a column each: blue above 0, orange below. A column unfolds when its patch has arrived. */
  function showColumns() {
    const { tokens, flown, grown } = scene;
    const scale = tokens
      ? 2.5 * Math.sqrt(tokens.reduce((sum, x) => sum + x * x, 0) / tokens.length)
      : 1;
    const down = (token) => {
      const arrived = token < prefix ? flown : flightOf(flown, token - prefix, N);
      return D * between(arrived, 0.8, 1);
    };
    paintColumns(columns, tokens ?? new Float32Array(T * D), [T, D], scale || 1, down, colours);
    columns.style.setProperty("--lv-read", prefix ? grown : 0);
    columns.setAttribute(
      "aria-label",
      `${T} tokens, a column each, ${stops[stopAt(scene.moment)]}`,
    );
  }

  /** What the chosen token takes from each: an arc. */
  function showArcs() {
    const { row: shares, pulse, block } = scene;
    const wide = arcs.clientWidth || 300;
    const x = (token) => ((token + 0.5) * wide) / T;
    const top = shares ? Math.max(...shares) : 1;
    const to = now.token;
    const arc = (share, from) => {
      const far = Math.abs(from - to) / T;
      const high = ARCS - 2 * ARCS * Math.min(0.48, 0.14 + far);
      const middle = from === to ? [x(to) - 14, x(to) + 14] : [x(from), x(to)];
      return s("path", {
        d: `M ${x(from)} ${ARCS} C ${middle[0]} ${high} ${middle[1]} ${high} ${x(to)} ${ARCS}`,
        pathLength: 1,
        "stroke-dasharray": 1,
        "stroke-dashoffset": 1 - pulse,
        "stroke-width": (1 + (5 * share) / top).toFixed(2),
        "stroke-opacity": (0.12 + (0.88 * share) / top).toFixed(3),
        "data-from": from,
        "data-weight": share.toFixed(6),
      });
    };
    arcs.setAttribute("viewBox", `0 0 ${wide} ${ARCS}`);
    arcs.setAttribute("aria-label", block < 0 ? "no attention yet" : names.attention(now, scene));
    arcKey.style.visibility = pulse > 0 ? "" : "hidden";
    arcs.replaceChildren(...(pulse > 0 ? [...shares].map(arc) : []));
  }

  const bench = h("div", { className: "lv-marks" }, track.node, h("div", {}, ...marks));
  bench.style.setProperty("--lv-stops", stops.length);
  const node = h("div", { className: "lv-pass" }, title, keys, arcs, row, columns);
  node.style.setProperty("--lv-tokens", T);
  const controls = h("div", { className: "lv-time" }, play, says, bench);
  const size = new ResizeObserver(() => scene && at(scene));
  size.observe(arcs);
  // Once, when it is first seen, it shows what it does.
  const sight = new IntersectionObserver(
    ([{ isIntersecting }]) => {
      if (!isIntersecting) return;
      sight.disconnect();
      if (!calm() && now.moment === last && !halt) travel(last, 0);
    },
    { threshold: 0.9 },
  );
  sight.observe(node);
  const end = () => {
    halt?.();
    size.disconnect();
    sight.disconnect();
  };
  return { node, controls, show, at, end, moving: () => halt !== null };
}

/** Numbers (T, D) as T columns of D, of which column t is seen as far as down(t). */
function paintColumns(canvas, numbers, [T, D], scale, down, [zero, plus, minus]) {
  const image = new ImageData(T, D);
  for (let t = 0; t < T; t++)
    for (let d = 0; d < Math.round(down(t)); d++) {
      const value = numbers[t * D + d] / scale;
      const [end, part] = [value < 0 ? minus : plus, Math.min(Math.abs(value), 1)];
      const shade = zero.map((from, c) => from + (end[c] - from) * part);
      image.data.set([...shade, 255], 4 * (d * T + t));
    }
  canvas.getContext("2d").putImageData(image, 0, 0);
}
