"""vitnb is the model alone: it imports nothing of vitbook, which needs it."""

import re
from pathlib import Path


def test_the_model_does_not_know_the_book():
    for path in Path(__file__).resolve().parents[2].glob("vitnb/**/*.py"):
        assert not re.search(r"^\s*(from|import) .*\bvitbook\b|import_module\(.*vitbook", path.read_text(), re.M), path
