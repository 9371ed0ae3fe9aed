"""Run experiments and store their results with where they come from."""

import argparse
import importlib
import json
import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import vitnb
from experiments import RESULTS, ROOT
from experiments._clock import clock, clock_file, kept
from vitnb._files import replacing
from vitnb._validate import switched_on


def names() -> list[str]:
    """Every script of this folder; what they share has an underscore."""
    return sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))


def result_path(name: str) -> Path:
    return RESULTS / f"{name}.json"


def missing() -> list[str]:
    """Results that are not there and that this machine can make."""
    absent = [name for name in names() if not result_path(name).exists()]
    return absent if torch.cuda.is_available() else [name for name in absent if not needs_gpu(name)]


def needs_gpu(name: str) -> bool:
    return importlib.import_module(f"experiments.{name}").THIS.device == "cuda"


def measure(name: str) -> dict[str, Any]:
    """Run one experiment and say what made the result: which code, when, on what, and how long it took.

    A run that went on from checkpoints reports the seconds of all its starts.
    """
    module = importlib.import_module(f"experiments.{name}")
    code, resumed = source(), bool(kept(name))
    if module.THIS.torch_threads:
        torch.set_num_threads(module.THIS.torch_threads)
    with clock(name) as seconds:
        result = module.run()
    return {
        "name": name,
        "claim": module.__doc__.strip().split("\n")[0],
        "command": f"python -m experiments {name}",
        **code,
        "date": datetime.now(UTC).date().isoformat(),
        "config": module.THIS.config(),
        "seeds": module.THIS.seeds,
        "seconds": round(seconds(), 1),
        "resumed": resumed,
        "device": f"{module.THIS.device} ({platform.machine()}, {os.cpu_count()} cores)",
        "processor": processor(),
        "gpu": torch.cuda.get_device_name() if needs_gpu(name) and torch.cuda.is_available() else None,
        "threads": torch.get_num_threads(),
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "vitnb": vitnb.__version__},
        "result": result,
    }


def source() -> dict[str, Any]:
    """The commit, and which files of the code were not as it has them; None outside the book's own repository."""

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "--no-optional-locks", *words], cwd=ROOT, check=True, capture_output=True, text=True
        )
        return done.stdout.rstrip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != ROOT.resolve():  # a copy inside another repository
            return {"commit": None, "changed_since": None}
        code = "vitnb/*.py", "vitbook/*.py", "experiments/*.py"
        status = git("status", "--porcelain", "--no-renames", "--untracked-files=all", "--", *code)
        changed = status.splitlines()
        return {"commit": git("rev-parse", "HEAD"), "changed_since": [line[3:] for line in changed]}
    except (OSError, subprocess.CalledProcessError):
        return {"commit": None, "changed_since": None}


def processor() -> str:
    """The processor's model, as it calls itself, and what torch uses of it: one name may stand for several."""
    known = Path("/proc/cpuinfo")
    named = re.search(r"^model name\s*:\s*(.+)$", known.read_text(), re.MULTILINE) if known.exists() else None
    model = named[1].strip() if named else platform.processor() or platform.machine()
    return f"{model}, {torch.backends.cpu.get_cpu_capability()}"


def store(record: dict[str, Any], path: Path) -> None:
    """Write a result; the old one stays until the new one is complete."""
    text = json.dumps(record, indent=1, allow_nan=False)
    text = re.sub(r"\[[\d\s.,eE+-]*\]", lambda m: " ".join(m[0][1:-1].split()).join("[]"), text)  # a list, a line
    with replacing(path) as part:
        part.write_text(text + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(names())}")
    chosen = parser.parse_args().names
    for name in chosen:
        if name not in names():
            parser.error(f"no experiment {name!r}: use one of {', '.join(names())}")
    for name in chosen or missing():
        print(f"{name} ...", flush=True)
        record = measure(name)
        if switched_on("VITNB_FAST"):
            print(f"{name}: done, and not stored because VITNB_FAST is set", flush=True)
            continue
        store(record, result_path(name))
        for path in [*kept(name), clock_file(name)]:
            path.unlink(missing_ok=True)
        print(f"{name}: stored in {os.path.relpath(result_path(name))}", flush=True)


if __name__ == "__main__":
    main()
