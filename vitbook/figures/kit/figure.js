// The life of a figure: its traits, and when it draws.
import { h } from "./dom.js";

/** The bytes of a trait: Jupyter sends a DataView, Colab an array. */
export function bytes(value) {
  if (value instanceof DataView)
    return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  return new Uint8Array(value ?? 0);
}

/** The float32 numbers of a trait, whatever their alignment. */
export function floats(value) {
  return new Float32Array(bytes(value).slice().buffer);
}

/** The bytes of a trait if there are `length` of them; else an error with words for people. */
export function needBytes(value, name, length) {
  const stored = bytes(value);
  if (stored.length !== length)
    throw Error(`its ${name} should take ${length} bytes and take ${stored.length}`);
  return stored;
}

/** The float32 numbers of a trait: `count` of them, all finite. */
export function needFloats(value, name, count) {
  const values = floats(needBytes(value, name, 4 * count));
  if (!values.every(Number.isFinite)) throw Error(`its ${name} hold a number that is not finite`);
  return values;
}

/** A trait that chooses one of `count` things. */
export function needIndex(value, name, count) {
  if (!(Number.isInteger(value) && value >= 0 && value < count))
    throw Error(`there is no ${name} ${value}; there are ${count}`);
  return value;
}

/** Call again() whenever the page turns dark or light; returns a function that stops it. */
function onTheme(again) {
  const watch = new MutationObserver(again);
  const options = {
    attributes: true,
    attributeFilter: ["data-theme", "data-jp-theme-light", "theme"],
  };
  for (const element of [document.documentElement, document.body]) watch.observe(element, options);
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", again);
  return () => {
    watch.disconnect();
    media.removeEventListener("change", again);
  };
}

/**
 * The module of a figure. build({ model, root, put, complain }) fills root and returns draw(), which is called
 * at once, after each change of a trait and when the page turns dark or light (for canvases; all else is CSS).
 * put({ trait: value }) changes traits; complain(text) says what went wrong. An error in build or draw becomes
 * a text in the figure. draw.end(), where there is one, is called when the figure goes.
 */
export function figure(build) {
  function render({ model, el }) {
    const root = h("div", { className: "vf" });
    const trouble = h("p", { className: "vf vf-trouble", role: "alert", hidden: true });
    el.append(root, trouble);
    const complain = (text) => {
      trouble.textContent = text;
      trouble.hidden = !text;
    };
    const attempt = (work) => {
      try {
        work();
        if (root.hidden) complain("");
        root.hidden = false;
      } catch (error) {
        root.hidden = true;
        complain(`This figure cannot show its data: ${error.message}`);
      }
    };
    const put = (changes) => {
      for (const [name, value] of Object.entries(changes)) model.set(name, value);
      model.save_changes();
    };
    let draw; // nothing, where build failed: its message stays
    let waiting = false;
    const again = () => {
      if (waiting || !draw) return;
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        attempt(draw);
      });
    };
    attempt(() => {
      draw = build({ model, root, put, complain });
      draw();
    });
    // JupyterLab renders before the figure is in the page, where it has no width and no colours yet.
    const arrival = new ResizeObserver(() => {
      if (!root.isConnected) return;
      arrival.disconnect();
      again();
    });
    if (!root.isConnected) arrival.observe(root);
    model.on("change", again);
    const stop = onTheme(again);
    return () => {
      stop();
      draw?.end?.();
      arrival.disconnect();
      model.off("change", again);
    };
  }
  return { render };
}
