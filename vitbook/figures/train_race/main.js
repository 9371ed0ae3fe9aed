// TrainRace: the reader bets, then a right ViT and one with a fault learn side by side in the page.
import { button, choice, select } from "../kit/controls.js";
import { controls, facts, h, question, sentence, soft } from "../kit/dom.js";
import { figure } from "../kit/figure.js";
import { curvePanel } from "./curves.js";
import { formingPanel } from "./forming.js";
import { lightPanel } from "./lamps.js";
import { openInLiveViT } from "./open.js";
import { BATCH, BETS, IMAGES, POSITIONS, betLegend, progress, verdict, yours } from "./speech.js";
import { hire } from "./staff.js";
import { contestOf, receive, newRun } from "./state.js";
import { resultTable } from "./results.js";

const WATCHED = 10; // the test image whose attention is shown
const SEEDS = [...Array(10).keys()];

function build({ model, root, put, complain }) {
  const get = (name) => model.get(name);
  const [changes, images] = [get("changes"), get("images")];
  const staff = hire(get("worker"), complain);
  let run = newRun("");
  let opened = null; // the LiveViT below

  // A bet is on one contest: another contest asks for another bet.
  const set = (more) => put({ ...more, bet: "" });
  const names = Object.keys(images);
  const change = select(
    "Your model",
    changes.map(({ symptom, family }) => [symptom, family]),
    (i) => set({ fault: changes[i].name }),
  );
  const places = Object.keys(POSITIONS);
  const positions = choice("Positions of both models:", Object.values(POSITIONS), (i) =>
    set({ positions: places[i] }),
  );
  const datasets = choice(
    "Images:",
    names.map((name) => IMAGES[name]),
    (i) => set({ dataset: names[i] }),
  );
  const seeds = select("Seed", SEEDS.map(String), (seed) => set({ seed }));
  const bet = choice("", Object.values(BETS), (i) => put({ bet: Object.keys(BETS)[i] }));
  const train = button("Train", start);
  const stop = button("Stop", halt);
  const [about, live, says] = [soft(), facts(), sentence()];
  const [lamps, curves, forming] = [lightPanel(), curvePanel(), formingPanel()];
  const results = resultTable();
  const doors = [0, 1].map((racer) =>
    button(`Open ${racer ? "yours" : "the right model"} in LiveViT`, () => open(racer)),
  );
  const room = h("div");
  root.classList.add("tr");
  root.append(
    question("How far behind does a bug leave your model? Bet, then train."),
    controls(change.node, seeds.node, ...(names.length > 1 ? [datasets.node] : [])),
    controls(positions.node),
    h("div", { className: "tr-changed" }, about),
    lamps.node,
    controls(bet.node),
    h("div", { className: "vf-buttons" }, train, stop),
    says,
    curves.node,
    live.node,
    forming.node,
    h("div", { className: "vf-buttons" }, ...doors),
    results.node,
    room,
  );

  /** What the reader has set. */
  const contest = () => contestOf(get, SEEDS);

  let waiting = false;
  function soon() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  }

  /** Another contest: what runs ends, the lights are asked for. */
  function enter(now) {
    staff.send({ do: "stop" });
    opened = opened?.();
    const mine = (run = newRun(now.key));
    const { config, fault } = now;
    for (const [racer, faults] of [[], [fault.name]].entries())
      staff.send({ do: "lights", config, faults }, ({ lights }) => {
        mine.lights[racer] = lights;
        if (mine === run) soon();
      });
  }

  function start() {
    const now = contest();
    opened = opened?.();
    const mine = (run = { ...newRun(now.key), lights: run.lights, state: "running" });
    const racers = [[], [now.fault.name]].map((faults) => ({ config: now.config, faults }));
    const { steps, seed, data } = now;
    staff.send({ do: "images", data, first: WATCHED + 1 }, (found) => (mine.image = found));
    const job = { do: "race", racers, data, seed, steps, batch: BATCH, watch: WATCHED };
    staff.send({ ...job, every: Math.max(1, Math.round(steps / 16)) }, (message) => {
      if (mine !== run || mine.state === "stopped") return;
      receive(mine, message);
      if (message.last) finish(now, mine);
      soon();
    });
    soon();
    if (document.hidden) pause();
  }

  function halt() {
    staff.send({ do: "stop" });
    run.state = "stopped";
    draw();
  }

  function finish(now, { judged }) {
    const { fault, seed, steps, dataset, positions } = now;
    const accuracies = judged.at(-1).accuracy;
    const result = {
      dataset,
      fault: fault.name,
      positions,
      seed,
      steps,
      bet: get("bet"),
      accuracies,
    };
    run.state = "done";
    put({ races: [...get("races"), result].slice(-8) });
  }

  function open(racer) {
    const now = contest();
    staff.send({ do: "images", data: now.data, first: 30 }, (found) =>
      staff.send({ do: "net", racer }, ({ net }) => {
        opened?.();
        opened = openInLiveViT(room, net, found, now, racer);
      }),
    );
  }

  function pause() {
    if (run.state === "running") staff.send({ do: document.hidden ? "pause" : "resume" });
  }
  document.addEventListener("visibilitychange", pause);

  function draw() {
    const now = contest();
    if (run.key !== now.key) enter(now);
    const { fault, steps } = now;
    const running = run.state === "running";
    change.show(changes.indexOf(fault));
    positions.show(places.indexOf(now.positions));
    datasets.show(names.indexOf(now.dataset));
    seeds.show(now.seed);
    bet.node.firstChild.textContent = betLegend(steps);
    bet.show(Object.keys(BETS).indexOf(get("bet")));
    bet.node.disabled = running; // a bet is made before
    const focused = document.activeElement === (running ? train : stop);
    train.disabled = running || !(get("bet") in BETS);
    stop.disabled = !running;
    if (focused) (running ? stop : train).focus(); // a button that is disabled would lose it
    about.textContent = yours(now);
    lamps.show(run.lights, now);
    live.node.hidden = !run.state;
    live.show(progress(run, now));
    curves.node.hidden = !run.state;
    curves.show(run, now);
    says.textContent = verdict(run, now, get("bet"));
    forming.show(run, now);
    const done = run.state === "done";
    doors[0].hidden = !done;
    doors[1].hidden = !(done && fault.training);
    results.show(get("races"), changes);
  }
  draw.end = () => {
    document.removeEventListener("visibilitychange", pause);
    opened?.();
    staff.end();
  };
  return draw;
}

export default figure(build);
