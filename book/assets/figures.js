// Runs the live figures of a page from the state that its notebook stored: no kernel, no network.
// A figure is an anywidget: the text of a module (_esm), a style sheet (_css) and the values of its traits.
// This is no module itself: browsers refuse module files to a page that was opened from the disk.
(() => {
  const KIND = "application/vnd.jupyter.widget";
  const scripts = (what) => document.querySelectorAll(`script[type="${KIND}-${what}+json"]`);
  const models = new Map();
  const modules = new Map();
  const parts = (window.bookParts = {}); // texts of states, by the names of their files
  const folder = new URL("figures/", document.currentScript.src);
  let stored;

  /** What a figure expects of Jupyter, without a kernel behind it. */
  class Model {
    constructor(traits, late) {
      this.traits = traits;
      this.late = late; // [name, text] of what its first view does without
      this.listeners = new Map();
      this.widget_manager = { get_model: find };
    }

    get(name) {
      return this.traits[name];
    }

    set(name, value) {
      if (typeof name === "object") {
        for (const [key, one] of Object.entries(name)) this.set(key, one);
      } else if (this.traits[name] !== value) {
        this.traits[name] = value;
        this.tell(`change:${name}`, value);
        this.tell("change");
      }
    }

    tell(event, value) {
      for (const listener of new Set(this.listeners.get(event)))
        listener({ changed: value }, value);
    }

    on(names, listener) {
      for (const name of names.split(/\s+/)) {
        if (!this.listeners.has(name)) this.listeners.set(name, new Set());
        this.listeners.get(name).add(listener);
      }
    }

    off(names, listener) {
      for (const name of names ? names.split(/\s+/) : this.listeners.keys()) {
        if (listener) this.listeners.get(name)?.delete(listener);
        else this.listeners.delete(name);
      }
    }

    save_changes() {}

    send() {}
  }

  function decode(text) {
    const binary = atob(text);
    const decoded = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++) decoded[i] = binary.charCodeAt(i); // a callback for each takes 7 times as long
    return new DataView(decoded.buffer);
  }

  /** Pixels as a notebook holds them, (n, 3, S, S), of photos that stand below each other in an image. */
  async function photos(image) {
    const bitmap = await createImageBitmap(new Blob([image]));
    const [S, height] = [bitmap.width, bitmap.height];
    const canvas = Object.assign(document.createElement("canvas"), { width: S, height });
    const brush = canvas.getContext("2d");
    brush.drawImage(bitmap, 0, 0);
    const { data } = brush.getImageData(0, 0, S, height);
    const pixels = new Uint8Array(3 * S * height);
    for (let i = 0; i < S * height; i++) {
      const start = i + 2 * S * S * Math.floor(i / (S * S));
      for (let c = 0; c < 3; c++) pixels[start + c * S * S] = data[4 * i + c];
    }
    return new DataView(pixels.buffer);
  }

  /** A text of a state: it stands in the page, or in a file that is asked for now (pages/live_figures.py). */
  async function whole(text) {
    if (!text?.part) return text;
    if (!(text.part in parts))
      await new Promise((onload, fail) => {
        const script = document.createElement("script");
        const onerror = () => fail(Error("a file of it did not come"));
        Object.assign(script, { src: `${folder}${text.part}.js`, onload, onerror });
        document.head.append(script);
      });
    return parts[text.part];
  }

  async function make(id) {
    stored ??= Object.assign(
      {},
      ...[...scripts("state")].map((script) => JSON.parse(script.textContent).state),
    );
    if (!stored[id]) throw Error("the page holds no state for it");
    const { state, buffers = [], first = {} } = stored[id];
    const late = [];
    const texts = Object.entries(state).map(
      async ([name, text]) => (state[name] = await whole(text)),
    );
    const bytes = buffers.map(async ({ path, data }) => {
      const name = path.at(-1);
      if (first.late?.includes(name)) return late.push([name, data]);
      const holder = path.slice(0, -1).reduce((part, key) => part[key], state);
      const photographed = name === "pixels" && first.pixels;
      const found = decode(await whole(photographed || data));
      holder[name] = photographed ? await photos(found) : found;
    });
    const view = async () => first.view && (state.first = decode(await whole(first.view)));
    await Promise.all([...texts, ...bytes, view()]);
    return new Model(state, late);
  }

  /** The model with this id, made from the stored state when it is first asked for. */
  function find(id) {
    if (!models.has(id)) models.set(id, make(id));
    return models.get(id);
  }

  /** Run the text of a figure's module, as a script that the page's policy allows by its sum (pages/policy.py). */
  function run(text) {
    const script = document.createElement("script");
    const code = text.replace(/^export default /m, "return ");
    script.textContent = `"use strict";\nwindow.bookFigure = (() => {\n${code}\n})();`;
    let failed;
    const note = ({ error, message }) => (failed = error ?? Error(message));
    window.addEventListener("error", note);
    delete window.bookFigure;
    document.head.append(script); // runs at once
    window.removeEventListener("error", note);
    script.remove();
    const made = window.bookFigure;
    if (failed) throw failed;
    if (!made) throw Error("the page does not allow its code");
    return typeof made === "function" ? made() : made;
  }

  /** The module of a figure; the same text is run once, the same style sheet added once. */
  function load(text, css) {
    if (!modules.has(text)) {
      const sheet = document.createElement("style");
      sheet.textContent = css ?? "";
      document.head.append(sheet);
      modules.set(text, run(text));
    }
    return modules.get(text);
  }

  const TOUCHES = ["pointermove", "pointerdown", "focusin", "click", "dragenter"];

  /** Fetch what the first view of a figure does without, when it is touched: each part is a change, which draws. */
  function finish(frame, model) {
    const bring = async () => {
      for (const touch of TOUCHES) frame.removeEventListener(touch, bring);
      frame.setAttribute("aria-busy", "true");
      try {
        await Promise.all(
          model.late.map(async ([name, data]) => model.set(name, decode(await whole(data)))),
        );
      } catch (error) {
        fail(frame.appendChild(document.createElement("div")), error);
      }
      frame.removeAttribute("aria-busy");
    };
    if (model.late.length) for (const touch of TOUCHES) frame.addEventListener(touch, bring);
  }

  function fail(place, error) {
    place.className = "figure-failed";
    place.textContent = `This figure could not start in your browser: ${error.message}.`;
    console.error(error);
  }

  /** Put the live figure where its still image is; if it fails, say so below the image. */
  async function start(frame, id) {
    const place = document.createElement("div");
    frame.append(place);
    try {
      const model = await find(id);
      const { signal } = new AbortController();
      const figure = await load(model.get("_esm"), model.get("_css"));
      model.ready ??= figure.initialize?.({ model, signal });
      await model.ready;
      await figure.render({ model, el: place, signal });
      frame.replaceChildren(place);
      finish(frame, model);
    } catch (error) {
      fail(place, error);
    }
  }

  const watch = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        watch.unobserve(target);
        start(target, target.dataset.model);
      }
    },
    { rootMargin: "400px" },
  );
  for (const script of scripts("view")) {
    const frame = script.parentElement;
    frame.dataset.model = JSON.parse(script.textContent).model_id;
    watch.observe(frame);
  }
})();
