// What the reader has set, made to fit the network; and the rows of its maps that this asks for.
import { bytes } from "../kit/figure.js";
import { meanOfHeads, rollout } from "../kit/maps.js";
import { answerOf } from "./moments.js";

export const MODES = { hide: "hides it", query: "makes it the query", draw: "draws" };
export const OVERLAYS = {
  head: "the chosen head",
  mean: "the mean of its block",
  rollout: "rollout",
  none: "nothing",
};

/** The whole number from low to high that is nearest; low for what is not a number. */
export function within(value, low, high) {
  return Math.min(high, Math.max(low, Math.round(Number(value)) || 0));
}

/** What the reader has set, made to fit the network: whatever was stored or sent, an image can be drawn. */
export function settings(get, net, stored) {
  const area = net.channels * net.height * net.width;
  const many = Math.floor(stored.length / area);
  const array = (name) => (Array.isArray(get(name)) ? get(name) : []);
  const own = bytes(get("own"));
  const order = array("order");
  let image = within(get("image"), -1, many - 1);
  if (image < 0 && own.length !== area) image = many ? 0 : -1;
  const ownPixels = own.length === area ? own : new Uint8Array(area);
  return {
    image,
    pixels: image < 0 ? ownPixels : stored.subarray(image * area, (image + 1) * area),
    token: within(get("token"), 0, net.T - 1),
    layer: within(get("layer"), 0, net.L - (net.pool === "attn" ? 0 : 1)),
    head: within(get("head"), 0, net.h - 1),
    stage: within(get("stage"), 0, net.L),
    mode: get("mode") in MODES ? get("mode") : "hide",
    overlay: get("overlay") in OVERLAYS ? get("overlay") : "head",
    hidden: [...new Set(array("hidden"))].filter(
      (patch) => Number.isInteger(patch) && patch >= 0 && patch < net.N,
    ),
    removed: Boolean(get("removed")),
    order:
      order.length === net.N && new Set(order).size === net.N && order.every((n) => n in order)
        ? order
        : null,
    positions: Boolean(get("positions")),
    erase: Boolean(get("erase")),
    pen: array("pen").length === 3 ? array("pen") : null,
    compact: Boolean(get("compact")),
    more: Boolean(get("more")),
    moment: Math.min(answerOf(net), Math.max(0, Number(get("moment") ?? Infinity) || 0)),
    ablated: array("ablated").filter(
      ([layer, head]) => layer >= 0 && layer < net.L && head >= 0 && head < net.h,
    ),
  };
}

/** The patch that stands at a place. */
export function patchAt({ order }, place) {
  return order ? order[place] : place;
}

/** Is this head ablated? */
export function isAblated({ ablated }, layer, head) {
  return ablated.some(([l, i]) => l === layer && i === head);
}

/** Bytes (C, H, W) to what the network reads: as data.normalize does it. */
export function normalised(pixels, plane, mean, std) {
  return Float32Array.from(pixels, (value, i) => {
    const c = Math.floor(i / plane);
    return (value / 255 - (mean[c] ?? mean[0])) / (std[c] ?? std[0]);
  });
}

/** Row `token` of one of the maps that forward gives; layer L is the pooling, which has one row. */
export function mapRow(out, net, layer, head, token) {
  const start = layer === net.L ? head * net.T : (head * net.T + token) * net.T;
  return (
    (layer === net.L ? out.poolMap : out.maps[layer])?.subarray(start, start + net.T) ??
    new Float32Array(net.T)
  );
}

/** What is laid over the image: T shares, or null. */
export function overlayRow(out, net, { overlay, layer, head, token }) {
  if (overlay === "none" || !out.logits) return null;
  if (overlay === "head") return mapRow(out, net, layer, head, token);
  if (overlay === "mean" && layer === net.L) return meanOfHeads(out.poolMap, net.h);
  const map =
    overlay === "mean" ? meanOfHeads(out.maps[layer], net.h) : rollout(out.maps, net.h, net.T);
  return map.subarray(token * net.T, (token + 1) * net.T);
}

/** Of a row the shares of the patches, in parts of the largest of them. */
export function partsOf(row, prefix) {
  const shares = row.subarray(prefix);
  const top = shares.reduce((a, b) => Math.max(a, b), 1e-9);
  return shares.map((share) => share / top);
}
