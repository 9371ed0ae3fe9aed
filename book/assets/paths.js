// The path chosen on the first page (pages/paths.py) leads previous and next at the foot of its pages, and the list of
// chapters marks what is finished. Only this browser keeps it. Where it cannot, or off the path, the book's order stays.
(() => {
  const { here, first, titles, paths } = JSON.parse(document.getElementById("paths").textContent);
  const place = (name) => `understanding-vision-transformers:${name}`;
  const kept = (name) => localStorage.getItem(place(name)) ?? "";
  const keep = (name, value) => localStorage.setItem(place(name), value);
  try {
    keep("works", "yes"); // and not the path, which a page of another process may not see yet, and would write over
    if (!kept("works")) return;
  } catch {
    return;
  }
  const address = (page) => document.documentElement.dataset.content_root + page;
  const isFinished = (page) => kept("finished").split(" ").includes(page);
  const all = Object.keys(titles);

  function follow({ name, pages }) {
    const at = pages.indexOf(here);
    if (at < 0) return;
    for (const [side, page] of Object.entries({
      "left-prev": pages[at - 1],
      "right-next": pages[at + 1],
    })) {
      const link = document.querySelector(`a.${side}`);
      link.href = address(page ? `${page}.html` : first);
      link.querySelector(".prev-next-subtitle").append(` · ${name}`);
      link.querySelector(".prev-next-title").textContent = titles[page] ?? "The paths";
    }
  }

  function askWhetherFinished(foot) {
    const asked = `<label class="finished"><input type="checkbox"> I have finished this lesson</label>`;
    foot.insertAdjacentHTML("beforebegin", asked);
    const box = foot.previousElementSibling.firstChild;
    const mark = () =>
      keep(
        "finished",
        all.filter((page) => (page === here ? box.checked : isFinished(page))).join(" "),
      );
    box.checked = isFinished(here);
    box.addEventListener("change", mark);
    foot
      .querySelector(".right-next")
      .addEventListener("click", () => ((box.checked = true), mark()));
  }

  function offer(list) {
    const radios = Object.entries({ "": { name: "the book’s order" }, ...paths }).map(
      ([key, { name }]) => `<label><input type="radio" name="path" value="${key}"> ${name}</label>`,
    );
    list.insertAdjacentHTML(
      "afterend",
      `<fieldset class="path"><legend>Previous and next at the foot of a page follow:</legend>${radios.join("")}
       <p><span role="status"></span> <a></a> <button type="button">Reset progress</button></p></fieldset>`,
    );
    const form = list.nextElementSibling;
    form.addEventListener("change", ({ target }) => (keep("path", target.value), show(form)));
    form
      .querySelector("button")
      .addEventListener("click", () => (keep("finished", ""), show(form)));
    // Other tabs finish lessons, and the way back brings this page as it was.
    for (const event of ["pageshow", "storage"]) addEventListener(event, () => show(form));
    show(form);
  }

  function show(form) {
    const pages = paths[kept("path")]?.pages ?? all;
    const next = pages.find((page) => !isFinished(page));
    const link = form.querySelector("a");
    form.querySelector(`[value="${pages === all ? "" : kept("path")}"]`).checked = true;
    form.querySelector("[role=status]").textContent =
      `${pages.filter(isFinished).length} of ${pages.length} lessons finished.`;
    Object.assign(link, {
      hidden: !next,
      href: address(`${next}.html`),
      textContent: `Next: ${titles[next]}`,
    });
    document.querySelectorAll(".chapters .finished").forEach((mark) => mark.remove());
    for (const page of all.filter(isFinished))
      document
        .querySelector(`.chapters a[href="${page.split("/").pop()}.html"] ~ br`)
        ?.insertAdjacentHTML("beforebegin", `<span class="finished"> · ✓ finished</span>`);
  }

  if (!titles[here]) offer(document.querySelector("ul.paths"));
  else {
    // What the first page has just kept may arrive after this page, which is another process.
    const lead = () => {
      if (!paths[kept("path")]) return;
      removeEventListener("storage", lead);
      follow(paths[kept("path")]);
    };
    addEventListener("storage", lead);
    lead();
    askWhetherFinished(document.querySelector(".prev-next-area"));
  }
})();
