// The worker of the race: several nets learn side by side from the same seed on the same batches, steps in turn, off
// the page's thread. Its text is _base.module("train_worker.js"): classic, since a page from the disk may not start a
// module worker.
//
// In, {do: ...}:
//   race: id, racers [{config, faults}, ...], data {bytes, meta}, and optionally seed, steps, batch, every, watch.
//     A new race ends the old one. A config is a ViTConfig's to_dict, faults are names of faults.js, data is what
//     _train_data.packed gives. After every `every` steps all test images are judged; watch is the number of the test image
//     whose attention is looked at.
//   pause, resume, stop
//   lights: id, config, faults. net: id, racer (its number in the race). images: id, data, first (the number of test images).
// Out:
//   {id, step, seconds, losses, accuracy, looks, last}, about ten a second. seconds are those of training alone; losses,
//     a list for each racer, are those since the last message; accuracy and looks, one for each racer, or null between
//     two judgements.
//   {id, lights}, {id, net} or {id, images, labels}: what was asked for; a net is what network() of vit.js takes.
//   {id, error}: in words.
import { lights } from "./lights.js";
import { Trainer, evaluate, feeder, lrAt, pixelsOf, unpack } from "./train.js";

const PATIENCE = 100; // milliseconds between two messages
const clock = () => performance.now();
const state = { race: 0, paused: false, wake: () => {}, nets: [], opened: null, bytes: null };

/** Let messages come in; setTimeout would wait 4 ms each time. */
const channel = new MessageChannel();
const breathe = () =>
  new Promise((done) => {
    channel.port1.onmessage = done;
    channel.port2.postMessage(0);
  });
const resumed = () => new Promise((done) => (state.wake = done));

async function open({ bytes, meta }) {
  if (state.bytes !== meta.name) {
    state.opened = await unpack(bytes, meta);
    state.bytes = meta.name;
  }
  return state.opened;
}

async function race(job) {
  const { id, racers, seed = 0, steps = 400, batch = 32, every = 50, watch = null } = job;
  const mine = ++state.race;
  Object.assign(state, { paused: false, nets: [] });
  const { train, test } = await open(job.data);
  if (mine !== state.race) return;
  const nets = racers.map(({ config, faults }) => new Trainer(config, { faults, seed }));
  const feeds = nets.map((net) => feeder(train, batch, seed, net.parts.order));
  state.nets = nets;
  let losses = nets.map(() => []);
  let seconds = 0;
  let said = -Infinity;
  for (let step = 0; step <= steps; step++) {
    if (step > 0) {
      const start = clock();
      nets.forEach((net, i) => {
        const { pixels, labels } = feeds[i]();
        losses[i].push(net.step(pixels, labels, lrAt(step - 1, steps)).loss);
      });
      seconds += (clock() - start) / 1000;
    }
    const judged = step % every === 0 || step === steps;
    if (!judged && clock() - said < PATIENCE) continue;
    const accuracy = judged ? nets.map((net) => evaluate(net, test).accuracy) : null;
    const seen = judged && watch !== null;
    const looks = seen ? nets.map((net) => net.look(pixelsOf(test, [watch]))) : null;
    postMessage({ id, step, seconds, losses, accuracy, looks, last: step === steps });
    losses = nets.map(() => []);
    said = clock();
    await breathe();
    while (state.paused && mine === state.race) await resumed();
    if (mine !== state.race) return;
  }
}

async function images({ id, data, first }) {
  const { test } = await open(data);
  const area = test.images.length / test.labels.length;
  postMessage({
    id,
    images: test.images.slice(0, first * area),
    labels: test.labels.slice(0, first),
  });
}

const DO = {
  images,
  race,
  pause: () => (state.paused = true),
  resume: () => {
    state.paused = false;
    state.wake();
  },
  stop: () => {
    state.race++;
    state.wake();
  },
  lights: ({ id, config, faults }) =>
    postMessage({ id, lights: lights(new Trainer(config, { faults })) }),
  net: ({ id, racer }) => postMessage({ id, net: state.nets[racer].forLiveViT() }),
};

onmessage = async ({ data }) => {
  try {
    await DO[data.do](data);
  } catch (error) {
    postMessage({ id: data.id, error: error.message });
  }
};
