"""tools/anywhere.py: its surroundings are what they are called, so that tests that pass there pass anywhere."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tools import anywhere

LOOK = """
import json, locale, os, socket, sys, time
def refused(attempt):
    try:
        attempt()
    except OSError:
        return True
    return False
locale.setlocale(locale.LC_ALL, "")
open("new", "w").close()
print(json.dumps({
    "user": os.getuid() == 1234,
    "network": refused(lambda: socket.create_connection(("192.0.2.1", 9), 1)) and socket.if_nameindex() == [(1, "lo")],
    "home": refused(lambda: open(os.path.expanduser("~/new"), "w")),
    "zone": time.strftime("%z") == "+1400",
    "turkish": locale.setlocale(locale.LC_ALL).startswith("tr_TR"),
    "german": locale.localeconv()["decimal_point"] == ",",
    "C": os.environ.get("LC_ALL") == "C",
    "umask": oct(os.stat("new").st_mode)[-3:] == "600",
    "hash": os.environ.get("PYTHONHASHSEED") == "7",
}))
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A function that gives what is found within some surroundings."""
    if not shutil.which("bwrap"):
        pytest.skip("no bubblewrap on this machine")
    place = tmp_path_factory.mktemp("one") / anywhere.PLACE
    place.mkdir()
    probe = subprocess.run(["bwrap", "--unshare-user", "--dev-bind", "/", "/", "true"], capture_output=True, text=True)
    if probe.returncode:
        pytest.skip(f"bubblewrap does not work here: {probe.stderr.strip()}")

    def found(*names):
        out = place / "out"
        (place / "new").unlink(missing_ok=True)
        command = ["sh", "-c", f'exec "{sys.executable}" -c "$0" > out', LOOK]
        assert anywhere.start(command, place, list(names), seed=7).wait() == 0
        return {name for name, holds in json.loads(out.read_text()).items() if holds}

    return found


def test_nothing_is_hard_unless_it_is_asked_for(here, tmp_path):
    environment = {name: os.environ[name] for name in ("PATH", "LANG", "CI", "HOME") if name in os.environ}
    command = [sys.executable, "-c", LOOK]
    outside = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert here() <= {name for name, holds in json.loads(outside.stdout).items() if holds}  # the tests may run in there


@pytest.mark.parametrize("names", [[name] for name in anywhere.SURROUNDINGS] + [anywhere.AT_ONCE], ids="+".join)
def test_each_is_what_it_is_called(here, names):
    if {"turkish", "german"} & {*names} and not shutil.which("localedef"):
        pytest.skip("no localedef on this machine")
    try:
        assert {*names} <= here(*names)
    except subprocess.CalledProcessError:
        pytest.skip("this machine cannot make locales (Debian: apt-get install locales)")


def test_a_clone_is_whole_and_a_program_of_its_environment_runs_from_a_path_with_a_space(tmp_path):
    place = anywhere.clone(tmp_path, environment=False)
    assert (place / "vitnb" / "__init__.py").exists() and " " in str(place) and not str(place).isascii()
    program = place / "bin" / "hello"
    program.parent.mkdir()
    (program.parent / "python").symlink_to(sys.executable)
    program.write_bytes(b"#!/there/.venv/bin/python\nprint('hello')\n")
    program.chmod(0o755)
    (place / ".venv").symlink_to(place)
    anywhere.rewrite(program, b"/there/.venv", b"/there", str(place).encode())
    assert subprocess.run([program], capture_output=True, text=True).stdout == "hello\n"
