// Starts a deck of slides: its colours, its keys, and the live figures in it.
(() => {
  const [SMALLEST, BESIDE_IMAGES, LARGEST, PADDING] = [0.6, 0.95, 1.25, 16];
  const root = document.documentElement;
  const printing = /print-pdf/.test(location.search);
  const darkness = matchMedia("(prefers-color-scheme: dark)");

  /** What the reader chose in the book's pages, as their theme stores it; nothing if nothing can be stored. */
  function chosen() {
    try {
      return localStorage.getItem("mode");
    } catch {
      return null;
    }
  }

  function colour(theme) {
    root.dataset.theme = printing ? "light" : theme;
  }

  function followSystem() {
    const mode = chosen();
    colour(["light", "dark"].includes(mode) ? mode : darkness.matches ? "dark" : "light");
  }

  followSystem();
  darkness.addEventListener("change", followSystem);

  /** Whether a slide holds all that is on it, once its code is as small as the longest line asks. */
  function fits(slide) {
    const boxes = [...slide.querySelectorAll(".body, .columns, .columns > div")];
    const codes = [...slide.querySelectorAll("pre")];
    slide.style.setProperty("--code", 1);
    const shares = codes.map((code) => (code.clientWidth - PADDING) / (code.scrollWidth - PADDING));
    slide.style.setProperty("--code", (0.99 * Math.min(1, ...shares)).toFixed(3));
    return !boxes.some(
      (box) => box.scrollHeight > box.clientHeight || box.scrollWidth > box.clientWidth,
    );
  }

  /** Give each slide the largest words and code that it can hold. */
  function fitAll() {
    for (const slide of document.querySelectorAll(".slides > section")) {
      slide.style.display = "flex"; // reveal.js has not begun: all are hidden
      let size = slide.querySelector(".image") ? BESIDE_IMAGES : LARGEST;
      do slide.style.setProperty("--size", size.toFixed(2));
      while (!fits(slide) && (size -= 0.05) > SMALLEST);
      slide.style.display = "";
    }
  }

  const figure = () => document.activeElement?.closest(".live-figure");

  document.addEventListener("DOMContentLoaded", async () => {
    const { Reveal, RevealNotes } = window;
    await document.fonts.load("1em 'STIX Two Math'").catch(() => {}); // formulas have their size then
    fitAll();
    Reveal.on(printing ? "pdf-ready" : "ready", () => (root.dataset.ready = "yes")); // who prints or tests waits for it
    Reveal.initialize({
      width: 1280,
      height: 720,
      margin: 0,
      center: false,
      display: "flex",
      hash: true,
      slideNumber: "c/t",
      transition: "none",
      scrollActivationWidth: null,
      pdfSeparateFragments: false,
      pdfMaxPagesPerSlide: 1,
      plugins: [RevealNotes],
      keyboardCondition: () => !figure(), // the keys belong to the figure in which the focus is
    });
    Reveal.addKeyBinding({ keyCode: 68, key: "D", description: "Light or dark" }, () =>
      colour(root.dataset.theme === "dark" ? "light" : "dark"),
    );
    Reveal.on("slidechanged", () => figure() && document.activeElement.blur());
    if (printing) return; // the still images print, canvases may not
    const script = document.createElement("script");
    script.src = "../_static/figures.js";
    document.body.append(script);
  });

  // Escape leaves a figure. The keys of a presenter's remote control turn the slides even from within one.
  const turns = { Escape: () => {}, PageDown: () => Reveal.next(), PageUp: () => Reveal.prev() };
  document.addEventListener(
    "keydown",
    (event) => {
      if (!figure() || !(event.key in turns)) return;
      document.activeElement.blur();
      turns[event.key]();
      event.preventDefault();
      event.stopPropagation();
    },
    true,
  );
})();
