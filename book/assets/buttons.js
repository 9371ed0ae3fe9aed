// Two buttons of the theme: whole screen, print. Their attributes held scripts, which no page of the book allows.
for (const button of document.querySelectorAll("[data-does]")) {
  button.addEventListener("click", () =>
    button.dataset.does === "window.print" ? window.print() : window.toggleFullScreen(),
  );
}
