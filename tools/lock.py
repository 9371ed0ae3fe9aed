"""Pin anew, in constraints.txt, all packages that requirements.txt pulls in: python -m tools.lock"""

import subprocess
import sys
from pathlib import Path

from vitnb._files import replacing

ROOT = Path(__file__).resolve().parents[1]
UV = (
    *(sys.executable, "-m", "uv", "pip", "compile", "-", "-q", "--universal", "--python-version", "3.11"),
    *("--strip-extras", "--no-emit-index-url", "--no-emit-find-links", "--no-annotate", "--no-header"),
)


def lock(root: Path = ROOT) -> None:
    """Write constraints.txt below its first line. Raises: CalledProcessError if uv finds no such set of versions."""
    asked = (root / "requirements.txt").read_text(encoding="utf-8").replace("-c constraints.txt\n", "")
    found = subprocess.run(UV, input=asked, capture_output=True, text=True, check=True).stdout
    with replacing(root / "constraints.txt") as part:
        first = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()[0]
        part.write_text(f"{first}\n{found}", encoding="utf-8")


if __name__ == "__main__":
    try:
        lock()
    except subprocess.CalledProcessError as error:
        sys.exit(error.stderr)
