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
