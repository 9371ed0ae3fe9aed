"""What Jupyter Book lacks: links that follow forks, MyST in comments, sources cited by address; the rest beside it."""

import json
import re
from pathlib import Path

from docutils import nodes
from pybtex.database import Entry
from pybtex.plugin import find_plugin
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.docutils import SphinxDirective

from pages import (
    about,
    api,
    drawings_inline,
    folded,
    formulas,
    frame,
    glossary,
    handouts,
    live_figures,
    moved,
    origin,
    paths,
    plot_images,
    policy,
    search,
    sheets,
    slides,
    still,
)

# Colab, JupyterLab and GitHub show MyST's own lines as noise, and hide comments. So notebooks
# write  <!-- :::{name} title, options on their own lines, ::: and -->  and  <!-- (label)= -->.
FENCE = re.compile(r"<!--[ \t]*(:{3,}[^\n]*?)((?:\n:[^\n]*)*)\s*-->")
LABEL = re.compile(r"<!--[ \t]*(\([\w:.-]+\)=?)[ \t]*-->")


def uncomment(markdown: str) -> str:
    """Bring MyST lines out of their HTML comments."""
    # The empty line keeps a fence that follows from being read as an option.
    markdown = FENCE.sub(lambda found: f"{found[1].rstrip()}{found[2]}\n", markdown)
    return LABEL.sub(r"\1", markdown)


def follow_repository(app: Sphinx, config: Config) -> None:
    """Point the buttons of every page at the repository of this build, and name its commit below the page."""
    options = config.html_theme_options
    declared = origin.SLUG.search(options["repository_url"])[1]
    slug, commit = origin.repository(declared, app.srcdir), origin.commit(app.srcdir)
    options["repository_url"] = f"https://github.com/{slug}"
    options["repository_branch"] = origin.branch(options["repository_branch"], app.srcdir)
    changed = origin.git("status", "--porcelain", "--untracked-files=no", folder=app.srcdir)
    options["extra_footer"] = built_from(slug, commit, bool(changed))
    config.vitbook_rename = (declared, slug)
    config.vitbook_commit = commit if slug != origin.UNKNOWN else ""


def built_from(slug: str, commit: str, changed: bool) -> str:
    """Return the line below a page: its commit, which is also what its notebook installs in Colab."""
    if not commit:
        return ""
    shown = f"<code>{commit[:7]}</code>"
    if slug != origin.UNKNOWN:
        shown = f'<a href="https://github.com/{slug}/commit/{commit}">{shown}</a>'
    return f"<p>Built from commit {shown}{', with changes' * changed}.</p>"


def named(config: Config, text: str) -> str:
    """Return the source of a page with the repository of this build and, where it installs vitnb, the commit."""
    text = text.replace(*config.vitbook_rename)
    if not config.vitbook_commit:
        return text
    return origin.ARCHIVE.sub(origin.archive(config.vitbook_rename[1], config.vitbook_commit), text)


def prepare_source(app: Sphinx, docname: str, source: list[str]) -> None:
    """Name the repository in a page and uncomment the MyST of a notebook."""
    source[0] = named(app.config, source[0])
    if not str(app.env.doc2path(docname)).endswith(".ipynb"):
        return
    notebook = json.loads(source[0])
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = uncomment("".join(cell["source"]))
    source[0] = json.dumps(notebook)


def name_downloads(app: Sphinx) -> None:
    """Name the repository in the sources that a page offers for download, too."""
    for path in Path(app.outdir, "_sources").rglob("*.*"):
        if path.suffix in (".ipynb", ".md"):
            path.write_text(named(app.config, path.read_text(encoding="utf-8")), encoding="utf-8")


def launch_stamped(app: Sphinx, pagename: str, template: str, context: dict, doctree: object) -> None:
    """Let the button open in Colab the copy of the notebook that installs this commit (pages/stamp.py)."""
    for group in context.get("header_buttons", []):
        for button in group.get("buttons", []):
            if button.get("text") == "Colab":
                button["url"] = origin.in_colab(app.config.vitbook_rename[1], f"{pagename}.ipynb")


class ChapterSeconds(SphinxDirective):
    """Print how long each chapter runs, as experiments/chapters.py measured it."""

    def run(self) -> list[nodes.Node]:
        """Return a table: chapter, seconds in full, seconds of a smoke run."""
        path = Path(self.env.srcdir, "book", "results", "chapters.json")
        self.env.note_dependency(str(path))
        record = json.loads(path.read_text())
        full, fast = record["result"]["full"], record["result"]["fast"]
        lines = ["| chapter | seconds | with VITNB_FAST=1 |", "| --- | ---: | ---: |"]
        lines += [f"| [](/book/{name}.ipynb) | {full[name]:.0f} | {fast[name]:.0f} |" for name in full]
        lines += [f"| all | {sum(full.values()):.0f} | {sum(fast.values()):.0f} |", ""]
        lines += [
            f"Measured on {record['device']} with {record['config']['threads']} of them at work, the start of the"
        ]
        lines += [f"kernel included, by `{record['command']}`."]
        return self.parse_text_to_nodes("\n".join(lines))


def address(entry: Entry) -> str | None:
    """Return where a source can be read: its url, or else its doi."""
    doi = entry.fields.get("doi")
    return entry.fields.get("url") or (f"https://doi.org/{doi}" if doi else None)


def link_citations(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Let a link to a paper's address lead to its entry in the book's list of sources, which leads on to the paper.

    Notebooks cite by the address, because no list is at hand in Colab, JupyterLab or on GitHub.
    """
    citations = {address(found.entry): found for found in app.env.get_domain("cite").citations}
    for link in doctree.findall(nodes.reference):
        found = citations.get(link.get("refuri", ""))
        if found is None or isinstance(link.parent.parent, nodes.citation):  # the list's own links lead out
            continue
        page = app.builder.get_relative_uri(docname, found.bibliography_key.docname)
        title = found.tooltip_entry.text.render(find_plugin("pybtex.backends", "plaintext")())
        link.update_all_atts({"refuri": f"{page}#{found.citation_id}", "internal": True}, replace=True)
        link["reftitle"] = title.replace("\\url ", "")


def fix_bibliography(app: Sphinx, pagename: str, template: str, context: dict, doctree: object) -> None:
    """Give the entries of the bibliography a role that screen readers know."""
    if "body" in context:  # docutils 0.21 writes one that ARIA has withdrawn
        context["body"] = context["body"].replace('role="doc-biblioentry"', 'role="listitem"')


PARTS = (about, api, folded, formulas, frame, glossary, live_figures, moved, paths, drawings_inline)
PARTS += (slides, handouts, policy, still)
# What is done to the web pages once all are written, in this order.
FINISHING = (
    frame.lighten,
    live_figures.move_states,
    slides.build_decks,
    handouts.build_handouts,
    plot_images.mark,
    name_downloads,
    frame.hang_front_door,
    search.index,
    sheets.lighten,
    policy.seal,  # it reads all that pages hold, the figures' code too, which goes to files last
    live_figures.part_states,
)


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Change the pages that the build has written, unless it has failed or they are those of the EPUB."""
    if not exception and app.builder.format == "html" and app.builder.name != "epub":
        for change in FINISHING:
            change(app)


def setup(app: Sphinx) -> dict:
    """Register the extension."""
    app.add_config_value("vitbook_rename", ("", ""), "env", tuple)
    app.add_config_value("vitbook_commit", "", "env", str)
    app.add_directive("chapter-seconds", ChapterSeconds)
    for part in PARTS:
        part.setup(app)
    app.connect("config-inited", follow_repository, priority=100)
    app.connect("source-read", prepare_source)
    app.connect("doctree-resolved", link_citations)
    app.connect("html-page-context", fix_bibliography)
    app.connect("html-page-context", launch_stamped, priority=900)  # the theme makes the buttons at 501
    app.connect("build-finished", finish, priority=800)  # after Jupyter Book has written its own front door
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
