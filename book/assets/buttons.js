// Two buttons of the theme: whole screen, print. Their attributes held scripts, which no page of the book allows.
for (const button of document.querySelectorAll("[data-does]")) {
  button.addEventListener("click", () =>
    button.dataset.does === "window.print" ? window.print() : window.toggleFullScreen(),
  );
}

// A table or plot that is wider than its column scrolls (book.css), so the keyboard has to reach it.
function reach() {
  for (const wide of document.querySelectorAll(".bd-article :is(table, :has(> img.plot-wide))")) {
    if (wide.scrollWidth > wide.clientWidth) wide.tabIndex = 0;
  }
}
reach();
addEventListener("resize", reach);
document.addEventListener("toggle", reach, true); // what was folded had no width

// What a cell prints is a table if it keeps columns apart by blanks; all else is sentences, which wrap.
for (const printed of document.querySelectorAll(".cell_output pre"))
  if (!/\S {2,}\S/.test(printed.textContent)) printed.classList.add("prose");

// One button a page shows all code that is folded; the browser remembers it, if it has a storage.
(() => {
  const KEY = "show-all-code";
  const folded = [...document.querySelectorAll(".cell:not(.tag_hide-cell) > details.hide")];
  if (!folded.length) return;
  const button = document.createElement("button");
  button.className = "show-code";
  const show = (all) => {
    button.textContent = all ? "Hide all code" : "Show all code";
    button.setAttribute("aria-pressed", all);
    for (const one of folded) one.open = all;
  };
  let all = false;
  try {
    all = localStorage.getItem(KEY) === "yes";
  } catch {}
  button.addEventListener("click", () => {
    all = !all;
    show(all);
    try {
      localStorage.setItem(KEY, all ? "yes" : "no");
    } catch {}
  });
  document.querySelector(".cell:has(> details.hide)").before(button);
  show(all);
})();
