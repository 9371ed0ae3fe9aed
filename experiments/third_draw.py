"""What vitnb.examine says of a third draw of public Vision Transformers, read twice before it was asked.

Chapter 16. Other repositories than in draws A and B: 281 names that say ViT but not "from scratch",
shuffled once, the first 44 that hold a classifier with attention of its own. VITNB_WILD names a private folder with
what two readers said (labels_1.csv, labels_2.csv: file, verdict, kinds, strict) and what examine, frozen
before, said of small builds (run.jsonl). Only counts leave it.
"""

import csv
import json
import os
from collections import Counter
from pathlib import Path
from statistics import median

from experiments._experiment import Experiment
from experiments._wild import CODES, wilson

THIS = Experiment(
    seeds=[],
    purpose="untrained",
    data=None,
    frozen="6581829d28cfebfd03a25cafb8ad4b3417f4922f8db5f2d7025abecf6ee4ccf3",  # sha256 of vitnb/examine/*.py
    labels="Two language models read each model, apart from each other, by the rule of the docstring of vitnb.examine "
    "and a list of kinds, without what examine says. They agree on all verdicts, which is not the agreement of people.",
)


def run() -> dict:
    folder = Path(os.environ["VITNB_WILD"])
    one, two = (_labels(folder / f"labels_{n}.csv") for n in (1, 2))
    said = {line["name"]: line for line in map(json.loads, (folder / "run.jsonl").read_text().splitlines())}
    alike = [name for name in one if one[name]["verdict"] == two[name]["verdict"]]
    verdicts = {v: [name for name in alike if one[name]["verdict"] == v] for v in ("bug", "right", "crash")}
    codes = {name: {code for _, code, _ in line.get("findings", [])} for name, line in said.items()}
    breaks = {name: [code for at, code, _ in line.get("findings", []) if at == "breaks"] for name, line in said.items()}
    named = [
        name
        for name in verdicts["bug"]
        if any(CODES.get(kind, set()) & codes[name] for kind in one[name]["kinds"] | two[name]["kinds"])
    ]
    bugs = [(name, kind) for name in verdicts["bug"] for kind in one[name]["kinds"]]  # by the first reader
    seconds = [line["seconds"] for line in said.values()]
    return {
        "models": len(one),
        "agreed": len(alike),
        "verdicts": {verdict: len(names) for verdict, names in verdicts.items()},
        "share": wilson(len(verdicts["bug"]), len(one)),
        "strict": sum(one[name]["strict"] != "no" for name in verdicts["bug"]),
        "named": len(named),
        "named_share": wilson(len(named), len(verdicts["bug"])),
        "bugs": len(bugs),
        "bugs_named": sum(bool(CODES.get(kind, set()) & codes[name]) for name, kind in bugs),
        "missed": dict(Counter(min(one[n]["kinds"]) for n in verdicts["bug"] if n not in named)),
        "alarms": sum(bool(breaks[name]) for name in verdicts["right"]),
        "seconds": {"median": median(seconds), "worst": max(seconds)},
    }


def _labels(path: Path) -> dict[str, dict]:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file, skipinitialspace=True))
    return {
        row["file"].removesuffix(".py"): {
            "verdict": row["verdict"].strip(),
            "kinds": {kind.strip() for kind in row["kind"].split(";")} - {""},
            "strict": row["strict"].strip(),
        }
        for row in rows
    }
