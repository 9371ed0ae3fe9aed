// Starts a deck of slides: its colours, its keys, and the live figures in it.
(() => {
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

  window.MathJax = {
    chtml: { matchFontHeight: false }, // it would measure slides that are hidden
    options: { ignoreHtmlClass: "slides", processHtmlClass: "math" },
  };
  followSystem();
  darkness.addEventListener("change", followSystem);

  const figure = () => document.activeElement?.closest(".live-figure");

  document.addEventListener("DOMContentLoaded", () => {
    const { Reveal, RevealNotes } = window;
    Reveal.initialize({
      width: 1280,
      height: 720,
      margin: 0,
      center: false,
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
    if (printing) return; // the still pictures print, canvases may not
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
