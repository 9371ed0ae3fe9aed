"""The search: what learners type, and the sections that they are to find."""

import re

import pytest
from playwright.sync_api import expect

from pages.search import sections
from tests.pages.driver import assert_sound, turn_the_theme

# What is typed -> the sections that answer it, one of which has to be among the first three.
ASKED = {
    "why divide by sqrt d": "03-attention#the-division-keep-the-scores-small",
    "cls token": "glossary#term-cls-token 07-cls-token#second-attempt-a-token-that-chooses",
    "patch size": "01-patchify#the-class 01-patchify#exercise-1-4-which-patch-side-is-best",
    "layer norm before or after": "05-pre-norm-post-norm#where-does-the-norm-go",
    "what is a head": "04-heads#heads 04-heads#second-attempt-a-row-for-each-question",
    "positional embedding interpolation": "02-positions#what-if-the-image-grows",
    "LoRA": "15-pretrained#step-5-lora-a-little-beside-the-weights",
    "onnx": "15-pretrained#how-do-i-take-it-elsewhere",
    "my loss is nan": "api#vitnb.training.fit",
    "warmup": "glossary#term-warm-up 09-training#why-warm-up-decay-and-clip",
    "register tokens": "14-beyond#registers-tokens-that-stand-for-nothing",
    "attention map": "glossary#term-attention-map",
    "gelu": "05-pre-norm-post-norm#why-gelu-and-not-relu",
    "learning rate too high": "10-recipes#ten-changes 15-pretrained#step-4-fine-tune-all-weights",
    "how many parameters": "08-vit#what-does-a-count-of-parameters-prove glossary#term-parameter-count",
    "overfitting few images": "09-training#first-overfit-sixteen-images",
    "swin": "14-beyond#what-changes-outside-the-block 14-beyond#exercise-14-2-who-may-attend-after-the-roll",
    "dino": "14-beyond#what-changes-outside-the-block 14-beyond#why-does-a-self-teacher-not-collapse",
    "residual connection": "glossary#term-residual-connection 05-pre-norm-post-norm#why-add-instead-of-replace",
    "batch_first": "04-heads#what-does-the-shuffle-miss 16-in-the-wild#the-model-that-never-looks",
    "softmax axis": "03-attention#over-which-axis-does-the-softmax-run",
    "fine-tune": "15-pretrained#step-4-fine-tune-all-weights",
    "segmentation": "15-pretrained#can-it-segment-a-photo-with-ten-labels",
    "bfloat16": "13-scale#which-numbers-survive-16-bits",
    "gradient clipping": "09-training#why-warm-up-decay-and-clip",
    "label smoothing": "10-recipes#more-images-and-a-second-change",
    "mean pooling": "glossary#term-mean-pooling 07-cls-token#first-attempt-the-mean",
    "seed": "glossary#term-seed 09-training#would-it-happen-again",
}
RESULTS = "#search-results li"


def test_a_learner_finds_the_section_among_the_first_three(visit, site):
    page, watch = visit("search.html", from_file=True)
    field, missed = page.locator(".bd-search-container input"), {}
    for asked, right in ASKED.items():
        field.fill(asked)
        links = [link.get_attribute("href") for link in page.locator(f"{RESULTS} > a").all()[:3]]
        answers = {f"book/{answer.replace('#', '.html#')}" for answer in right.split()}
        for answer in answers:
            path, anchor = answer.split("#")
            assert f'id="{anchor}"' in (site / path).read_text(), answer
        if not answers & set(links):
            missed[asked] = links
    assert missed == {}
    watch.assert_clean()


@pytest.mark.parametrize("width", [1200, 390])
def test_a_result_names_chapter_and_section_with_the_sentence(visit, width):
    page, watch = visit("search.html?q=residual+stream", width=width)
    assert page.locator(".bd-search-container input").input_value() == "residual stream"
    first = page.locator(RESULTS).first
    expect(first.locator("a")).to_have_text("Glossary › residual stream")
    assert {mark.lower() for mark in page.locator(f"{RESULTS} mark").all_inner_texts()} >= {"residual", "stream"}
    others = page.locator(f"{RESULTS} > a").all_inner_texts()
    assert sum(bool(re.match(r"\d+\. .+ › .+", text)) for text in others) > 5
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert_sound(page, ".bd-search-container")
    turn_the_theme(page)
    assert_sound(page, ".bd-search-container", colours_only=True)
    page.locator(".bd-search-container input").fill("zzzz")
    expect(page.locator("#search-results [role=status]")).to_have_text("No section has these words.")
    watch.assert_clean()


def test_what_is_folded_or_printed_is_not_found():
    page = """<article><section id="a"><h1>1. Heads<a class="headerlink" href="#a">#</a></h1><p>One
      <em>visible</em> word: <math><msqrt><mi>d</mi></msqrt></math>.</p>
      <details class="hide"><summary>Show</summary><pre>folded</pre></details>
      <div class="cell_input"><pre>seen = 1\nmore</pre></div><div class="cell_output"><pre>printed</pre></div>
      <section id="b"><h2>Below</h2><p>Its text.</p><dl><dt id="term-x">x</dt><dd><p>A letter.</p></dd></dl>
      </section></section></article>"""
    assert sections(page) == [
        ["a", "1. Heads", "One visible word: √d.\n\tseen = 1\n\tmore"],
        ["b", "Below", "Its text."],
        ["term-x", "x", "A letter."],
    ]


def test_the_index_holds_each_section_and_no_folded_code(site):
    index = (site / "sections.js").read_text()
    assert "Setup on Colab" not in index and "the-division-keep-the-scores-small" in index
    assert len(index) < 1_000_000
    assert not (site / "searchindex.js").exists()
