// Two buttons of the theme: whole screen, print. Their attributes held scripts, which no page of the book allows.
for (const button of document.querySelectorAll("[data-does]")) {
  button.addEventListener("click", () =>
    button.dataset.does === "window.print" ? window.print() : window.toggleFullScreen(),
  );
}

// A table that is wider than its column scrolls (book.css), so the keyboard has to reach it.
function reach() {
  for (const table of document.querySelectorAll(".bd-article table")) {
    if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
  }
}
reach();
addEventListener("resize", reach);
document.addEventListener("toggle", reach, true); // what was folded had no width
