"""Shut a process in: no network, nothing to read but Python and the package, nothing to write but one empty folder.

The best way that works on this machine is taken: bubblewrap, else Landlock
(Linux 5.13), else a container. That it works is tried, not assumed: a probe
inside must fail to read a file, to write one and to reach a socket.
"""

import os
import resource
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from vitnb._archives import cache_dir

PACKAGE = Path(__file__).resolve().parents[1]  # vitnb
HERE = Path(__file__).resolve().parent
MEMORY = 6 << 30  # bytes of address space: torch alone takes more than 1 GiB of it
SECONDS = 120  # of processor time for one notebook and all its exercises
PROCESSES = 64  # of one notebook
ENVIRONMENT = {
    "USER": "student",
    "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "MPLBACKEND": "agg",
    "VITNB_OFFLINE": "1",
}


@dataclass(frozen=True)
class Job:
    """What runs inside, and what it may read besides Python and the package."""

    arguments: Sequence[str]  # after the interpreter
    reads: Sequence[Path] = ()
    fds: Sequence[int] = ()
    checks: bool = False  # whether it may read vitnb.checks


def readable() -> list[Path]:
    """The folders of Python, of its packages and of vitnb."""
    found = {Path(sys.prefix), Path(sys.base_prefix), Path(sysconfig.get_path("stdlib")).resolve()}
    return sorted(path for path in found if path.exists() and not path.is_relative_to("/usr/lib"))


def limits() -> None:
    """Bound memory, processor time, processes and file sizes of the process that is about to start."""
    bounds = {
        resource.RLIMIT_AS: MEMORY,
        resource.RLIMIT_CPU: SECONDS,
        resource.RLIMIT_FSIZE: 64 << 20,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: len(list(Path("/proc").glob("[0-9]*/task/*")))
        + 256,  # threads count, the user's others, too
    }
    for what, most in bounds.items():
        resource.setrlimit(what, (most, most))


def bubblewrap(job: Job, home: Path) -> list[str]:
    command = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
    command += ["--uid", "65534", "--gid", "65534", "--hostname", "sandbox"]
    inner = {**ENVIRONMENT, "PATH": "/usr/bin", "HOME": "/tmp", "PYTHONPATH": str(PACKAGE.parent), **given()}
    for name, value in inner.items():
        command += ["--setenv", name, value]
    for name in ("/usr", "/etc/ld.so.cache", "/etc/alternatives"):
        command += ["--ro-bind-try", name, name]
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        if Path("/", name).is_symlink():
            command += ["--symlink", os.readlink(f"/{name}"), f"/{name}"]
        else:
            command += ["--ro-bind-try", f"/{name}", f"/{name}"]
    command += ["--proc", "/proc", "--dev", "/dev", "--size", str(64 << 20), "--tmpfs", "/tmp"]
    for path in [*readable(), PACKAGE, *results(), *data(), *job.reads]:
        command += ["--ro-bind", str(path), str(path)]
    if not job.checks:
        command += ["--tmpfs", str(PACKAGE / "checks")]
    command += ["--remount-ro", "/"]
    return [*command, "--chdir", "/tmp", sys.executable, *job.arguments]


def landlock(job: Job, home: Path) -> list[str]:
    packages = home / "lib"  # two links: the folder in which vitnb lies may hold more, and is not to be listed
    packages.mkdir()
    (packages / "vitnb").symlink_to(PACKAGE)
    (packages / "book").symlink_to(PACKAGE.parent / "book")
    reads = [*map(str, [*readable(), *results(), *data(), *job.reads]), "/usr", "/lib", "/lib64", "/etc/ld.so.cache"]
    reads += ["/dev/urandom", "/dev/zero", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu"]
    hidden = () if job.checks else ("checks",)
    reads += [str(path) for path in PACKAGE.iterdir() if path.name not in hidden]
    return [sys.executable, str(HERE / "_landlock.py"), str(home), ":".join(reads), str(PACKAGE), *job.arguments]


def container(job: Job, home: Path) -> list[str]:
    engine = next(name for name in ("podman", "docker") if shutil.which(name))
    image = os.environ.get("VITNB_GRADE_IMAGE", "vitnb-grade")  # Python with vitnb installed: see the teacher's guide
    command = [engine, "run", "--rm", "-i", "--network", "none", "--read-only", "--tmpfs", "/tmp:size=64m"]
    command += ["--memory", str(MEMORY), "--pids-limit", "200", "--cap-drop", "ALL"]
    command += ["--security-opt", "no-new-privileges", "--user", "65534:65534"]
    for path in job.reads:
        command += ["-v", f"{path}:{path}:ro"]
    if job.fds:
        command += [f"--preserve-fds={max(job.fds) - 2}"]
    return [*command, image, "python", *job.arguments]


WAYS: dict[str, Callable[[Job, Path], list[str]]] = {
    "bubblewrap": bubblewrap,
    "landlock": landlock,
    "container": container,
}


def results() -> list[Path]:
    """Where the package's measurements are, if they are beside it and not in it: the boot is drawn from there."""
    folder = PACKAGE.parent / "book" / "results"
    return [folder] if folder.is_dir() else []


def data() -> list[Path]:
    """The folder of the data set, if there is one: a notebook may load it."""
    folder = Path(os.environ.get("VITNB_DATA") or cache_dir())
    return [folder.resolve()] if folder.is_dir() else []


def given() -> dict[str, str]:
    return {"VITNB_DATA": str(data()[0])} if data() else {}


def start(way: str, job: Job, home: Path, **options) -> subprocess.Popen:
    """Start a job in a sandbox; home is a new empty folder, the only one that Landlock lets it write to."""
    environment = {
        **ENVIRONMENT,
        **given(),
        "PATH": os.environ.get("PATH", "/usr/bin"),
        "HOME": str(home),
        "TMPDIR": str(home),
    }
    return subprocess.Popen(
        WAYS[way](job, home),
        pass_fds=job.fds,
        stdin=subprocess.DEVNULL,
        cwd=home,
        env={**environment, "PYTHONPATH": str(PACKAGE.parent)},
        preexec_fn=limits if way != "container" else None,
        start_new_session=True,
        **options,
    )


def processes(first: int) -> int:
    """Count a process and all that came from it: the kernel's own limit does not hold for root."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        parents[int(path.parent.name)] = int(fields[1]), int(fields[3])  # parent, session
    count = 0
    for number in parents:
        one = number
        while one in parents and one != first and parents[one][1] != first:
            one = parents[one][0]
        count += one in parents
    return count


PROBE = """
import os, socket, sys
refused = []
for attempt in (
    lambda: open(sys.argv[1]).read(),
    lambda: open(sys.argv[1], "a").write("x"),
    lambda: open("/etc/passwd", "a"),
    lambda: socket.create_connection(("127.0.0.1", int(sys.argv[2])), 2),
    lambda: os.listdir(os.path.dirname(sys.argv[1])),
    lambda: open(sys.argv[3]).read(),
):
    try:
        attempt()
        refused.append(False)
    except OSError:
        refused.append(True)
import torch, vitnb
assert float(torch.ones(2).sum()) == 2.0
open("mine", "w").write("a folder of its own")
sys.exit(0 if all(refused) else 7)
"""


def works(way: str) -> str:
    """Try a sandbox; return "" if it holds, else why it does not."""
    tools = {"bubblewrap": ("bwrap",), "container": ("podman", "docker")}
    if way in tools and not any(map(shutil.which, tools[way])):
        return f"{' or '.join(tools[way])} is not installed"
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as server:
        secret, home = Path(folder, "outside", "secret"), Path(folder, "home")
        secret.parent.mkdir(), home.mkdir()
        secret.write_text("nobody inside may read this")
        job = Job(["-c", PROBE, str(secret), str(server.getsockname()[1]), str(PACKAGE / "checks" / "engine.py")])
        try:
            probe = start(way, job, home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            said = probe.communicate(timeout=120)[0].decode(errors="replace").strip()
        except (OSError, subprocess.SubprocessError) as error:
            return f"it does not start: {error}"
    if probe.returncode == 7:
        return "it lets a process read, write or connect"
    return "" if probe.returncode == 0 else f"it does not start: {(said.splitlines() or ['no message'])[-1][:200]}"


def best() -> tuple[str | None, dict[str, str]]:
    """Return the first sandbox that holds on this machine, or None, and why those before it do not."""
    reasons: dict[str, str] = {}
    for way in WAYS:
        reasons[way] = works(way)
        if not reasons[way]:
            return way, reasons
    return None, reasons
