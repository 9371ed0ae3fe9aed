// Which image: one of those that are stored, the reader's own from a file, or an empty one to draw on.
import { paint } from "../kit/canvas.js";
import { button, KEYS } from "../kit/controls.js";
import { h } from "../kit/dom.js";
import { gallery } from "./gallery.js";
import { borderMean, readImage } from "./upload.js";

export function imagePanel({ net, root, put, state, stored, names }) {
  const { width: W, height: H, channels: C } = net;
  const area = C * H * W;
  const onDark = stored.length > 0 && borderMean(stored, W, H) < 64;
  const faces = Array.from({ length: stored.length / area }, (_, n) =>
    paint(stored.subarray(n * area, (n + 1) * area), [C, H, W]),
  );
  const trouble = h("p", { className: "lv-trouble", role: "alert" }); // beside the button that makes it
  const shelf = gallery("Test images", "lv-shelf", faces, 1, (index) => {
    trouble.textContent = "";
    put({ image: index });
  });
  faces.forEach((face) => face.setAttribute("aria-hidden", "true"));
  shelf.buttons.forEach((face, n) => face.setAttribute("aria-label", names.image(n)));

  const own = (pixels, more) => put({ own: new DataView(pixels.buffer), image: -1, ...more });
  const load = async (chosen) => {
    trouble.textContent = "";
    try {
      const pixels = await readImage(chosen, net);
      // Trained on things on a dark ground, a network is lost on a bright one: take the negative.
      own(onDark && borderMean(pixels, W, H) > 128 ? pixels.map((value) => 255 - value) : pixels);
    } catch (error) {
      trouble.textContent = error.message;
    }
  };
  const file = h("input", { type: "file", accept: "image/*", className: "lv-file", ...KEYS });
  file.addEventListener("change", () => {
    if (file.files[0]) load(file.files[0]);
    file.value = ""; // the same file may be chosen again
  });
  root.addEventListener("dragover", (event) => event.preventDefault());
  root.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) load(event.dataTransfer.files[0]);
  });
  const buttons = [
    button("New drawing", () => own(new Uint8Array(area), { mode: "draw" })),
    h("label", { className: "vf-button" }, "Load a file", file),
    button("Negative", () => own(Uint8Array.from(state().pixels, (value) => 255 - value))),
  ];
  const node = h("div", {}, shelf.node);
  return { node, buttons, trouble, show: (now) => shelf.show(now.image) };
}
