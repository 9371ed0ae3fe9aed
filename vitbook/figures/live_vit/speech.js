// What the figure says: names of its parts, and a sentence on all that is set and answered.
import { largest, softmax } from "../kit/maps.js";
import { list, placeOf, share } from "../kit/words.js";
import { PATCHES, TOKENS, answerOf, stopAt } from "./moments.js";

/** One block, two blocks. */
export function count(n, one, more = `${one}s`) {
  return `${n} ${n === 1 ? one : more}`;
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}

/** The names of a network's parts and of its images, and tell(now, found), all in words. */
export function speaker({ net, classes, shown, labels }) {
  const { cols, N, L, prefix } = net;
  const place = (n) => placeOf(n, cols);
  const token = (n) =>
    n < prefix ? "token 0, the cls token" : `token ${n} (${place(n - prefix)})`;
  const image = (n) => (n < 0 ? "your image" : `image ${n}: ${shown[labels[n]] ?? "no label"}`);

  function answer({ logits }, untouched) {
    if (!logits)
      return "No token is left, and this network has no cls token: there is nothing to read a class from.";
    const shares = softmax(logits);
    const [best, was] = [largest(shares), untouched ? largest(untouched) : -1];
    const change =
      was < 0 || was === best ? "" : `, where it said ${classes[was]} of the untouched image`;
    return `The network says ${classes[best]}, ${share(shares[best])}${change}.`;
  }

  function changes({ hidden, removed, order, positions, ablated }) {
    const done = [];
    if (hidden.length)
      done.push(
        `${hidden.length} of ${count(N, "patch", "patches")} ${removed ? "taken out" : "painted grey"}`,
      );
    if (order) done.push("the patches are shuffled");
    if (!positions) done.push("no positions are added");
    if (ablated.length) done.push(`${count(ablated.length, "head")} ablated`);
    return done.length ? [`Changed: ${list(done)}.`] : [];
  }

  function gaze({ token: from, layer, head, overlay }, row) {
    const nameOf = (n) => (n < prefix ? "the cls token" : token(n));
    const who = nameOf(from);
    if (!row.some((one) => one > 0)) return `${capital(who)} is taken out and attends to nothing.`;
    const most = largest(row);
    const part = share(row[most]);
    const it = most === from ? "itself" : nameOf(most);
    if (overlay === "rollout") return `By rollout ${who} comes most from ${it}, ${part}.`;
    const where = layer === L ? "the pooling" : `block ${layer}`;
    const source = overlay === "mean" ? `the mean of ${where}` : `head ${head} of ${where}`;
    if (layer === L) return `${capital(source)} attends most to ${nameOf(most)}, ${part}.`;
    return `In ${source} ${who} attends most to ${it}, ${part}.`;
  }

  /** What the chosen token attends to most at a moment of the forward pass. */
  function attention({ token: from }, { block, row }) {
    const nameOf = (n) => (n < prefix ? "the cls token" : place(n - prefix));
    const most = largest(row);
    const it = most === from ? "itself" : nameOf(most);
    return `In block ${block} ${nameOf(from)} attends most to ${it}, ${share(row[most])}.`;
  }

  /** What happens at a moment of the forward pass. */
  function moment(now, scene) {
    const { D, T, length, ph, pw, pool } = net;
    const stop = stopAt(scene.moment);
    if (stop === 0) return `${net.height} × ${net.width} pixels: ${count(N * length, "number")}.`;
    if (stop === PATCHES) return `${N} patches of ${ph} × ${pw} pixels: ${length} numbers each.`;
    if (stop === TOKENS)
      return `A linear layer makes ${D} numbers of each patch: a token. ${prefix ? "The cls token joins them, and each" : "Each"} gets its position.`;
    if (!scene.shares) return "No token is left.";
    if (stop < answerOf(net)) return `${attention(now, scene)} All ${T} tokens change.`;
    const read = { cls: "The cls token alone is read", mean: "The mean of all tokens is read" }[
      pool
    ];
    const best = largest(scene.shares);
    return `${read ?? "A query reads all tokens"}: ${classes[best]}, ${share(scene.shares[best])}.`;
  }

  const subject = ({ image: n, compact }) =>
    compact && n >= 0 && shown[labels[n]] ? `the image shows: ${shown[labels[n]]}` : image(n);
  const tell = (now, { out, row, untouched }) =>
    capital(
      [
        `${subject(now)}.`,
        answer(out, untouched),
        ...changes(now),
        ...(row ? [gaze(now, row)] : []),
      ].join(" "),
    );
  return { place, token, image, tell, attention, moment };
}

/** What to say where the images show something else than the network was trained on. */
export function strangers(classes, names) {
  const few = (words) => `${words.slice(0, 3).join(", ")}${words.length > 3 ? " and so on" : ""}`;
  return (
    `This network was trained to tell ${few(classes)} apart. ` +
    `The images here show something else: ${few(names)}. Watch how it works; its answers mean nothing.`
  );
}
