"""What each notebook took, from pytest's report, and on what: python -m tools.seconds REPORT.xml SECONDS.json"""

import json
import platform
import sys
from pathlib import Path
from xml.etree import ElementTree

import torch

from vitnb._files import replacing


def seconds(report: Path) -> dict[str, float]:
    """The seconds of each notebook's cells."""
    taken: dict[str, float] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.get("classname", "")
        taken[name] = taken.get(name, 0.0) + float(case.get("time", 0))
    return {name: round(whole, 1) for name, whole in taken.items()}


def main(report: Path, target: Path) -> None:
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    found = {"device": device, "torch": torch.__version__, "python": platform.python_version()}
    with replacing(target) as part:
        part.write_text(json.dumps({**found, "seconds": seconds(report)}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
