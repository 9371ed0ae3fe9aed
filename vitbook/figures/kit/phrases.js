// Words of the page's text that name parts of a figure: links with a title such as "scores: row 0, column 1".

/** The part that a title names, as the figure's elements have it in data-part: "scores 0 1"; "" if it names none. */
export function partOf(title, names) {
  const [name] = title.split(":");
  return names.includes(name) ? [name, ...(title.match(/\d+/g) ?? [])].join(" ") : "";
}

/** Light what belongs to a part: "scores 0" is a row of "scores 0 1". */
function lightIn(root, part) {
  for (const one of root.querySelectorAll("[data-part]"))
    one.toggleAttribute("data-lit", part !== "" && `${one.dataset.part} `.startsWith(`${part} `));
}

/**
 * Let the links of the page light what they name: while one points at them or tabs to them, after a press, and the
 * one that has last come into the middle of the screen. Returns { again, end }: again lights what a new drawing
 * holds, end takes all back.
 */
export function phrases(root, names) {
  const links = [...document.querySelectorAll("a[href^='#'][title]")].filter((link) =>
    partOf(link.title, names),
  );
  let [read, pointed] = [null, null]; // the link that was read last, and the one that is pointed at
  function again() {
    const now = pointed ?? read;
    lightIn(root, now ? partOf(now.title, names) : "");
    for (const link of links) link.toggleAttribute("data-lights", link === now);
  }
  const over = ({ currentTarget }) => ((pointed = currentTarget), again());
  const out = () => ((pointed = null), again());
  function press(event) {
    const { top, bottom } = root.getBoundingClientRect();
    if (bottom < 0 || top > innerHeight) return; // the link leads to the figure
    event.preventDefault();
    [read, pointed] = [event.currentTarget, null]; // until the next link scrolls by
    again();
  }
  const on = { pointerenter: over, focus: over, pointerleave: out, blur: out, click: press };
  const reading = new IntersectionObserver(
    (entries) => {
      read = entries.findLast(({ isIntersecting }) => isIntersecting)?.target ?? read;
      again();
    },
    { rootMargin: "-50% 0px -25% 0px" },
  );
  for (const link of links) {
    reading.observe(link);
    for (const [event, act] of Object.entries(on)) link.addEventListener(event, act);
  }
  function end() {
    reading.disconnect();
    for (const link of links) {
      link.removeAttribute("data-lights");
      for (const [event, act] of Object.entries(on)) link.removeEventListener(event, act);
    }
  }
  return { again, end };
}
