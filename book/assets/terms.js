// Shows the glossary's sentence beside a word that the page uses for the first time: while the pointer is on it or the
// focus is, and at the first tap (the second one follows the link). Esc puts it away.
(() => {
  const terms = document.querySelectorAll("a.term");
  const bubble = document.createElement("div");
  bubble.id = "term-sentence";
  bubble.setAttribute("role", "tooltip");
  bubble.hidden = true;
  document.querySelector("article").append(bubble);
  let shown; // the word whose sentence is shown
  let wasShown; // was it when the finger came down?
  let leaving = 0;

  function hide() {
    clearTimeout(leaving);
    shown?.removeAttribute("aria-describedby");
    shown = undefined;
    bubble.hidden = true;
  }

  function show(term) {
    hide();
    shown = term;
    bubble.textContent = term.dataset.sentence;
    bubble.hidden = false;
    term.setAttribute("aria-describedby", bubble.id);
    const [place, frame] = [term.getClientRects()[0], bubble.offsetParent.getBoundingClientRect()];
    const [width, height] = [bubble.offsetWidth, bubble.offsetHeight];
    const left = Math.max(
      8,
      Math.min(place.left, document.documentElement.clientWidth - width - 8),
    );
    const above = place.bottom + height + 8 > innerHeight && place.top > height + 70; // the bar at the top
    bubble.style.left = `${left - frame.left}px`;
    bubble.style.top = `${(above ? place.top - height - 2 : place.bottom + 2) - frame.top}px`;
  }

  const hideSoon = () => {
    clearTimeout(leaving);
    leaving = setTimeout(hide, 200); // time to reach the sentence itself
  };
  bubble.addEventListener("pointerenter", () => clearTimeout(leaving));
  bubble.addEventListener("pointerleave", hideSoon);
  for (const term of terms) {
    term.addEventListener(
      "pointerenter",
      ({ pointerType }) => pointerType === "mouse" && show(term),
    );
    term.addEventListener(
      "pointerleave",
      ({ pointerType }) => pointerType === "mouse" && hideSoon(),
    );
    term.addEventListener("pointerdown", () => (wasShown = shown === term));
    term.addEventListener("focus", () => shown !== term && show(term));
    term.addEventListener("blur", hide);
    term.addEventListener("click", (event) => {
      if (event.pointerType !== "touch" || wasShown) return;
      event.preventDefault();
      show(term);
    });
  }
  document.addEventListener("keydown", ({ key }) => key === "Escape" && hide());
  document.addEventListener("pointerdown", ({ target }) => {
    if (shown && !shown.contains(target) && !bubble.contains(target)) hide();
  });
})();
