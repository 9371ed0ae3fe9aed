"""TrainRace: in Python, and in a page where two models learn, with no network, by mouse, key and touch."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.pages import small_book
from tests.pages.driver import assert_fits_a_phone, assert_sound, node, read_line, refuses, survives
from vitbook import faults
from vitbook.figures import TrainRace
from vitbook.figures._train_data import CONFIGS
from vitbook.figures.six_race import SIX_CURVES
from vitbook.figures.train_race import CHANGES, POSITIONS
from vitnb import ViT, data

PAGE = "book/short.html"
STEPS = 40


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small book of races: of 40 steps, of 400, and one with a choice of images."""
    races = {"short": TrainRace(steps=STEPS), "long": TrainRace()}
    if data.load("fashion_mnist").name == "fashion_mnist":
        races["both"] = TrainRace(["digits", "fashion_mnist"], steps=STEPS)
    return small_book.build(tmp_path_factory.mktemp("races"), races)


# ---- Python


def test_its_faults_are_the_clinics_of_every_family_and_put_out_every_light():
    chosen = [faults.FAULTS[name] for name in CHANGES]
    assert {fault.family for fault in chosen} == set(faults.FAMILIES)
    assert set().union(*(fault.seen_by or () for fault in chosen)) == set(faults.TESTS)


def test_the_page_can_train_the_faults_that_can_be_chosen_and_no_others():
    script = 'import("./vitbook/figures/faults.js").then(({ FAULTS }) => console.log(Object.keys(FAULTS).join()))'
    assert set(node("-e", script).strip().split(",")) == {*CHANGES, *SIX_CURVES.values()} - {"right"}


def test_it_has_an_image_for_all_positions():
    race = TrainRace()
    for race.positions in POSITIONS:
        assert race.still()


test_bad_input_is_refused_with_words = refuses(
    (lambda: TrainRace(fault="typo"), ValueError, ["fault", "'typo'", "'split by view'"]),
    (lambda: TrainRace(fault="no norms"), ValueError, ["fault", "'no norms'", "'post norm'"]),
    (lambda: TrainRace(positions="sincos"), ValueError, ["positions", "'sincos'", "'std 1'"]),
    (lambda: TrainRace("cifar"), ValueError, ["dataset", "'cifar'", "'digits'"]),
    (lambda: TrainRace([]), ValueError, ["dataset", "digits"]),
    (lambda: TrainRace(seed=10), ValueError, ["seed", "10", "use 0"]),
    (lambda: TrainRace(steps=0), ValueError, ["steps", "at least 1", "0"]),
    (lambda: TrainRace(steps=9999), ValueError, ["steps", "at most 2000", "9999"]),
    (lambda: setattr(TrainRace(), "dataset", "fashion_mnist"), ValueError, ["dataset", "'digits'"]),
    (lambda: setattr(TrainRace(), "bet", "me"), ValueError, ["bet", "'me'", "'yours'"]),
)


# ---- The page


def choose(figure: Locator, fault: str) -> None:
    """Choose a fault by its name."""
    figure.get_by_label("Your model").select_option(str(CHANGES.index(fault)))


def press_train(figure: Locator, bet: str = "yours") -> None:
    figure.get_by_role("radio", name=bet, exact=True).click()
    figure.get_by_role("button", name="Train", exact=True).click()


def verdict(figure: Locator) -> str:
    """What the figure says at the end of a race."""
    says = figure.get_by_role("status").first
    expect(says).to_contain_text(re.compile("After .* steps"), timeout=240_000)
    return says.inner_text()


def curves(figure: Locator) -> list[list[float]]:
    """Accuracy and loss by step of both models, as a reader reads them off."""
    plots = figure.locator(".tr-curves .vf-axes").all()
    return [read_line(plot, name).ys.tolist() for plot in plots for name in ("right", "yours")]


def lights(figure: Locator) -> dict[str, str]:
    """What the figure says of each test."""
    lines = figure.locator("[data-light]").all()
    return {line.get_attribute("data-light"): line.get_attribute("data-state") for line in lines}


def accuracies(text: str) -> tuple[float, float]:
    """Of the right model and of yours, in per cent, as a sentence or a row says them."""
    right, its = re.findall(r"([\d.]+)\u00a0%", text)
    return float(right), float(its)


def ahead(right: float, its: float) -> str:
    return "about equal" if abs(its - right) < 1.99 else "yours" if its > right else "the right model"


def test_two_models_learn_again_and_again_and_each_bet_is_judged(live):
    figure, _, watch = live(PAGE, from_file=True)
    train = figure.get_by_role("button", name="Train", exact=True)
    expect(train).to_be_disabled()  # the bet comes first
    expect(figure.get_by_role("status")).to_have_text("Bet first, then train.")
    press_train(figure)
    said = verdict(figure)
    accuracy, its_accuracy, loss, its_loss = curves(figure)
    assert len(loss) == len(its_loss) == STEPS
    assert its_loss[-1] < 0.8 * its_loss[0] and loss[0] == pytest.approx(its_loss[0], abs=0.3)
    shares = accuracies(said)
    assert shares == pytest.approx((accuracy[-1], its_accuracy[-1]), abs=0.5)
    assert its_accuracy[-1] > 40 > its_accuracy[0]
    assert ("Your bet was right" in said) == (ahead(*shares) == "yours")
    assert "reference" in said  # the test that fails
    row = figure.locator("tbody tr")
    expect(row).to_contain_text("splits its heads with view alone")
    expect(row).to_contain_text("standard deviation 0.02")  # as the control says it
    assert accuracies(row.inner_text()) == shares
    assert ("✓" in row.inner_text()) == ("Your bet was right" in said)
    expect(figure.locator(".tr-forming figure")).to_have_count(4)
    assert figure.locator(".tr-forming rect").count() == 2 * (16 + 256)

    drawn = curves(figure)  # the same seed gives the same curves, and another contest asks for another bet
    train.click()
    expect(figure.locator("tbody tr")).to_have_count(2, timeout=240_000)
    assert verdict(figure) == said and curves(figure) == drawn
    figure.get_by_label("Seed").select_option("1")
    expect(figure.get_by_role("radio", name="yours", exact=True)).not_to_be_checked()
    expect(train).to_be_disabled()
    press_train(figure, "the right model")
    other = verdict(figure)
    assert curves(figure) != drawn
    assert ("Your bet was right" in other) == (ahead(*accuracies(other)) == "the right model")
    watch.assert_clean()


def test_the_lights_are_the_clinics_before_any_training(live):
    figure, _, watch = live(PAGE)
    for fault in ("split by view", "unused positions", "softmax inside", "last read first", "not shuffled"):
        choose(figure, fault)
        expect(figure.locator(".tr-changed")).to_contain_text(faults.FAULTS[fault].symptom.split(":")[0].split(",")[0])
        in_a_model = faults.FAULTS[fault].seen_by is not None
        model = faults.build(fault, CONFIGS["digits"]) if in_a_model else ViT(CONFIGS["digits"])
        expected = {name: "passes" if test(model) else "fails" for name, test in faults.TESTS.items()}
        dark = [name for name, state in expected.items() if state == "fails"]
        count = f"{len(dark)} of 6 fail" if dark else "all pass"
        expect(figure.get_by_text(count)).to_be_visible()
        assert lights(figure) == expected
        for name in dark:
            expect(figure.locator(f"[data-light={name}]")).to_contain_text(re.compile(f"✗{name} fails"))
    figure.get_by_role("radio", name="none", exact=True).click()
    expect(figure.locator("[data-light=order]")).to_contain_text("not asked without positions")
    watch.assert_clean()


def test_stop_stops_and_a_hidden_page_waits(live):
    figure, page, watch = live("book/long.html")
    assert_sound(page)
    step = figure.locator("dl dd").first
    press_train(figure)
    expect(step).not_to_have_text("0 of 400")
    page.evaluate("Object.defineProperty(document, 'hidden', { configurable: true, value: true })")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_timeout(1500)
    before = step.inner_text()
    page.wait_for_timeout(1500)
    assert step.inner_text() == before
    expect(figure.locator(".tr-forming rect").first).to_be_visible()
    assert_sound(page)  # in the middle of a race
    page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    expect(step).not_to_have_text(before)
    figure.get_by_role("button", name="Stop").click()
    expect(figure.get_by_role("status")).to_have_text("Stopped before the end: no verdict.")
    stopped, drawn = step.inner_text(), curves(figure)
    page.wait_for_timeout(1500)
    assert step.inner_text() == stopped != "400 of 400" and curves(figure) == drawn
    assert figure.locator("tbody tr").count() == 0
    watch.assert_clean()


def test_digits_are_learned_in_the_page_by_keyboard_alone(live):
    figure, page, watch = live("book/long.html")
    figure.get_by_label("Your model").focus()
    page.keyboard.press("ArrowDown")
    expect(figure.locator(".tr-changed")).to_contain_text("merges its heads without the transpose")
    page.keyboard.press("ArrowUp")
    expect(figure.locator(".tr-changed")).to_contain_text("splits its heads with view alone")
    for _ in range(3):  # seed, positions, bet
        page.keyboard.press("Tab")
    page.keyboard.press("Space")
    expect(figure.get_by_role("radio", name="yours", exact=True)).to_be_checked()
    expect(figure.get_by_role("button", name="Train", exact=True)).to_be_enabled()  # else the key would pass it by
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(figure.get_by_role("button", name="Stop")).to_be_focused()
    right, its = accuracies(verdict(figure))
    expect(figure.get_by_role("button", name="Train", exact=True)).to_be_focused()
    accuracy, its_accuracy, *_ = curves(figure)
    half = len(accuracy) // 2  # after 200 steps
    print(f"\ndigits: after 200 steps right {accuracy[half]:.1f} %, split by view {its_accuracy[half]:.1f} %")
    print(f"after 400 steps {right} % and {its} %; {figure.locator('dl').inner_text()}")
    assert max(accuracy[half], its_accuracy[half]) > 80 and right > 80 and its > 90
    watch.assert_clean()


def test_the_right_model_opens_in_livevit(live):
    figure, page, watch = live(PAGE)
    choose(figure, "gradient not cleared")
    press_train(figure, "the right model")
    assert "No test of the model fails: the fault is in the training loop." in verdict(figure)
    for name in ("the right model", "yours"):
        figure.get_by_role("button", name=f"Open {name} in LiveViT").click()
        expect(figure.get_by_text(re.compile(f"{name}, as it has just learned", re.IGNORECASE))).to_be_focused()
        inner = figure.locator(".lv")
        expect(inner.get_by_role("status")).to_contain_text("The network says")
        said = inner.get_by_role("status").inner_text()
        inner.locator(".lv-shelf button").nth(3).click()
        expect(inner.get_by_role("status")).not_to_have_text(said)
    figure.get_by_label("Seed").select_option("2")
    expect(figure.locator(".lv")).to_have_count(0)  # it was another contest's
    watch.assert_clean()


def test_images_by_choice(live, site):
    if not (site / "book" / "both.html").exists():
        pytest.skip("no Fashion-MNIST on this machine")
    figure, _, watch = live("book/both.html")
    figure.get_by_role("radio", name="Fashion-MNIST").click()
    press_train(figure)
    assert max(accuracies(verdict(figure))) > 20
    watch.assert_clean()


def test_by_touch_on_a_phone(live):
    figure, page, watch = live(PAGE, width=390, touch=True, dark=True)
    plots = figure.locator(".tr-curves")
    expect(figure.locator("[data-state=fails] span")).to_be_visible()
    assert not any(words.is_visible() for words in figure.locator("[data-state=passes] span").all())
    expect(plots).to_be_hidden()  # no empty axes before a race
    assert figure.bounding_box()["height"] < 844  # one screen
    figure.get_by_text("yours", exact=True).first.tap()
    figure.get_by_role("button", name="Train", exact=True).tap()
    verdict(figure)
    expect(plots).to_be_visible()
    assert_fits_a_phone(figure, page, watch)


GARBAGE = {
    "it has no fault typo": (r'"fault": "split by view"', '"fault": "typo"'),
    "it has no positions 7": (r'"positions": "learned"', '"positions": 7'),
    "its seed is -1": (r'"seed": 0', '"seed": -1'),
    "it has null steps": (rf'"steps": {STEPS}', '"steps": null'),
    "it has no images cifar": (r'"dataset": "digits"', '"dataset": "cifar"'),
    "This browser cannot train: Uncaught Error: no SIMD": (r"const PATIENCE = 100;", "throw Error('no SIMD');"),
}
test_garbage_becomes_a_message_and_the_page_goes_on = survives(PAGE, GARBAGE)
