// SixRace: six programs learn side by side in the page. The reader bets which one is right; then six tests say.
import { axes, ticksOf } from "../kit/axes.js";
import { KEYS, button } from "../kit/controls.js";
import { h, heading, sentence } from "../kit/dom.js";
import { figure } from "../kit/figure.js";
import { calm, glide } from "../kit/motion.js";
import { percent } from "../kit/words.js";
import { darkOf, lampList } from "../train_race/lamps.js";
import { hire } from "../train_race/staff.js";
import { abreast, contestOf, dealt, newRace, rankOf, ranking, take, workersFor } from "./race.js";

const BATCH = 32;
const JUDGED = 20; // times in a race
const COLORS = ["blue", "red", "green", "pink", "gold", "sky"];
const DASHED = "sky"; // too near to blue to be told from it by colour alone
const SECONDS = 2.4; // in which the six lamps go on

function build({ model, root, put, complain }) {
  const get = (name) => model.get(name);
  const { programs } = contestOf(get);
  const letters = programs.map(({ letter }) => letter);
  const colorOf = (letter) => COLORS[letters.indexOf(letter) % COLORS.length];
  const count = workersFor(programs.length, navigator.hardwareConcurrency ?? 2);
  const staff = Array.from({ length: count }, () => hire(get("worker"), complain));
  const lights = {}; // of a letter, once they are known
  let race = newRace(programs);
  let [lit, halt, shown] = [0, null, ""]; // how many lamps are on, what stops them, of which program

  const picks = letters.map((letter) => {
    const pick = h("button", { type: "button", onclick: () => choose(letter), ...KEYS }, letter);
    pick.style.setProperty("--sr-color", `var(--vf-${colorOf(letter)})`);
    return pick;
  });
  const ask = heading();
  const bar = h("div", { className: "sr-picks", role: "group" }, ...picks);
  const plot = axes({ size: [640, 300], phone: [360, 270], margin: [28, 30, 44, 40] });
  const [says, head, lamps] = [sentence(), heading(), lampList()];
  const tests = h("div", { className: "sr-tests" }, head, lamps.node);
  const again = button("Race again, with another seed", () =>
    put({ seed: get("seed") + 1, bet: "" }),
  );
  root.classList.add("sr");
  root.append(ask, bar, plot.node, says, tests, h("div", { className: "vf-buttons" }, again));

  let frame = 0;
  const soon = () => (frame ||= requestAnimationFrame(() => ((frame = 0), draw())));

  /** The first letter is a bet and starts the race; after the race a letter shows its tests. */
  function choose(letter) {
    if (!get("bet")) return put({ bet: letter });
    if (race.state === "done") light(letter);
  }

  function start() {
    const { data, config, seed, steps } = contestOf(get);
    const mine = (race = { ...newRace(programs), state: "running", waiting: count });
    dealt(programs, count).forEach((runners, w) => {
      const racers = runners.map(({ fault }) => ({ config, faults: fault ? [fault] : [] }));
      const every = Math.max(1, Math.round(steps / JUDGED));
      staff[w].send({ do: "race", racers, data, seed, steps, batch: BATCH, every }, (message) => {
        if (mine !== race) return;
        if (take(race, runners, message)) finish();
        if (message.accuracy && abreast(race)) soon(); // all six curves grow at once: half as much to draw
      });
    });
    if (document.hidden) pause();
  }

  function finish() {
    const ends = Object.fromEntries(ranking(race));
    put({ accuracies: ends });
    light(get("bet"));
  }

  /** The lamps of a program go on, one after the other. */
  function light(letter) {
    halt?.();
    [shown, lit] = [letter, 0];
    const on = () => {
      const all = () => {
        lit = lamps.count;
        draw();
      };
      if (calm()) return all();
      const step = (share) => {
        const now = Math.floor(share * lamps.count);
        if (now !== lit) [lit] = [now, soon()];
      };
      halt = glide(1000 * SECONDS, step, all);
      soon();
    };
    if (lights[letter]) return on();
    const { config } = contestOf(get);
    const { fault } = programs.find((one) => one.letter === letter);
    staff[0].send({ do: "lights", config, faults: fault ? [fault] : [] }, (found) => {
      lights[letter] = found.lights;
      if (shown === letter) on();
    });
    soon();
  }

  function reset() {
    halt?.();
    for (const worker of staff) worker.send({ do: "stop" });
    race = newRace(programs);
    [lit, shown] = [0, ""];
  }

  function pause() {
    const job = { do: document.hidden ? "pause" : "resume" };
    if (race.state === "running") for (const worker of staff) worker.send(job);
  }
  document.addEventListener("visibilitychange", pause);

  function drawPlot({ stored, steps }) {
    const epochs = stored[letters[0]][0].length;
    const ticks = ticksOf(0, epochs);
    const xs = Array.from({ length: epochs }, (_, i) => i + 1);
    const part = (numbers) => numbers.map((number) => 100 * number);
    const bands = letters.map((letter) => {
      const [low, high] = stored[letter].map(part);
      return { name: `stored ${letter}`, color: colorOf(letter), xs, low, high };
    });
    const middle = (letter) => stored[letter].map((runs) => 100 * runs.at(-1));
    const lines = letters.map((letter) => {
      const curve = race.curves[letter];
      const live = curve.length > 0;
      const [low, high] = middle(letter);
      return {
        name: letter,
        tag: letter,
        color: colorOf(letter),
        dash: colorOf(letter) === DASHED ? "7 4" : undefined,
        width: shown === letter ? 4 : 2.5,
        xs: live ? curve.map(([step]) => (epochs * step) / steps) : [epochs],
        ys: live ? curve.map(([, share]) => 100 * share) : [(low + high) / 2],
      };
    });
    const ends = lines.map(({ name, ys }) => `${name} ${Math.round(ys.at(-1))}`).join(", ");
    plot.show({
      label: `Test accuracy in per cent, epoch by epoch: ${race.state ? "now" : "stored runs end near"} ${ends}.`,
      x: { from: 0, to: epochs, ticks, label: "epoch" },
      y: { from: 0, to: 100, ticks: ticksOf(0, 100), label: "test accuracy, %" },
      lines: [...bands, ...lines],
    });
  }

  /** The same words again cost no layout, and are not read out again. */
  function write(node, words) {
    if (node.textContent !== words) node.textContent = words;
  }

  /** What the bet was worth. */
  function verdict(bet) {
    if (race.state === "running") return `You bet ${bet}. All six are learning, in this page.`;
    if (race.state !== "done") return "Six programs for the same network. Five have a bug.";
    const ranked = ranking(race);
    const dark = darkOf(lights[bet]);
    const score = percent(ranked.find(([letter]) => letter === bet)[1], 1);
    if (!lights[bet]) return `You bet ${bet}: ${score}, ${rankOf(bet, ranked)}.`;
    const right = `${dark.length ? "and wrong" : "and right"}.`;
    const { words } = programs.find(({ letter }) => letter === bet);
    return `You bet ${bet}: ${score}, ${rankOf(bet, ranked)}, ${right} ${words} Choose another letter to test it, too.`;
  }

  function testsOf(letter) {
    if (!letter) return "";
    const dark = darkOf(lights[letter]).length;
    const result =
      lit < lamps.count
        ? ""
        : dark
          ? `: ${dark} of 6 ${dark > 1 ? "fail" : "fails"}`
          : ": all pass";
    return `Six tests of program ${letter}, which need no training${result}`;
  }

  function draw() {
    const contest = contestOf(get);
    const bet = get("bet");
    if (bet && !letters.includes(bet)) throw Error(`it has no program ${bet}`);
    if (!bet && race.state) reset();
    if (bet && !race.state) start();
    const done = race.state === "done";
    const asked = "Which one is right? Bet on a letter, and all six learn.";
    write(ask, bet ? `Your bet: ${bet}` : asked);
    bar.ariaLabel = bet ? "Whose tests?" : "Your bet";
    picks.forEach((pick, i) => {
      pick.ariaPressed = String(letters[i] === (shown || bet));
      pick.ariaDisabled = String(Boolean(bet) && !done); // and it keeps the focus
    });
    drawPlot(contest);
    write(says, verdict(bet));
    const known = lights[shown] ?? {};
    const names = Object.keys(known);
    tests.hidden = !(done && names.length);
    write(head, testsOf(shown));
    if (names.length)
      lamps.show(known, (name) => (lamps.names.indexOf(name) < lit ? "" : "waiting"));
    again.parentElement.hidden = !done;
  }
  draw.end = () => {
    document.removeEventListener("visibilitychange", pause);
    halt?.();
    for (const worker of staff) worker.end();
  };
  return draw;
}

export default figure(build);
