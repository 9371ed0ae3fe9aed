"""Try every link of the built pages: python -m tools.links [FOLDER]

Links inside the book are looked up, with their anchors. Other sites are asked,
each by one thread, once a second and three times before a link counts as
broken. A site that refuses programs (403, 429) says nothing about its link:
that is listed as unsure. _build/links.json holds all answers; the exit status
is 1 if a link is broken.
"""

import http.client
import json
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

from vitnb._files import replacing

ROOT = Path(__file__).resolve().parents[1]
PAUSE, TRIES, TIMEOUT = 1.0, 3, 30.0  # seconds between two requests to a site, tries, seconds for an answer
UNSURE = (401, 403, 405, 406, 429, 999)  # the site is there and does not talk to programs
AGENT = "Mozilla/5.0 (compatible; the link check of a book; once a week)"
# Colab answers the same to any address; GitHub's forms ask to sign in; OWNER/REPO: what _config.yml says before a fork.
NOT_ASKED = re.compile(
    r"https://(colab\.research\.google\.com/|github\.com/(OWNER/REPO|[^/]+/[^/]+/(edit|issues/new)\b))"
)


class Page(HTMLParser):
    """The links and the anchors of one page."""

    def __init__(self, text: str):
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and (name == "id" or (tag == "a" and name == "name")):
                self.anchors.add(value)
            elif value and name in ("href", "src") and tag != "use":
                self.links.add(value)


def read(folder: Path) -> dict[Path, Page]:
    """Every page, without the templates that the theme leaves in _static."""
    paths = sorted(path for path in folder.rglob("*.html") if "_static" not in path.relative_to(folder).parts)
    return {path: Page(path.read_text(encoding="utf-8")) for path in paths}


def inside(pages: dict[Path, Page]) -> list[str]:
    """Links inside the book that lead to no file or to no anchor, each with its page."""
    broken = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.exists():
                broken.append(f"{path.name}: {link} leads to no file")
            elif anchor and target in pages and anchor not in pages[target].anchors:
                broken.append(f"{path.name}: {link} leads to no anchor")
    return broken


def outside(pages: dict[Path, Page]) -> dict[str, list[str]]:
    """Each address of another site, and the pages that link to it."""
    found: dict[str, list[str]] = {}
    for path, page in pages.items():
        for link in {urldefrag(link).url for link in page.links if link.startswith(("http://", "https://"))}:
            if not NOT_ASKED.match(link):
                found.setdefault(link, []).append(path.name)
    return dict(sorted(found.items()))


def ask(address: str, wait: Callable[[float], None] = time.sleep) -> str:
    """Say "ok", "unsure: why" or "broken: why"."""
    why = ""
    for attempt in range(TRIES):
        wait(PAUSE * 5**attempt)  # 1, 5 and 25 seconds
        request = urllib.request.Request(address, headers={"User-Agent": AGENT, "Accept": "*/*"})
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                answer.read(1)
            return "ok"
        except urllib.error.HTTPError as error:
            if error.code in UNSURE:
                return f"unsure: {error.code}"
            why = f"{error.code} {error.reason}"
            if error.code in (404, 410):
                break
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = str(error) or type(error).__name__
    return f"broken: {why}"


def ask_all(addresses: Iterable[str], wait: Callable[[float], None] = time.sleep) -> dict[str, str]:
    """What each address answers: one thread a site, eight sites at once."""
    sites: dict[str, list[str]] = {}
    for address in addresses:
        sites.setdefault(urlsplit(address).netloc, []).append(address)
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda site: {address: ask(address, wait) for address in site}, sites.values())
    return {address: answer for site in answers for address, answer in site.items()}


def main(folder: Path) -> int:
    pages = read(folder)
    if not pages:
        print(f"no pages in {folder}: make book builds them")
        return 1
    broken, others = inside(pages), outside(pages)
    answers = ask_all(others)
    found = {address: {"answer": answers[address], "pages": names} for address, names in others.items()}
    with replacing(ROOT / "_build" / "links.json") as part:
        part.write_text(json.dumps({"inside": broken, "outside": found}, indent=1) + "\n", encoding="utf-8")
    for kind in ("unsure", "broken"):
        for address, entry in found.items():
            if entry["answer"].startswith(kind):
                print(f"{address} ({', '.join(entry['pages'])}) {entry['answer']}")
    print(*broken, sep="\n", end="\n" * bool(broken))
    print(f"{len(pages)} pages, {len(found)} addresses of other sites")
    return int(bool(broken) or any(answer.startswith("broken") for answer in answers.values()))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "_build" / "html"))
