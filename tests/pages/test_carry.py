"""The book to carry away: EPUB, PDF and the folder for a stick, made here of a small book with every kind of part."""

import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
import yaml
from pypdf import PdfReader, PdfWriter
from pypdf.annotations import Link

import vitnb
from pages import about, edition, make_epub, make_pdf, make_zip, still
from pages.print_slides import chromium
from tests.conftest import Watch
from vitbook.figures import Question, Quiz
from vitbook.quizzes import QUIZZES

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "book" / "03-attention.ipynb"
KEPT = ("setup", "attn-card", "attn-holes", "attn-qkv-code", "attn-drawing", "more-right", "f393d8d7", "quiz")
SECOND = """# Words

## Exercises

The [figure](03-attention.ipynb), [these](#exercises), [those](03-attention.ipynb#exercises),
[a site](https://example.org/a) and $x^2$.

![The legend](assets/drawings/legend.svg)
"""
THIRD = "# Start\n\nA first page. All is on [another](03-attention.ipynb).\n\n(the-map)=\n## Map\n"


# ---- Pieces


def test_a_quiz_is_written_with_its_answers_behind_it():
    [question] = Quiz([Question("Is `a < b`?", {"Yes & no": "Only if `a & b`.", "No": "Look."}, right=1)]).questions
    written = still.written_quiz([question])
    asked, answered = written.split("<details")
    assert "<code>a &lt; b</code>" in asked and "Yes &amp; no" in asked and "Look." not in asked
    assert "B is right." in answered and "<strong>Not this one.</strong> Only if <code>a &amp; b</code>." in answered
    ET.fromstring(written)


def test_a_drawing_gets_plain_colours():
    svg = (ROOT / "book" / "assets" / "drawings" / "legend.svg").read_text()
    assert "light-dark(" in svg and "var(--" in svg
    plain = still.plain_colours(svg)
    ET.fromstring(plain)
    assert not re.search(r"light-dark|var\(|--vd|data-theme|<a\b", plain)
    assert ".f-token{fill:#0072b2}" in plain.replace(" ", "")


def test_a_summary_keeps_one_text_and_a_page_no_script():
    body = '<details><summary aria-label="Toggle hidden content"><p class="collapsed">Show</p>'
    body += '<p class="expanded">Hide</p></summary></details><script type="a">x</script><math><mi>x</mi></math>'
    made = still.still_body(body)
    assert made.startswith("<details><summary>Show</summary></details>") and "script" not in made
    assert f'<math xmlns="{still.MATHML}">' in made


@pytest.mark.parametrize(
    "href, expected",
    [
        ("#a", "#03-attention.a"),
        ("04-heads.xhtml", "#04-heads"),
        ("../book/04-heads.xhtml#b", "#04-heads.b"),
        ("https://example.org/#c", "https://example.org/#c"),
        ("mailto:a@example.org", "mailto:a@example.org"),
    ],
)
def test_links_between_pages_become_links_inside_one(href, expected):
    assert make_pdf.place("book/03-attention", href) == expected


def test_a_link_that_leads_nowhere_and_an_id_that_stands_twice_are_found():
    page = ET.fromstring(f'<html xmlns="{make_pdf.XHTML}"><p id="a"/><p id="a"/><a href="#a"/><a href="#b"/></html>')
    assert make_pdf.dangling(page) == ["b", "twice: a"]


def test_faults_of_a_pdf_are_found(tmp_path):
    writer = PdfWriter()
    writer.add_blank_page(595, 842)
    writer.add_blank_page(612, 792)
    for target in ({"url": "http://127.0.0.1:8000/a.html"}, {"url": "file:///a.html"}, {"url": "https://example.org"}):
        writer.add_annotation(0, Link(rect=(0, 0, 9, 9), **target))
    writer.write(tmp_path / "a.pdf")
    wrong, counted = make_pdf.faults(PdfReader(tmp_path / "a.pdf"))
    assert counted == {"pages": 2, "links inside": 0, "links to other sites": 3}
    text = "\n".join(wrong)
    for words in ("127.0.0.1", "file:///a.html", "page 2 measures", "not tagged", "no outline", "no language"):
        assert words in text
    assert "example.org" not in text


# ---- A small book


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> tuple[Path, Path]:
    """A book of three pages, and its EPUB."""
    folder = tmp_path_factory.mktemp("carry") / "a book"
    shutil.copytree(ROOT / "pages", folder / "pages", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "book" / "assets", folder / "book" / "assets")
    for name in ("_config.yml", "CITATION.cff"):
        shutil.copy(ROOT / name, folder)
    shutil.copy(ROOT / "book" / "references.bib", folder / "book")
    toc = {"format": "jb-book", "root": "book/index"}
    toc["parts"] = [{"caption": "Build", "chapters": [{"file": "book/03-attention"}, {"file": "book/words"}]}]
    (folder / "_toc.yml").write_text(yaml.safe_dump(toc))
    notebook = nbformat.read(NOTEBOOK, 4)
    cells = {cell.id: cell for cell in notebook.cells}
    title = next(cell for cell in notebook.cells if cell.source.startswith("# "))
    notebook.cells = [title, *(cells[name] for name in KEPT)]
    notebook.cells.insert(-3, nbformat.v4.new_markdown_cell("## Exercises\n\n### Exercise 3.1: twice\n\nDo it."))
    for cell in notebook.cells:
        if cell.cell_type == "markdown":  # links to pages that this book has not
            cell.source = re.sub(r"\[([^\]]*)\]\((?:\d\d-[^)]*|[a-z]+\.md|#[^)]*)\)", r"\1", cell.source)
    nbformat.write(notebook, folder / "book" / "03-attention.ipynb")
    (folder / "book" / "words.md").write_text(SECOND)
    (folder / "book" / "index.md").write_text(THIRD)
    program = (
        "import sys; from pages import make_epub; from pathlib import Path; make_epub.build(*map(Path, sys.argv[1:]))"
    )
    out = folder / "_build" / "epub"
    command = [sys.executable, "-c", program, folder, out]
    made = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return folder, out


def test_the_epub_says_what_it_is(small):
    with zipfile.ZipFile(small[1] / f"{make_epub.NAME}.epub") as epub:
        assert epub.namelist()[0] == "mimetype" and epub.infolist()[0].compress_type == zipfile.ZIP_STORED
        assert {entry.date_time for entry in epub.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        opf, nav = (epub.read(name).decode() for name in ("content.opf", "nav.xhtml"))
        names = epub.namelist()
    said = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    for element in ("title", "creator", "language", "identifier", "description", "rights", "date"):
        assert re.search(rf"<dc:{element}[^>]*>[^<]+<", opf), element
    assert said["title"] in opf and said["authors"][0]["name"] in opf and vitnb.__version__ in opf
    assert "schema:accessibilityFeature" in opf and 'properties="cover-image"' in opf
    assert not [name for name in names if name.endswith(".js")]
    lines = [re.sub(r"<[^>]+>", "", item) for item in re.findall(r"<(?:a|span)\b.*?</(?:a|span)>", nav)]
    assert (
        lines[:4] == ["Title page", "Start", "Map", "Build"] and "3. Attention" in lines and "Exercises" in lines[:-2]
    )
    assert lines[-2:] == ["Words", "Exercises"]


def test_pages_of_the_epub_are_still_and_whole(small):
    chapter = (small[1] / "book" / "03-attention.xhtml").read_text()
    assert "<h1>3. Attention</h1>" in chapter and "Setup on Colab" not in chapter
    assert not re.search(r"<script|vitbook.quizzes|data-sentence|widget-view", chapter)
    assert f'<math xmlns="{still.MATHML}"' in chapter
    questions = re.findall(r'<ol class="questions">(.*?)</details>', chapter, re.DOTALL)
    for question in QUIZZES["03"]:
        assert all(still.prose(text) in questions[0] for text in [question.text, *question.answers])
    for path in small[1].rglob("*.xhtml"):
        for image in re.findall(r"<img\b[^>]*>", path.read_text()):
            assert re.search(r'alt="[^"]{3,}"', image), (path.name, image)
            assert (path.parent / re.search(r'src="([^"]+)"', image)[1]).exists()


def test_the_same_sources_give_the_same_epub(small):
    first = (small[1] / f"{make_epub.NAME}.epub").read_bytes()
    names = zipfile.ZipFile(small[1] / f"{make_epub.NAME}.epub").namelist()
    again = small[1] / "again.epub"
    still.pack(again, [(name, (small[1] / name).read_bytes()) for name in names])
    assert again.read_bytes() == first
    again.unlink()


def test_epubcheck_is_content(small):
    said = make_epub.check(small[1] / f"{make_epub.NAME}.epub")
    if said.startswith("not checked"):
        pytest.skip(said)
    assert "0 fatals / 0 errors / 0 warnings" in said


def test_what_epubcheck_finds_counts(small, tmp_path):
    broken = tmp_path / "broken.epub"
    with zipfile.ZipFile(small[1] / f"{make_epub.NAME}.epub") as epub:
        files = [(name, epub.read(name).replace(b'href="words.xhtml"', b'href="no.xhtml"')) for name in epub.namelist()]
    files = [(name, data.replace(b"<h1>", b"<h1 no='1'>")) for name, data in files]
    still.pack(broken, files)
    if not Path(make_epub.CHECKER).exists():
        pytest.skip("epubcheck is not installed")
    with pytest.raises(SystemExit, match="epubcheck is not content"):
        make_epub.check(broken)


def test_one_page_holds_all_and_each_link_its_own_place(small):
    page = make_pdf.assemble(*small)
    assert make_pdf.dangling(page) == []
    ids = {one.get("id") for one in page.iter()}
    assert {"03-attention.exercises", "words.exercises"} <= ids  # two sections of one name stay apart
    links = {make_pdf.words(one): one.get("href") for one in page.iter(make_pdf.tag("a"))}
    assert links["these"] == "#words.exercises" and links["those"] == "#03-attention.exercises"
    assert links["figure"] == "#03-attention" and links["a site"] == "https://example.org/a"
    assert not list(page.iter(make_pdf.tag("details")))
    [end] = [one for one in page.iter(make_pdf.tag("article")) if one.get("id") == "solutions"]
    solved = [make_pdf.words(one) for one in end.iter(make_pdf.tag("h3"))]
    assert solved == ["Exercise 3.1: twice: solution", "Check yourself: answers"]
    assert "is right." in make_pdf.words(end)


def test_the_pdf_has_contents_and_links_that_land(small, tmp_path):
    if chromium() is None:
        pytest.fail("no Chromium") if os.environ.get("CI") == "true" else pytest.skip("no Chromium on this machine")
    pdf = tmp_path / "book.pdf"
    with ThreadPoolExecutor(1) as own:  # the tests of pages may have a browser in this thread
        counted = own.submit(make_pdf.make_pdf, *small, pdf).result()
    assert counted["links inside"] > 10 and counted["links to other sites"] >= 1
    reader = PdfReader(pdf)
    assert reader.metadata.title == "Understanding Vision Transformers" and reader.metadata.author
    contents = next(page.extract_text() for page in reader.pages if page.extract_text().startswith("Contents"))
    number = int(re.search(r"3\. Attention\s+(\d+)", contents)[1])
    sheet = reader.pages[number - 1].extract_text()
    assert sheet.startswith(f"3. Attention\n{number}\n3. Attention\n")  # running head, number, title
    assert "000" not in contents and "?" not in contents


# ---- The folder for a stick


def test_the_zip_has_the_same_bytes_each_time_and_no_downloads_inside(tmp_path):
    site = tmp_path / "html"
    (site / "downloads").mkdir(parents=True)
    for name in ("index.html", "a.html", ".buildinfo", "downloads/book.zip"):
        (site / name).write_text(name)
    first, second = (make_zip.pack_site(site, tmp_path / name).read_bytes() for name in ("a.zip", "b.zip"))
    assert first == second
    names = zipfile.ZipFile(tmp_path / "a.zip").namelist()
    assert names == [f"{make_zip.NAME}/{name}" for name in ("", "a.html", "index.html")]
    with pytest.raises(SystemExit, match="run make book first"):
        make_zip.pack_site(tmp_path / "nothing", tmp_path / "c.zip")


def test_unpacked_in_a_folder_with_spaces_it_opens_without_a_request(site, tmp_path, new_context):
    folder = tmp_path / "a stick, with spaces"
    with zipfile.ZipFile(make_zip.pack_site(site, tmp_path / "book.zip")) as packed:
        packed.extractall(folder)
    home = f"{(folder / make_zip.NAME).as_uri()}/"
    context = new_context(offline=True)
    page = context.new_page()
    watch = Watch(page, home)
    page.goto(f"{home}index.html")
    page.wait_for_url(f"{home}book/index.html")
    page.locator(".lv-easel").wait_for()  # a live figure runs
    page.locator(".begin a").first.click()
    page.wait_for_url("**/book/0*.html")
    assert page.locator("article h1").count() == 1
    watch.assert_clean()


# ---- The pages around the book


def test_the_citation_file_follows_its_schema_and_names_this_book():
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.citation-file-format"]
    result = subprocess.run([*command, ROOT / "CITATION.cff"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    said, config = (yaml.safe_load((ROOT / name).read_text()) for name in ("CITATION.cff", "_config.yml"))
    assert said["title"] == config["title"] and said["title"] in said["authors"][0]["name"]
    newest = re.search(r"^## (.+?) \(version ([\d.]+), (\w+ \d+)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest[1].lower() == said["preferred-citation"]["edition"] and newest[2] == vitnb.__version__
    assert str(said["date-released"]).startswith(newest[3].split()[1])


def test_the_edition_knows_its_commit_and_where_it_does_not(tmp_path):
    this = edition.read(ROOT)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    assert this.commit == head and re.fullmatch(r"\d{4}-\d\d-\d\d", this.date) and head[:10] in this.built
    shutil.copy(ROOT / "CITATION.cff", tmp_path)
    code = "import pathlib; from pages import edition; this = edition.read(pathlib.Path('.'))\n"
    code += "print([this.commit, this.date, this.built])"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert run.stdout.strip() == "['', '', '']", run.stderr


def test_every_pinned_package_has_a_licence_and_says_what_it_is_for():
    found = [package for _, group in about.groups(ROOT / "requirements.txt") for package in group]
    assert len(found) == (ROOT / "requirements.txt").read_text().count("==")
    assert [package.name for package in found if not package.purpose] == []
    silent = [package.name for package in found if about.licence(package.name) in (about.ABSENT, "not named")]
    assert silent == []
    assert about.licence("no-such-package-anywhere") == about.ABSENT


def test_what_lies_beside_the_pages_is_named_on_the_page_of_licences(site):
    page = (ROOT / "book" / "licences.md").read_text().lower()
    vendors = {path.name for path in (site / "_static" / "vendor").iterdir()}
    assert vendors == {"fontawesome"} and "font awesome" in page
    fonts = {path.stem for path in site.rglob("*.woff2") if "vendor" not in path.parts}
    assert fonts == {"STIXTwoMath", "formulas", "primes"} and "stix two math" in page
    for script, name in (("scripts/bootstrap.js", "bootstrap"), ("clipboard.min.js", "clipboard.js")):
        assert (site / "_static" / script).exists() and name in page
    assert (site / "_static" / "reveal" / "reveal.js").exists() and "reveal.js" in page


def test_the_build_prints_versions_times_and_licences(site):
    text = {name: (site / "book" / f"{name}.html").read_text() for name in ("about", "licences")}
    assert edition.read(ROOT).version in text["about"]
    for path in (ROOT / "book" / "results").glob("*.json"):
        assert f">{json.loads(path.read_text())['name']}<" in text["about"], path.name
    tables = [re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL) for row in text["licences"].split("<tr")]
    rows = [[re.sub(r"<[^>]+>", "", cell).strip() for cell in cells[:2]] for cells in tables]
    for line in (ROOT / "requirements.txt").read_text().splitlines():
        if "==" in line:
            name, version = line.split("#")[0].strip().split("==")
            assert [name, version] in rows, name


@pytest.mark.parametrize(
    "address, expected, linked",
    [("", "1", False), ("https://vit.example.org", "", False), ("https://vit.example.org", "1", True)],
)
def test_files_are_linked_only_where_they_are_published(monkeypatch, address, expected, linked):
    monkeypatch.setenv("BOOK_URL", address)
    monkeypatch.setenv("BOOK_DOWNLOADS", expected)
    directive = about.Downloads.__new__(about.Downloads)
    environment = SimpleNamespace(config=SimpleNamespace(vitbook_rename=("OWNER/REPO", "OWNER/REPO")))
    directive.state = SimpleNamespace(document=SimpleNamespace(settings=SimpleNamespace(env=environment)))
    text = directive.text()
    for ending in about.FILES.values():
        assert (f"https://vit.example.org/downloads/{make_epub.NAME}.{ending}" in text) == linked
    assert ("make downloads" in text) != linked and about.NAME == make_epub.NAME
