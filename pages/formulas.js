// Reads [[tex, display], ...] from stdin and writes the MathML of each to stdout: node formulas.js mathjax.js
// MathJax's bundle is made for browsers. To turn TeX into MathML it needs no page, only the names of one.
const fs = require("fs");
const vm = require("vm");

const nothing = () => {};
const none = () => [];
const element = () => ({
  style: {},
  childNodes: [],
  classList: { add: nothing },
  setAttribute: nothing,
  appendChild: nothing,
  addEventListener: nothing,
});
for (const name of ["Document", "DocumentFragment", "HTMLCollection", "HTMLElement", "NodeList"])
  global[name] = class {};
global.DOMParser = class {
  parseFromString = () => document;
};
global.window = global;
global.location = { protocol: "file:", hash: "" };
global.localStorage = { getItem: () => null };
global.document = Object.assign(new Document(), {
  createElement: element,
  createElementNS: element,
  createTextNode: (nodeValue) => ({ nodeValue }),
  getElementById: () => null,
  getElementsByTagName: none,
  querySelector: () => null,
  querySelectorAll: none,
  addEventListener: nothing,
  documentElement: { querySelectorAll: none },
  head: element(),
  body: element(),
  readyState: "complete",
});
global.MathJax = {
  startup: { typeset: false },
  options: { enableMenu: false },
  tex: { tags: "none" },
};

console.log = console.error; // what MathJax complains of
vm.runInThisContext(fs.readFileSync(process.argv[2], "utf8"));
MathJax.startup.promise.then(() => {
  const formulas = JSON.parse(fs.readFileSync(0, "utf8"));
  const made = formulas.map(([tex, display]) => MathJax.tex2mml(tex, { display }));
  process.stdout.write(JSON.stringify(made));
});
