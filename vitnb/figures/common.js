// What the live figures share. vitnb/figures/_base.py writes this file into the module of each figure.

/** Make an element: properties where the element has them, attributes otherwise. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

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

/** The bytes of a trait, so many as there must be; else an error with words for people. */
export function needBytes(value, name, length) {
  const stored = bytes(value);
  if (stored.length !== length)
    throw Error(`its ${name} should take ${length} bytes and take ${stored.length}`);
  return stored;
}

/** The float32 numbers of a trait: so many, and all of them finite. */
export function needFloats(value, name, count) {
  const values = floats(needBytes(value, name, 4 * count));
  if (!values.every(Number.isFinite)) throw Error(`its ${name} hold something that is no number`);
  return values;
}

/** A number for people: three digits that count, thousands apart. */
export function number(value) {
  return value.toLocaleString("en-US", { maximumSignificantDigits: 3, useGrouping: true });
}

/** A whole number for people, thousands apart. */
export function whole(value) {
  return value.toLocaleString("en-US");
}

/** The words one, two and three -> "one, two and three". */
export function list(words) {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

/** A colour of common.css as the page has it now, light or dark: color(root, "mark"). */
export function color(root, name) {
  const probe = root.appendChild(h("span", { hidden: true }));
  probe.style.color = `var(--vf-${name})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** A chart's canvas, sharp on any screen and fit for a phone: its pen, its size, colours and straight lines. */
export function chart(root, canvas, [phone, high]) {
  const narrow = root.clientWidth > 0 && root.clientWidth < 480;
  const [width, height] = narrow ? [360, phone] : [640, high];
  Object.assign(canvas, { width: 2 * width, height: 2 * height }); // two pixels each
  const pen = canvas.getContext("2d");
  pen.scale(2, 2);
  Object.assign(pen, { font: "13px system-ui, sans-serif", lineWidth: 1 });
  const colors = ["ink", "soft", "line", "blue", "mark"].map((name) => [name, color(root, name)]);
  const stroke = (...points) => {
    pen.beginPath();
    for (const point of points) pen.lineTo(...point);
    pen.stroke();
  };
  return { pen, narrow, width, height, stroke, ...Object.fromEntries(colors) };
}

/** A picture in memory from bytes that are (C, H, W) flattened; C is 1 or 3. */
export function picture(pixels, [C, H, W]) {
  const canvas = h("canvas", { width: W, height: H });
  const image = new ImageData(W, H);
  for (let i = 0; i < H * W; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = pixels[(C === 3 ? c : 0) * H * W + i];
    image.data[4 * i + 3] = 255;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

// JupyterLab takes the arrow keys away from whatever does not say this.
const KEYS = { "data-lm-suppress-shortcuts": "true" };

/** A labelled slider over a list of values: node, and show(values, value, words for that value). */
export function slider(label, onmove) {
  let choices = [];
  const input = h("input", { type: "range", min: 0, step: 1, ...KEYS });
  const output = h("span", { className: "vf-value" });
  input.addEventListener("input", () => onmove(choices[Number(input.value)]));
  function show(values, value, words) {
    choices = values;
    input.max = values.length - 1;
    input.value = values.indexOf(value);
    input.setAttribute("aria-valuetext", words);
    output.textContent = words;
  }
  return {
    node: h("label", { className: "vf-slider" }, h("span", {}, label), input, output),
    show,
  };
}

let groups = 0;

/** A row of choices of which one holds (radio buttons): node, and show(index). */
export function choice(legend, words, onpick) {
  const name = `vf-choice-${++groups}-${Math.random().toString(36).slice(2)}`; // two modules may share a page
  const inputs = words.map((_, i) =>
    h("input", { type: "radio", name, onchange: () => onpick(i), ...KEYS }),
  );
  const labels = words.map((word, i) => h("label", {}, inputs[i], word));
  const show = (index) => inputs.forEach((input, i) => (input.checked = i === index));
  return {
    node: h("fieldset", { className: "vf-choice" }, h("legend", {}, legend), ...labels),
    show,
  };
}

/** A canvas that is a picture with a text: it takes no focus. */
export function drawing(width, height) {
  return h("canvas", { width, height, role: "img" });
}

/**
 * A canvas on which one picks a place by mouse, touch or arrow keys.
 * onpoint(x, y) gets the place as shares of the width and height, from 0 to 1;
 * onstep(dx, dy, event) gets a step of an arrow key. A finger that moves up or down scrolls the page.
 */
export function pad(width, height, onpoint, onstep) {
  const canvas = h("canvas", {
    width,
    height,
    tabIndex: 0,
    role: "application",
    className: "vf-pad",
    ...KEYS,
  });
  const point = (event) => {
    const box = canvas.getBoundingClientRect();
    const share = (place, start, length) =>
      Math.min(Math.max((place - start) / length, 0), 1 - 1e-6);
    onpoint(share(event.clientX, box.left, box.width), share(event.clientY, box.top, box.height));
  };
  canvas.addEventListener("pointerdown", point);
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[
      event.key
    ];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    onstep(...step, event);
  });
  return canvas;
}

/** The line that says in words what is drawn; screen readers hear it when it changes. */
export function sentence() {
  return h("p", { className: "vf-says", role: "status" });
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
 * at once, after each change of a trait and when the page turns dark or light. put({ trait: value }) changes
 * traits; complain(text) says what went wrong. An error in build or draw becomes a text in the figure.
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
    let draw = () => {};
    let waiting = false;
    const again = () => {
      if (waiting) return;
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
    // JupyterLab renders before the figure is in the page, where it has no colours yet.
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
      arrival.disconnect();
      model.off("change", again);
    };
  }
  return { render };
}
