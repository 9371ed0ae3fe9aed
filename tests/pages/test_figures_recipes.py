"""RecipeExplorer: in Python, and in the page of chapter 10 against numpy on the stored runs."""

import copy
import math
import re

import numpy as np
import pytest
from playwright.sync_api import expect
from scipy import stats

from tests.pages.driver import assert_fits_a_phone, read_line, refuses, survives
from vitbook import results
from vitbook.figures import RecipeExplorer
from vitnb.evaluation import interval

PAGE = "book/10-recipes.html"
CURVES = ("losses", "train_accuracy_by_epoch", "validation_accuracy_by_epoch")


@pytest.fixture(scope="module")
def stored():
    return results.result("recipes")


def made_up():
    """A record of two recipes and three seeds."""
    accuracies = {"the recipe": (0.5, 0.6, 0.7), "other": (0.6, 0.65, 0.9)}
    runs = {
        name: [
            {"seed": s, "validation_accuracy": a, "steps": 5, "losses": [2.0, 1.5 + a, 1.0 + s]}
            | {"train_accuracy_by_epoch": [0.1, a], "validation_accuracy_by_epoch": [0.2, a]}
            for s, a in enumerate(values)
        ]
        for name, values in accuracies.items()
    }
    return {"result": {"runs": runs}}


def changed(change):
    """The made-up record after change(its runs)."""
    record = copy.deepcopy(made_up())
    change(record["result"]["runs"])
    return record


def finals(stored, arm):
    return np.array([run["validation_accuracy"] for run in stored["result"]["runs"][arm]])


# ---- Python


def test_recipe_explorer_carries_the_runs(stored):
    explorer, runs = RecipeExplorer(stored), stored["result"]["runs"]
    assert explorer.arms == list(runs)
    for trait, key in zip(("losses", "train", "validation"), CURVES, strict=True):
        values = [v for arm in runs.values() for run in arm for v in run[key]]
        assert getattr(explorer, trait) == np.array(values, np.float32).tobytes()
    np.testing.assert_allclose(explorer.accuracies(), [finals(stored, arm) for arm in runs], atol=1e-6)


def test_still_image_shows_what_was_chosen(stored):
    explorer = RecipeExplorer(made_up())
    xs, losses = explorer._curves(1)
    assert xs.tolist() == [1, 3, 4.5]  # means of 2, 2 and 1 steps
    np.testing.assert_allclose(losses[2], [2, 2.4, 3])
    explorer.view = 2
    assert explorer._curves(1)[1].round(3).tolist() == [[20, 60], [20, 65], [20, 90]]
    whole = RecipeExplorer(stored, change=len(stored["result"]["runs"]) - 1, view=1)
    assert whole._curves(whole.change)[1].shape == (whole.seeds, whole.epochs)


def set_run(key, value):
    return lambda runs: runs["other"][1].update({key: value})


test_bad_input_is_refused_with_words = refuses(
    (lambda: RecipeExplorer("recipes"), TypeError, ["record", "str", "results.result('recipes')"]),
    (lambda: RecipeExplorer({"a": 1}), ValueError, ["record", "['a']", "results.result"]),
    (lambda: RecipeExplorer(changed(lambda r: r.pop("other"))), ValueError, ["record", "the recipe", "change"]),
    (lambda: RecipeExplorer(changed(lambda r: r.update(other=3))), TypeError, ["'other'", "int", "results"]),
    (lambda: RecipeExplorer(changed(lambda r: r["other"].pop())), ValueError, ["[0, 1]", "[0, 1, 2]"]),
    (
        lambda: RecipeExplorer(changed(lambda r: r["other"][0].pop("steps"))),
        ValueError,
        ["'steps'", "results.result"],
    ),
    (lambda: RecipeExplorer(changed(set_run("losses", [1.0, math.nan, 1.0]))), ValueError, ["nan", "finite"]),
    (lambda: RecipeExplorer(changed(set_run("losses", [1.0]))), ValueError, ["seed 1", "[1, 2, 2]", "[3, 2, 2]"]),
    (lambda: RecipeExplorer(changed(set_run("validation_accuracy", 82.0))), ValueError, ["82.0", "0.8"]),
    (lambda: RecipeExplorer(made_up(), change="1"), TypeError, ["change", "'1'"]),
    (lambda: RecipeExplorer(made_up(), change=-1), ValueError, ["change", "-1", "use 0"]),
    (lambda: RecipeExplorer(made_up(), change=2), ValueError, ["change", "2", "use 0"]),
    (lambda: setattr(RecipeExplorer(made_up()), "view", 3), ValueError, ["view", "3", "use 0"]),
)


# ---- the page


def reach(values):
    """Half the width of the 95 % interval, as the book's own function computes it."""
    return interval(values)[1].item()


def assert_numbers(figure, stored, arm, view):
    """What the figure says of a change is what numpy says."""
    base, other = finals(stored, "the recipe"), finals(stored, arm)
    gaps = 100 * (other - base)
    says = figure.get_by_role("status")
    side = "less" if gaps.mean() < 0 else "more"
    reached = f"{100 * other.mean():.2f}\u00a0%"
    expect(says).to_contain_text(f"{arm}: {reached} of all validation images classified correctly")
    told = f"{abs(gaps.mean()):.2f} points {side} than the recipe (95 % interval ± {reach(gaps):.2f})"
    expect(says).to_contain_text(told)
    chance = stats.ttest_1samp(gaps, 0).pvalue > 0.05
    expect(says).to_contain_text("which may be chance" if chance else "more than chance gives 1 time in 20")
    facts = figure.locator("dl").inner_text()
    assert f"n = {len(base)} seeds" in figure.inner_text()
    for values in (base, other):
        assert f"{100 * values.mean():.2f}\u00a0% ± {reach(100 * values):.2f}" in facts
    assert f"{gaps.mean():+.2f} points ± {reach(gaps):.2f}".replace("-", "−") in facts
    label = figure.get_by_role("img").get_attribute("aria-label")
    for name in ("the recipe", arm):
        ends = np.array([run[CURVES[view]][-1] for run in stored["result"]["runs"][name]]) * (100 if view else 1)
        unit = " %" if view else ""
        found = re.search(rf"{re.escape(name)} ends at ([\d.]+){unit} \(([\d.]+) to ([\d.]+)\)", label)
        shown = [float(value) for value in found.groups()]
        np.testing.assert_allclose(shown, [ends.mean(), ends.min(), ends.max()], atol=0.0050001)
        assert_line(figure, stored["result"]["runs"][name], name, view)


def assert_line(figure, runs, name, view):
    """What one reads off the axes is what is stored."""
    values = np.array([run[CURVES[view]] for run in runs]) * (100 if view else 1)  # (seeds, P)
    drawn = read_line(figure.locator(".vf-axes"), name)
    reach = np.ptp(values)
    for found, expected in ((drawn.ys, values.mean(0)), (drawn.low, values.min(0)), (drawn.high, values.max(0))):
        np.testing.assert_allclose(found, expected, atol=1e-3 * reach)
    steps, width = runs[0]["steps"], math.ceil(runs[0]["steps"] / values.shape[1])
    starts = np.arange(0, steps, width)
    xs = np.arange(1, values.shape[1] + 1) if view else (starts + np.minimum(starts + width, steps)) / 2
    np.testing.assert_allclose(drawn.xs, xs, atol=1e-3 * np.ptp(xs))


def test_by_mouse_and_key_it_says_what_numpy_says(live, stored):
    figure, page, watch = live(PAGE, from_file=True)
    arms = list(stored["result"]["runs"])[1:]
    said = f"{100 * finals(stored, 'the recipe').mean():.2f}\u00a0%"
    says = figure.get_by_role("status")
    expect(says).to_have_text(
        f"the recipe: {said} of all validation images classified correctly at the end. "
        "Shown: validation accuracy by epoch."
    )
    [fact] = figure.locator("dd").all_inner_texts()  # the same number, and no other
    assert fact.startswith(f"{said} ± ") and figure.locator("[data-line]").count() == 1
    assert_line(figure, stored["result"]["runs"]["the recipe"], "the recipe", 2)
    figure.get_by_role("radio", name="rate × 10").click()
    assert_numbers(figure, stored, "rate × 10", 2)
    figure.get_by_role("radio", name="loss by step").click()
    for arm in arms:
        figure.get_by_role("radio", name=arm, exact=True).click()
        assert_numbers(figure, stored, arm, 0)
    page.keyboard.press("ArrowUp")
    assert_numbers(figure, stored, arms[-2], 0)
    for view, name in enumerate(("training accuracy by epoch", "validation accuracy by epoch"), start=1):
        figure.get_by_role("radio", name=name).click()
        expect(figure.get_by_role("status")).to_contain_text(f"Shown: {name}")
        assert_numbers(figure, stored, arms[-2], view)
    page.keyboard.press("ArrowLeft")
    expect(figure.get_by_role("status")).to_contain_text("Shown: training accuracy by epoch")
    watch.assert_clean()


def test_by_touch_on_a_phone(live, stored):
    figure, page, watch = live(PAGE, width=390, touch=True, dark=True)
    figure.get_by_text("label smoothing 0.1", exact=True).first.tap()
    assert_numbers(figure, stored, "label smoothing 0.1", 2)
    figure.get_by_text("loss by step", exact=True).tap()
    expect(figure.get_by_role("status")).to_contain_text("Shown: loss by step")
    assert_fits_a_phone(figure, page, watch)


GARBAGE = {
    "there is no change 99": (r'"change": 0', '"change": 99'),
    "there is no view": (r'"view": 2', '"view": null'),
    "seeds are too few": (r'"seeds": 5', '"seeds": 1'),
    "its train should take": (r'"epochs": 6', '"epochs": 7'),
}
test_garbage_becomes_a_message_and_the_page_goes_on = survives(PAGE, GARBAGE)
