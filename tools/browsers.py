"""The live figures in other browsers, as Debian has them: python -m tools.browsers firefox|webkit [CHAPTER ...]

After make book; needs firefox-esr, or webkit2gtk-driver and xvfb. Each page is opened from the disk, on a phone's
screen (WebKit's window is 447 pixels wide at least) and on a wide one. Each figure must draw, change by key, mouse
and touch, and be no wider than the screen; the page asks nobody and logs no error. Firefox is asked for less motion.
WebKit's driver does not tell what a page logs: there the pages are copies that begin with a script that records it.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import websocket  # comes with Jupyter

from pages.policy import WRITTEN
from pages.print_slides import BUILT
from tests.conftest import HARMLESS

PORT, PATIENCE = 9515, 60  # seconds
PREFERENCES = 'user_pref("ui.prefersReducedMotion", 1);\nuser_pref("dom.w3c_touch_events.enabled", 1);\n'
FIGURE = "const figure = document.querySelectorAll('.live-figure')[NUMBER]; "
WAKE = "figure.scrollIntoView({ behavior: 'instant' }); return figure.querySelector('.vf, .figure-failed') !== null"
COMPLETE = "figure.dispatchEvent(new Event('focusin', { bubbles: true })); return figure.ariaBusy !== 'true'"
FAILED = "return figure.querySelector('.figure-failed, .vf-trouble:not([hidden])')?.textContent ?? ''"
LOOK = """const drawn = [...figure.querySelectorAll("canvas, svg")].map((one) => one.toDataURL?.() ?? one.innerHTML);
const set = [...figure.querySelectorAll("input, select")].map((one) => one.checked + one.value);
const on = [...figure.querySelectorAll("[aria-checked=true], [aria-pressed=true]")].map((one) => one.outerHTML);
return [figure.innerText, ...drawn, ...set, ...on].join()"""
# A control that can be used now comes into focus and to the middle of the screen: what it is, and where to press it.
CONTROL = """const controls = [...figure.querySelectorAll("input, select, button, .vf-pad")].filter((one) =>
  one.getClientRects().length && !one.checked && !one.disabled && one.type !== "file" && !one.closest("[inert]"));
const control = controls[TURN % controls.length];
control.focus();
control.scrollIntoView({ block: "center", behavior: "instant" });
const box = (control.type === "radio" ? control.labels[0] : control).getBoundingClientRect();
const share = control.type === "range" ? [0.9, 0.6, 0.3][TURN % 3] : 0.5;
return [control.type ?? "pad", Math.round(box.x + share * box.width), Math.round(box.y + box.height / 2)]"""
KEYS = {"range": "\ue014", "pad": "\ue015", "select-one": "\ue015"}  # arrows; all else by the space bar
PAGE = """return [document.documentElement.scrollWidth, innerWidth,
  performance.getEntriesByType("resource").map(({ name }) => name).filter((name) => !/^(file|data|blob)/.test(name))]"""
# What a browser would write into its console as a warning or an error, the refusals of the policy among it.
RECORD = """window.logged = [];
for (const how of ["error", "warn"]) console[how] = (...said) => logged.push(said.join(" "));
const note = (event, words) => addEventListener(event, (noted) => logged.push(String(words(noted))), true);
note("error", ({ message, target }) => message ?? `not loaded: ${target.src ?? target.href}`);
note("unhandledrejection", ({ reason }) => reason);
note("securitypolicyviolation", ({ violatedDirective, blockedURI }) => `refused: ${violatedDirective} ${blockedURI}`);
"""


def patiently(what, seconds: float = PATIENCE):
    """Return the first true thing that a call returns, or its last."""
    end = time.monotonic() + seconds
    while not (found := what()) and time.monotonic() < end:
        time.sleep(0.1)
    return found


class Firefox:
    """A window of Firefox, which speaks WebDriver BiDi itself."""

    COMMAND = ("firefox-esr", "--headless", "--profile", ".", f"--remote-debugging-port={PORT}")

    def book(self, _folder: Path) -> Path:
        """Return where the pages to open lie."""
        return BUILT

    def start(self) -> bool:
        """Ask for a session, and say whether there is one."""
        with suppress(OSError):
            self.line = websocket.create_connection(f"ws://127.0.0.1:{PORT}/session", 120, suppress_origin=True)
            self.sent, self.errors = 0, []
            self.ask("session.new", capabilities={})
            self.ask("session.subscribe", events=["log.entryAdded"])
            self.window = self.ask("browsingContext.create", type="window")[
                "context"
            ]  # the first one's keys go to its bar
            return True
        return False

    def ask(self, method: str, **given: Any) -> dict:
        """Return what a command answers, and note the errors that are logged meanwhile."""
        self.sent += 1
        self.line.send(json.dumps({"id": self.sent, "method": method, "params": given}))
        while (answer := json.loads(self.line.recv())).get("id") != self.sent:
            entry = answer.get("params", {})
            self.errors += [entry["text"]] * (entry.get("level") == "error")
        return answer["result"]

    def open(self, address: str, width: int) -> None:
        """Open a page in a window of this width."""
        self.errors, here = [], {"context": self.window}
        self.ask("browsingContext.setViewport", **here, viewport={"width": width, "height": 844})
        self.ask("browsingContext.navigate", **here, url=address, wait="complete")

    def run(self, code: str) -> Any:
        """Return what JavaScript returns in the page."""
        code = f"JSON.stringify((() => {{ {code} }})())"
        found = self.ask("script.evaluate", expression=code, target={"context": self.window}, awaitPromise=False)
        return json.loads(found["result"]["value"])

    def act(self, *sources: dict) -> None:
        """Press keys or a pointer."""
        self.ask("input.performActions", context=self.window, actions=sources)


class WebKit:
    """A window of WebKitGTK's small browser, by its driver."""

    COMMAND = ("xvfb-run", "-a", "-s", "-screen 0 1400x1000x24", "WebKitWebDriver", f"--port={PORT}")

    def book(self, folder: Path) -> Path:
        """Return where the pages to open lie: copies that begin with a script that records what they log."""
        shutil.copytree(BUILT, folder / "html")
        (folder / "html/record.js").write_text(RECORD)
        for page in (folder / "html/book").glob("*.html"):
            # The policy is in force from there on; it lets a file of the book's own run.
            policy = WRITTEN.search(text := page.read_text())
            page.write_text(text[: policy.end()] + '<script src="../record.js"></script>' + text[policy.end() :])
        return folder / "html"

    @property
    def errors(self) -> list[str]:
        """What the page has logged."""
        return self.run("return logged")

    def start(self) -> bool:
        """Ask for a session, and say whether there is one."""
        binary = str(next(Path("/usr/lib").glob("*/webkit2gtk-4.1/MiniBrowser")))
        options = {"binary": binary, "args": ["--automation"]}
        with suppress(OSError):
            self.session = ""
            asked = {"alwaysMatch": {"webkitgtk:browserOptions": options}}
            self.session = f"/{self.ask('', capabilities=asked)['sessionId']}"
            return True
        return False

    def ask(self, what: str, **given: Any) -> Any:
        """Return what a command answers."""
        address = f"http://127.0.0.1:{PORT}/session{self.session}{what}"
        with urllib.request.urlopen(address, json.dumps(given).encode(), timeout=120) as answer:
            return json.load(answer)["value"]

    def open(self, address: str, width: int) -> None:
        """Open a page in a window of this width."""
        self.ask("/window/rect", x=0, y=0, width=width, height=900)
        self.ask("/url", url=address)

    def run(self, code: str) -> Any:
        """Return what JavaScript returns in the page."""
        return json.loads(self.ask("/execute/sync", script=f"return JSON.stringify((() => {{ {code} }})())", args=[]))

    def act(self, *sources: dict) -> None:
        """Press keys or a pointer."""
        self.ask("/actions", actions=sources)


def use(browser: Firefox | WebKit, run, how: str) -> bool:
    """Use one control after the other, three at most, by key, mouse or touch: does one change what is shown?"""
    for turn in range(3):
        kind, x, y = run(CONTROL.replace("TURN", str(turn)))
        before = run(LOOK)
        if how == "key":
            presses = [{"type": at, "value": KEYS.get(kind, " ")} for at in ("keyDown", "keyUp")]
            browser.act({"type": "key", "id": how, "actions": presses})
        else:
            presses = [{"type": "pointerMove", "x": x, "y": y}]
            presses += [{"type": at, "button": 0} for at in ("pointerDown", "pointerUp")]
            browser.act({"type": "pointer", "id": how, "parameters": {"pointerType": how}, "actions": presses})
        if patiently(lambda before=before: run(LOOK) != before, 4):
            return True
    return False


def faults(browser: Firefox | WebKit, number: int) -> list[str]:
    """Return what is wrong with a figure of the page."""

    def run(code: str) -> Any:
        return browser.run(FIGURE.replace("NUMBER", str(number)) + code)

    if not (patiently(lambda: run(WAKE)) and patiently(lambda: run(COMPLETE))):
        return ["does not wake"]
    unmoved = [f"no change by {how}" for how in ("key", "mouse", "touch") if not use(browser, run, how)]
    return [*unmoved, *filter(None, [run(FAILED)])]


def tried(browser: Firefox | WebKit, path: Path, width: int) -> list[str]:
    """Return what is wrong with a page."""
    browser.open(path.as_uri(), width)
    count = browser.run("return document.querySelectorAll('.live-figure').length")
    found = [f"figure {number}: {what}" for number in range(count) for what in faults(browser, number)]
    wide, screen, foreign = browser.run(PAGE)
    found += [f"{wide} pixels wide on a screen of {screen}"] * (wide > screen) + foreign
    return found + [error for error in browser.errors if not any(harmless in error for harmless in HARMLESS)]


def main(name: str, *chapters: str) -> int:
    """Try the pages; return how often one had a fault."""
    browser, bad = {"firefox": Firefox, "webkit": WebKit}[name](), 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chdir(folder)
        book = browser.book(Path(folder)) / "book"
        paths = [book / f"{one}.html" for one in chapters] or sorted(book.glob("*.html"))
        Path("user.js").write_text(PREFERENCES)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(browser.COMMAND, **quiet, start_new_session=True)
        try:
            patiently(browser.start)
            for path in paths:
                for width in (390, 1200) if "live-figure" in path.read_text() else ():
                    wrong = tried(browser, path, width)
                    bad += bool(wrong)
                    print(f"{path.stem}, {width}:", "; ".join(wrong) or "sound", flush=True)
        finally:
            os.killpg(process.pid, signal.SIGTERM)
    return bad


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
