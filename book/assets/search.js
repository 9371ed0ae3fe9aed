// The search finds sections (sections.js, written by pages/search.py): BM25, where titles count for more than texts.
// The stemmer, and the words that say nothing, are Sphinx's (language_data.js).
(() => {
  const MOST = 30; // results
  const TITLE = 5; // so often a word of the title counts
  const [SATURATION, LENGTH] = [1.2, 0.5]; // BM25's k1 and b
  const FIRST = 3; // for an entry of the glossary whose word is asked for
  const ASIDE = 0.5; // for pages that are neither a chapter nor the glossary
  const GLOSSARY = "book/glossary.html";
  const ASKING =
    "an can do does from get has have how i many me much my our should so than use we what when where which who why you your";
  const idle = new Set([...stopwords, ...ASKING.split(" ")]);
  const stemmer = new Stemmer();
  const known = new Map();
  const WORD = /[\p{L}\p{N}]+(?:[-_’'][\p{L}\p{N}]+)*/gu;
  const SEAM = /[-_’']|(?<=\p{Ll})(?=\p{Lu})/u;

  const BRITISH = /is(?=(?:e[drs]?|ing|ations?)$)/; // both spellings are found: normalise, normalize

  /** The stems of a word: of "warm-up" warmup, warm and up, of LayerNorm layernorm, layer and norm. */
  function stems(word) {
    if (!known.has(word)) {
      const parts = word.split(SEAM);
      const all = parts.length > 1 ? [parts.join(""), ...parts] : parts;
      known.set(
        word,
        all.map((part) => stemmer.stemWord(part.toLowerCase().replace(BRITISH, "iz"))),
      );
    }
    return known.get(word);
  }

  const words = (text) => text.replaceAll("√", " sqrt ").match(WORD) ?? [];

  function count(text, times, counts) {
    for (const word of words(text))
      for (const stem of stems(word)) counts.set(stem, (counts.get(stem) ?? 0) + times);
  }

  const sections = bookSections.flatMap(([address, page, parts]) =>
    parts.map(([anchor, title, text]) => {
      const counts = new Map();
      count(page, 1, counts);
      count(title, TITLE, counts);
      count(text, 1, counts);
      const length = [...counts.values()].reduce((sum, one) => sum + one, 0);
      return { address, page, anchor, title, text, counts, length };
    }),
  );
  const mean = sections.reduce((sum, { length }) => sum + length, 0) / sections.length;
  const holders = new Map();
  for (const { counts } of sections)
    for (const stem of counts.keys()) holders.set(stem, (holders.get(stem) ?? 0) + 1);
  const weight = (stem) => Math.log(1 + sections.length / holders.get(stem));

  /** The words of a query that say something: all, if none does. */
  function telling(query) {
    const left = words(query).filter((word) => !idle.has(word.toLowerCase()));
    return left.length ? left : words(query);
  }

  const whole = (found) => stems(found.join("-"))[0]; // as one word

  function score({ counts, length, title, address, page }, query, asked) {
    const met = query.filter((stem) => counts.has(stem));
    const size = SATURATION * (1 - LENGTH + (LENGTH * length) / mean);
    const sum = met.reduce((all, stem) => {
      const times = counts.get(stem);
      return all + (weight(stem) * times) / (times + size);
    }, 0);
    const rank =
      address === GLOSSARY
        ? whole(words(title)) === asked
          ? FIRST
          : 1
        : /^\d/.test(page)
          ? 1
          : ASIDE;
    return (rank * sum * met.length) / query.length;
  }

  /** The sentence of a section that says most of what is asked for. */
  function sentence({ text }, query) {
    let best = ["", 0];
    for (const one of text.split(/\n|(?<=[.?!]) (?=\p{Lu})/u)) {
      const here = new Set(words(one).flatMap(stems));
      const sum = query.reduce((all, stem) => all + (here.has(stem) ? weight(stem) : 0), 0);
      const value = one[0] === "\t" ? sum / 3 : sum; // a tab begins a line of code
      if (value > best[1] || !best[0]) best = [one, value];
    }
    return best[0];
  }

  function element(tag, ...children) {
    const made = document.createElement(tag);
    made.append(...children);
    return made;
  }

  /** A text in which the words that were asked for are marked. */
  function marked(text, query) {
    return text
      .split(RegExp(`(${WORD.source})`, "u"))
      .map((part, i) =>
        i % 2 && stems(part).some((stem) => query.includes(stem)) ? element("mark", part) : part,
      );
  }

  function result(section, query) {
    const { address, page, anchor, title } = section;
    const link = element("a", title === page ? "" : `${page} › `, element("strong", title));
    link.href = `${address}#${anchor}`;
    const said = sentence(section, query);
    const parts = marked(said, query);
    return element(
      "li",
      link,
      element("p", ...(said[0] === "\t" ? [element("code", ...parts)] : parts)),
    );
  }

  const place = document.getElementById("search-results");
  const says = element("p");
  says.setAttribute("role", "status");
  const list = element("ol");
  place.append(says, list);

  function search(text) {
    const left = telling(text);
    const query = [...new Set(left.flatMap(stems))].filter((stem) => holders.has(stem));
    const asked = left.length && whole(left);
    const found = sections
      .map((section) => ({ section, value: score(section, query, asked) }))
      .filter(({ value }) => value > 0)
      .sort((a, b) => b.value - a.value)
      .slice(0, MOST);
    const amount = `${found.length === MOST ? "The first " : ""}${found.length} section${found.length === 1 ? "" : "s"}`;
    says.textContent = !left.length
      ? ""
      : found.length
        ? `${amount}, the best first.`
        : "No section has these words.";
    list.replaceChildren(...found.map(({ section }) => result(section, query)));
  }

  const field = document.querySelector(".bd-search-container input");
  field.value = new URLSearchParams(location.search).get("q") ?? "";
  field.addEventListener("input", () => search(field.value));
  search(field.value);
})();
