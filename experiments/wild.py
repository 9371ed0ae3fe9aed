"""What is wrong in public Vision Transformers that were written from scratch, and what vitnb.examine sees of it.

Chapter 16. The models themselves belong to people who learn or teach, and are not in this
repository: VITNB_WILD names a private folder with the sources (DRAW/MODEL/source), what was read
(labels_READER.jsonl, a line a model; loops.jsonl, the training loops by kind) and what examine said
(run_DRAW.jsonl). Only counts leave it. Draw A is what examine was built on; for draw B it was
frozen before any of it was run.
"""

import io
import json
import os
import random
import tokenize
from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path
from statistics import median

from experiments._experiment import Experiment
from experiments._wild import CODES, wilson

THIS = Experiment(
    seeds=[],
    purpose="untrained",
    data=None,
    readers={"A": ["a1"], "B": ["b1", "b2"]},
    runs={"A": "run_A", "B": "run_B_frozen"},
    frozen="1bd84464dc682e0eb541f75302f31029706e5e681bf78b9be6bf937a7f2e7bc0",  # sha256 of vitnb/examine/*.py
    labels="Two language models read each model of draw B, apart from each other, by a written rule (that of "
    "the docstring of vitnb.examine, with a list of kinds), without what examine says; one read draw A. They "
    "agree on which models of draw B have a bug; that is not the agreement of two people, and neither reader is "
    "independent of the other's training.",
)
SHAPES = {"classes", "channels", "batch size", "positions per image"}  # what a test of shapes sees


def run() -> dict:
    folder = Path(os.environ["VITNB_WILD"])
    draws = {name: _Draw(name, folder) for name in THIS.readers}
    return {
        "draws": [draw.summary() for draw in draws.values()],
        "kinds": _kinds(draws.values()),
        "loops": _loops(draws.values(), _lines(folder / "loops.jsonl")),
        "seen": {name: draw.seen() for name, draw in draws.items()},
        "alarms": {name: draw.alarms() for name, draw in draws.items()},
        "agreement": draws["B"].agreement(),
        "labels": THIS.labels,
        "seconds": {name: draw.seconds() for name, draw in draws.items()},
    }


class _Draw:
    def __init__(self, name: str, folder: Path):
        self.name = name
        self.readings = [_lines(folder / f"labels_{reader}.jsonl") for reader in THIS.readers[name]]
        self.said = _lines(folder / f"{THIS.runs[name]}.jsonl")
        self.models = sorted(set.intersection(*(set(reading) for reading in self.readings)))
        self.clusters = _clusters({model: _shingles(folder / name / model) for model in self.models})

    def rows(self, model: str, level: str = "bug", reading: int = 0) -> list[dict]:
        return [row for row in self.readings[reading][model]["rows"] if row["level"] == level]

    def codes(self, model: str, level: str | None = None) -> set[str]:
        findings = self.said.get(model, {}).get("findings", [])
        return {code for at, code, _ in findings if level in (None, at)}

    def runs(self, model: str) -> bool:
        return bool(self.said.get(model, {}).get("findings") is not None) and "runs" not in self.codes(model)

    def wrong(self, reading: int = 0, strict: bool = False) -> list[str]:
        return [m for m in self.models if any(not (strict and row.get("wide")) for row in self.rows(m, "bug", reading))]

    def summary(self) -> dict:
        bug = self.wrong()
        low, high = wilson(len(bug), len(self.models))
        clones = sum(bool(self.readings[0][m].get("clone_of")) for m in self.models)
        crash = [m for m in self.models if self.rows(m, "crash")]
        return {
            "name": self.name,
            "models": len(self.models),
            "clones": clones,
            "bug": len(bug),
            "low": low,
            "high": high,
            "clusters": len(self.clusters),
            "by_cluster": resampled([[model in bug for model in cluster] for cluster in self.clusters]),
            "strict": len(self.wrong(strict=True)),
            "crash": len(crash),
            "bug_or_crash": len({*bug, *crash}),
            "loop": sum(bool(self.rows(m, "loop")) for m in self.models),
            "departs": sum(bool(self.rows(m, "departs")) for m in self.models),
        }

    def seen(self) -> dict:
        """Bugs of models that run, and those of them that a finding names; models with at least one named."""
        rows = [(m, row["kind"]) for m in self.models if self.runs(m) for row in self.rows(m)]
        named = [(m, kind) for m, kind in rows if CODES.get(kind, set()) & self.codes(m)]
        models = {m for m, _ in rows}
        missed = Counter(kind for m, kind in rows if (m, kind) not in named)
        return {
            "of": len(rows),
            "examine": len(named),
            "shapes": sum(kind in SHAPES for _, kind in rows),
            "models": len(models),
            "models_seen": len({m for m, _ in named}),
            "missed": dict(missed.most_common()),
        }

    def alarms(self) -> dict:
        """Models without a bug or a crash in any reading for which examine says that something breaks."""
        clean = [
            m
            for m in self.models
            if self.runs(m)
            and not any(self.rows(m, at, n) for at in ("bug", "crash") for n in range(len(self.readings)))
        ]
        false = Counter(code for m in clean for code in self.codes(m, "breaks"))
        return {"of": len(clean), "n": sum(bool(self.codes(m, "breaks")) for m in clean), "codes": dict(false)}

    def agreement(self) -> dict:
        a, b = ({m for m in self.wrong(n)} for n in (0, 1))
        both = [(m in a, m in b) for m in self.models]
        equal = sum(x == y for x, y in both) / len(both)
        chance = sum(
            (sum(x is v for x, _ in both) / len(both)) * (sum(y is v for _, y in both) / len(both))
            for v in (True, False)
        )
        kinds = [[{row["kind"] for row in self.rows(m, "bug", n)} for m in self.models] for n in (0, 1)]
        common = sum(len(x & y) for x, y in zip(*kinds, strict=True))
        either = sum(len(x | y) for x, y in zip(*kinds, strict=True))
        return {
            "equal": equal,
            "kappa": (equal - chance) / (1 - chance),
            "kinds_common": common,
            "kinds_either": either,
        }

    def seconds(self) -> dict:
        taken = [line["seconds"] for model, line in self.said.items() if self.runs(model)]
        return {"median": median(taken), "worst": max(taken)}


def _kinds(draws) -> list[dict]:
    """How many models have a bug of each kind, by the first reader; kinds of one model alone are told together."""
    models: dict[str, set] = defaultdict(set)
    for draw in draws:
        for model in draw.models:
            for row in draw.rows(model):
                models[row["kind"]].add((draw.name, model))
    several = sorted(((len(found), kind) for kind, found in models.items() if len(found) > 1), reverse=True)
    alone = {model for found in models.values() if len(found) == 1 for model in found}
    return [{"kind": kind, "models": n} for n, kind in several] + [{"kind": "one model each", "models": len(alone)}]


def _loops(draws, read: dict[str, dict]) -> list[dict]:
    """How many models have a training loop in which a reader would change something, by kind."""
    models = Counter(kind for draw in draws for m in draw.models for kind in read.get(m, {"kinds": []})["kinds"])
    return [{"kind": kind, "models": n} for kind, n in models.most_common()]


def _lines(path: Path) -> dict[str, dict]:
    return {line["id"]: line for line in map(json.loads, path.read_text().splitlines())}


def _shingles(model: Path) -> set[tuple[str, ...]]:
    """All runs of eight words of a model's code; comments, strings and spaces are no words."""
    source, files = model / "source", json.loads((model / "meta.json").read_text())["file"].replace(",", " ").split()
    paths = [source / file for file in files if (source / file).is_file()] or sorted(source.rglob("*.py"))
    words = [word for path in paths for word in _words(path.read_text(errors="replace"))]
    return set(zip(*(words[start:] for start in range(8)), strict=False))


def _words(code: str) -> list[str]:
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            found += [token.string] if token.type in (tokenize.NAME, tokenize.OP, tokenize.NUMBER) else []
    except (tokenize.TokenError, SyntaxError):
        pass  # what was read until then
    return found


def _clusters(shingles: dict[str, set]) -> list[set[str]]:
    """Group models of which one has at least half of its code in common with the other, or with one of its group."""
    group = {model: {model} for model in shingles}
    for a, b in combinations(shingles, 2):
        smaller = max(1, min(len(shingles[a]), len(shingles[b])))
        if len(shingles[a] & shingles[b]) >= smaller / 2 and group[a] is not group[b]:
            group[a] |= group[b]
            group |= dict.fromkeys(group[b], group[a])
    return list({id(found): found for found in group.values()}.values())


def resampled(clusters: list[list[bool]], times: int = 10_000) -> list[float]:
    """The 95 % interval of a share when whole clusters are drawn again (bootstrap, seed 0)."""
    draw = random.Random(0)
    shares = []
    for _ in range(times):
        drawn = [one for cluster in draw.choices(clusters, k=len(clusters)) for one in cluster]
        shares.append(sum(drawn) / len(drawn))
    shares.sort()
    return [shares[round(0.025 * times)], shares[round(0.975 * times) - 1]]
