"""A CNN learns Fashion-MNIST for as many seconds as the ViT's longer training took, with a learning rate of its own.

Chapter 10: first both meet four learning rates for two minutes of one core
with another seed, a ViT and a CNN side by side. What an image took there says
how many epochs of the CNN fit into the time of the ViT's forty. Then the CNN
trains as the ViT did, but with AdamW alone; with the first seed with and without
erasing, and on with what does better on the validation images.
"""

from dataclasses import replace

from experiments._budget import Arm, steps_within, trained_for, two_at_a_time
from experiments._experiment import Experiment
from experiments._models import CNN, LONGER, fast_vit
from experiments._trials import tried_run, whole_run, whole_runs
from vitnb.training import Recipe

MODELS = {"ViT": (fast_vit, LONGER), "CNN": (CNN, replace(LONGER, optimizer="adamw"))}  # Muon is for blocks
THIS = Experiment(
    seeds=[0, 1, 2],
    purpose="choice",
    side_by_side=2,
    reported_on="test",
    recipe=MODELS["CNN"][1],
    rates={"ViT": [1e-3, 3e-3, 1e-2, 3e-2], "CNN": [3e-3, 1e-2, 3e-2, 1e-1]},
    tuned_with=100,  # the seed of the runs that choose a learning rate
    tuned_for=120,  # seconds
    erased=[0.0, LONGER.erase],
)


def run() -> dict:
    steps = steps_within(THIS.tuned_for, "longer_cnn", {model: Arm(*arm) for model, arm in MODELS.items()})
    cases = [(model, THIS.rates[model][n]) for n in range(4) for model in MODELS]
    tries = {(model, lr): Arm(MODELS[model][0], replace(MODELS[model][1], lr=lr)) for model, lr in cases}
    found = trained_for({case: steps[case[0]] for case in cases}, "longer_cnn-rates", tries, [THIS.tuned_with])
    runs_of = {model: {lr: found[model, lr][0] for lr in THIS.rates[model]} for model in MODELS}
    rates = {model: {lr: run["validation_accuracy"] for lr, run in runs_of[model].items()} for model in MODELS}
    pace = {model: seconds_a_thousand([*runs_of[model].values()]) for model in MODELS}
    lr = max(rates["CNN"], key=rates["CNN"].get)
    epochs = round(LONGER.epochs * pace["ViT"] / pace["CNN"])
    recipe = replace(MODELS["CNN"][1], epochs=epochs, lr=lr)
    erased = dict(
        zip(THIS.erased, two_at_a_time(tried, [replace(recipe, erase=erase) for erase in THIS.erased]), strict=True)
    )
    recipe = replace(recipe, erase=max(THIS.erased, key=lambda erase: erased[erase]["validation_accuracy"]))
    runs = two_at_a_time(one, [replace(recipe, seed=seed) for seed in THIS.seeds])
    chosen = {"lr": lr, "erase": recipe.erase, "epochs": epochs}
    return {"steps": steps, "rates": rates, "seconds_a_thousand": pace, "erased": erased} | chosen | whole_runs(runs)


def seconds_a_thousand(runs: list[dict]) -> float:
    """Seconds of processor time for a thousand training images."""
    return round(1000 * sum(run["seconds"] for run in runs) / sum(run["images"] for run in runs), 4)


def tried(recipe: Recipe) -> dict:
    return tried_run(label(recipe), CNN, recipe)


def one(recipe: Recipe) -> dict:
    return whole_run(label(recipe), CNN, recipe)  # goes on from what was tried


def label(recipe: Recipe) -> str:
    return f"longer_cnn-erase{round(100 * recipe.erase)}"
