"""Figures that live in the page: their still images, the script that wakes them, controls that need Python."""

import base64
import hashlib
import importlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

KIND = "application/vnd.jupyter.widget"
VIEW, STATE = f"{KIND}-view+json", f"{KIND}-state+json"
SAVED = re.compile(rf'(<script[^>]*type="{re.escape(STATE)}"[^>]*>)(.*?)(</script>\n?)', re.DOTALL)
KIND_OF = re.compile(r"(\w+): a live figure")  # how a figure names itself where it is text
FOLDER = Path("_static", "figures")  # beside figures.js, which asks for what is in it
LEAST = 1000  # characters: a shorter text is not worth a file
PART = re.compile(r'\{"part": "(\w+)"\}')
SLEEPS = """<p class="figure-sleeps">This control needs Python: it comes alive in Colab or JupyterLab.
Here you see what it last showed.</p>"""


def last_shown(model: str, models: dict) -> list[dict]:
    """Return the outputs that a control, such as interact's, holds inside."""
    traits = models.get(model, {}).get("state", {})
    children = [child.removeprefix("IPY_MODEL_") for child in traits.get("children") or []]
    return [*traits.get("outputs", []), *(output for child in children for output in last_shown(child, models))]


def replace_controls(notebook: dict) -> None:
    """Put in place of a control that needs Python what it last showed, and a line that says where it works."""
    models = notebook["metadata"].get("widgets", {}).get(STATE, {}).get("state", {})
    note = {"output_type": "display_data", "metadata": {}, "data": {"text/html": SLEEPS}}
    for cell in notebook["cells"]:
        outputs = cell.get("outputs", [])
        for output in list(outputs):
            model = output.get("data", {}).get(VIEW, {}).get("model_id")
            if model in models and models[model]["model_module"] != "anywidget":
                place = outputs.index(output)
                outputs[place : place + 1] = [*last_shown(model, models), note]


def prepare_source(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace the controls of a notebook that need Python."""
    if VIEW in source[0] and str(app.env.doc2path(docname)).endswith(".ipynb"):
        notebook = json.loads(source[0])
        replace_controls(notebook)
        source[0] = json.dumps(notebook)


class StillImages(SphinxPostTransform):
    """Keep the still image of a live figure in the page: it shows until a script runs, and where none does."""

    default_priority = 3  # before myst-nb takes one kind of each output
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        """Put the image and the view of each live figure into one frame."""
        for bundle in list(self.document.findall(nodes.container)):
            kinds = {child.get("mime_type"): child for child in bundle.children if isinstance(child, nodes.container)}
            if bundle.get("nb_element") == "mime_bundle" and VIEW in kinds:
                still = kinds["image/png"].children if "image/png" in kinds else []
                named = KIND_OF.search(kinds["text/plain"].astext()) if "text/plain" in kinds else None
                classes = ["live-figure", *([f"live-{named[1].lower()}"] if named else [])]
                frame = nodes.container("", *still, *kinds[VIEW].children, classes=classes)
                kinds[VIEW].children = []
                kinds[VIEW].append(frame)


def at_the_end(page: str) -> str:
    """Return a page whose figures' states stand at its end: most of its bytes, behind all that is seen."""
    states = "".join(found[0] for found in SAVED.finditer(page))
    return SAVED.sub("", page).replace("</body>", f"{states}</body>", 1) if "</body>" in page else page


def kind_of(state: dict) -> type | None:
    """Return the class of a stored figure, if it is one of the book's."""
    source, _, name = state.get("_anywidget_id", "").rpartition(".")
    return getattr(importlib.import_module(source), name) if source.startswith("vitbook.figures.") else None


def first_of(model: dict) -> dict:
    """Return what a page gives a stored figure before the reader touches it, and the names of what is late then."""
    held = {one["path"][0]: one["data"] for one in model.get("buffers", [])}
    kind = kind_of(model["state"])
    late = [name for name in kind.late if held.get(name)] if kind else []
    if not late:
        return {}
    first = kind.first({**model["state"], **{name: base64.b64decode(text) for name, text in held.items()}})
    return {"late": late, **{name: base64.b64encode(data).decode() for name, data in first.items()}} if first else {}


def parted(page: str, folder: Path) -> str:
    """Return a page whose figures have their code and their data, all that is long, in files of this folder.

    A file is named by what it holds, so that pages with the same figure share it. It is a script: browsers refuse
    all else to a page that was opened from the disk. A figure that has a first view of its own begins with that.
    """

    def part(text: str) -> dict:
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        (folder / f"{name}.js").write_text(f'bookParts["{name}"] = {json.dumps(text)};')
        return {"part": name}

    def lighter(found: re.Match) -> str:
        stored = json.loads(found[2])
        for model in stored["state"].values():
            if first := first_of(model):
                model["first"] = first
            for holder in (model["state"], model.get("first", {}), *model.get("buffers", [])):
                long = {key: text for key, text in holder.items() if isinstance(text, str) and len(text) > LEAST}
                holder.update({key: part(text) for key, text in long.items()})
        return found[1] + written(stored) + found[3]

    return SAVED.sub(lighter, page)


def written(stored: dict) -> str:
    """Return the state of a page's figures as its script holds it."""
    return json.dumps(stored).replace("</", r"<\/")


def joined(page: str, read: Callable[[str], str]) -> str:
    """Return a page with all that `parted` took out of it; read gives a file of its folder."""

    def text(found: re.Match) -> str:
        return read(f"{found[1]}.js").partition(" = ")[2].removesuffix(";").replace("</", r"<\/")

    def whole(found: re.Match) -> str:
        stored = json.loads(found[2])
        for model in stored["state"].values():
            model.pop("first", None)
        return found[1] + PART.sub(text, written(stored)) + found[3]

    return SAVED.sub(whole, page)


def change_pages(app: Sphinx, change: Callable[[str, Path], str]) -> None:
    """Change all pages that the build has written."""
    for path in Path(app.outdir).rglob("*.html"):
        path.write_text(change(path.read_text(encoding="utf-8"), Path(app.outdir, FOLDER)), encoding="utf-8")


def move_states(app: Sphinx) -> None:
    """Put the states of all pages at their ends, whole: a page may be as the build before has left it."""

    def moved(page: str, folder: Path) -> str:
        return at_the_end(joined(page, lambda name: (folder / name).read_text()))

    change_pages(app, moved)


def part_states(app: Sphinx) -> None:
    """Put what is long in the states of all pages into files."""
    shutil.rmtree(folder := Path(app.outdir, FOLDER), ignore_errors=True)
    folder.mkdir(parents=True)
    change_pages(app, parted)


def add_script(app: Sphinx, pagename: str, template: str, context: dict, doctree: object) -> None:
    """Load the script where a page has a live figure."""
    if f'type="{VIEW}"' in context.get("body", ""):
        app.add_js_file("figures.js", loading_method="defer")


def setup(app: Sphinx) -> None:
    """Register what is here."""
    app.add_post_transform(StillImages)
    app.connect("source-read", prepare_source)
    app.connect("html-page-context", add_script)
