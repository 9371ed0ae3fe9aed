"""Shut a process in: no network, nothing to read but Python and the package, nothing to write but one empty folder.

The best way that works on this machine is taken: bubblewrap, else Landlock
(Linux 5.13), else a container. That it works is tried, not assumed: a probe
inside must fail to read a file, to write one and to reach a socket.
"""

import contextlib
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
ADDRESSES = 6 << 30  # bytes of address space of each process: torch alone takes more than 1 GiB of it
MEMORY = 4 << 30  # bytes in use by all processes of one notebook together
SECONDS = 120  # of processor time for one notebook and all its exercises
FORKED = 320 << 20  # bytes of Python with torch and the package
PROCESSES, THREADS = 64, 512  # of one notebook
FILES = 256 << 20  # bytes in the folder of a notebook
SPARE = 512 << 20  # bytes of memory, and of the disk for temporary files, that the machine must have left
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
    checks: bool = False  # whether it may read vitnb.checks


def readable() -> list[Path]:
    """The folders of Python, of its packages and of vitnb."""
    found = {Path(sys.prefix), Path(sys.base_prefix), Path(sysconfig.get_path("stdlib")).resolve()}
    return sorted(path for path in found if path.exists() and not path.is_relative_to("/usr/lib"))


def limits() -> None:
    """Bound memory, processor time, processes and file sizes of the process that is about to start."""
    bounds = {
        resource.RLIMIT_AS: ADDRESSES,
        resource.RLIMIT_CPU: SECONDS,
        resource.RLIMIT_FSIZE: 64 << 20,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 256,  # a file that was deleted is in no folder any more
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
    reads: list[Path] = [*results(), *data(), *job.reads]
    reads += map(Path, ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/urandom", "/dev/zero"))
    reads += map(Path, ("/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu"))
    listed = [PACKAGE]
    for folder in [*readable(), PACKAGE]:
        # Installed with pip, vitnb lies in a folder that is read as a whole: all but the checks is named then.
        inner, outer = ([folder], []) if job.checks else without(folder, PACKAGE / "checks")
        reads, listed = reads + inner, listed + outer
    paths = ":".join(map(str, reads)), ":".join(map(str, listed))
    return [sys.executable, str(HERE / "_landlock.py"), str(home), *paths, *job.arguments]


def without(folder: Path, hidden: Path) -> tuple[list[Path], list[Path]]:
    """What to read, and which folders to list, in order to read all of a folder but a hidden part of it."""
    folder, hidden = folder.resolve(), hidden.resolve()
    if not hidden.is_relative_to(folder):
        return [folder], []
    reads, listed = [], [folder]
    for path in map(Path.resolve, folder.iterdir()):  # lib64 is a link to lib
        if path != hidden and not folder.is_relative_to(path):
            inner, outer = without(path, hidden)
            reads, listed = reads + inner, listed + outer
    return reads, listed


def container(job: Job, home: Path) -> list[str]:
    """The image brings Python and torch only; the package comes from here, so that both sides have one version."""
    image = os.environ.get("VITNB_GRADE_IMAGE", "vitnb-grade")  # made from classroom/Containerfile
    inside = "/sandbox"
    command = [engine(), "run", "--rm", "-i", "--name", home.name, "--network", "none", "--read-only"]
    command += ["--tmpfs", "/tmp:size=64m", "--shm-size", "64m", "--workdir", "/tmp", "--pull", "never"]
    command += ["--memory", str(MEMORY), "--memory-swap", str(MEMORY), "--pids-limit", str(PROCESSES + 64)]
    command += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", "65534:65534"]
    for what, most in {"cpu": SECONDS, "fsize": 64 << 20, "nofile": 256, "nproc": 4096, "core": 0}.items():
        command += ["--ulimit", f"{what}={most}:{most}"]
    for name, value in {**ENVIRONMENT, "HOME": "/tmp", "PYTHONPATH": inside, **given()}.items():
        command += ["--env", f"{name}={value}"]
    command += ["-v", f"{PACKAGE}:{inside}/vitnb:ro"]
    if not job.checks:
        command += ["--tmpfs", f"{inside}/vitnb/checks:size=4k"]
    for path in results():
        command += ["-v", f"{path}:{inside}/book/results:ro"]
    for path in [*data(), *job.reads]:
        command += ["-v", f"{path}:{path}:ro"]
    return [*command, image, "python", *job.arguments]


def engine() -> str:
    return next(name for name in ("podman", "docker") if shutil.which(name))


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
        "PYTHONPATH": str(PACKAGE.parent),
    }
    outside = way == "container"  # its engine is the teacher's program, the limits are the container's
    return subprocess.Popen(
        WAYS[way](job, home),
        cwd=home,
        env=None if outside else environment,
        preexec_fn=None if outside else limits,
        start_new_session=True,
        **options,
    )


def end(way: str, process: subprocess.Popen, home: Path) -> None:
    """End all that runs in a sandbox, and delete its folder, whatever is in it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    if way == "container":  # the engine's client is dead, the container is not
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run([engine(), "rm", "--force", home.name], **quiet, timeout=60)
    process.wait()
    # Folders in folders, ten thousand deep, or without the right to enter, are too much for shutil.
    for command in (["chmod", "-R", "u+rwX", "--", str(home)], ["rm", "-rf", "--", str(home)]):
        subprocess.run(command, stderr=subprocess.DEVNULL)


def members(first: int) -> list[tuple[Path, int]]:
    """A process and all that came from it, with their threads: the kernel's own limit does not hold for root."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        # parent, session, threads
        found[int(path.parent.name)] = int(fields[1]), int(fields[3]), int(fields[17])
    inside = []
    for number, (_, _, threads) in found.items():
        one = number
        while one in found and one != first and found[one][1] != first:
            one = found[one][0]
        if one in found:
            inside.append((Path(f"/proc/{number}"), threads))
    return inside


def memory(process: Path) -> int:
    """Bytes that a process uses, without the files that it has mapped."""
    used = 0
    with contextlib.suppress(OSError), (process / "status").open() as status:
        for line in status:
            if line.startswith(("RssAnon:", "RssShmem:", "VmSwap:")):
                used += int(line.split()[1]) << 10
    return used


def taken(home: Path) -> int:
    """Bytes of the files in a folder, which may change while it is read."""
    used, folders = 0, [home]
    while folders and used <= FILES:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                used += entry.stat(follow_symlinks=False).st_blocks * 512 + 1024  # an empty file takes something, too
    return used


def excess(process: subprocess.Popen, home: Path) -> str:
    """Say of what a sandbox takes too much, or nothing."""
    inside = members(process.pid)
    if len(inside) > PROCESSES or sum(threads for _, threads in inside) > THREADS:
        return "it starts too many processes"
    # Forked processes share what they had before: counted once. Whoever hides behind it is met by scarce().
    if FORKED + sum(max(0, memory(path) - FORKED) for path, _ in inside) > MEMORY:
        return f"its processes together take more than {MEMORY >> 30} GB of memory"
    if taken(home) > FILES:
        return f"it writes more than {FILES >> 20} MB of files"
    return ""


def scarce() -> str:
    """Say what the machine runs out of, or nothing: whoever took it may have hidden it."""
    free = os.statvfs(tempfile.gettempdir())
    if free.f_bavail * free.f_frsize < SPARE:
        return "the machine's disk for temporary files is full"
    with contextlib.suppress(OSError), open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:") and int(line.split()[1]) << 10 < SPARE:
                return "the machine has no memory left"
    return ""


PROBE = """
import os, resource, socket, sys
secret, port, checks, grader = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
refused = []

def reach(act, *more):
    if grader in (1, os.getpid(), os.getppid()):  # numbered anew in here: this is not the grader
        raise ProcessLookupError
    act(grader, *more)

for attempt in (
    lambda: open(secret).read(),
    lambda: open(secret, "a").write("x"),
    lambda: open("/etc/passwd", "a"),
    lambda: socket.create_connection(("127.0.0.1", port), 2),
    lambda: socket.socket(socket.AF_UNIX).connect(secret + ".socket"),
    lambda: socket.socket(socket.AF_UNIX).connect("\\0" + secret[-80:]),
    lambda: os.listdir(os.path.dirname(secret)),
    lambda: open(checks).read(),
    lambda: reach(os.kill, 0),
    lambda: reach(resource.prlimit, resource.RLIMIT_CORE, (0, 0)),
):
    try:
        attempt()
        refused.append(False)
    except OSError:
        refused.append(True)
try:
    os.chmod(secret, 0o777)
    os.utime(secret, (1, 1))
except OSError:
    pass
import torch, vitnb
assert float(torch.ones(2).sum()) == 2.0
open("mine", "w").write("a folder of its own")
print("refused", *refused, sys.version_info[:2] == tuple(map(int, sys.argv[5].split("."))))
"""


def works(way: str) -> str:
    """Try a sandbox; return "" if it holds, else why it does not."""
    tools = {"bubblewrap": ("bwrap",), "container": ("podman", "docker")}
    if way in tools and not any(map(shutil.which, tools[way])):
        return f"{' or '.join(tools[way])} is not installed"
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as listening:
        secret, home = Path(folder, "outside", "secret"), Path(tempfile.mkdtemp(prefix="vitnb-"))
        secret.parent.mkdir()
        secret.write_text("nobody inside may read this")
        before = secret.stat()
        server = listening.enter_context(socket.create_server(("127.0.0.1", 0)))
        for address in (f"{secret}.socket", "\0" + str(secret)[-80:]):
            other = listening.enter_context(socket.socket(socket.AF_UNIX))
            other.bind(address), other.listen()
        python = ".".join(map(str, sys.version_info[:2]))
        checks = str(PACKAGE / "checks" / "engine.py")
        given = [str(secret), str(server.getsockname()[1]), checks, str(os.getpid()), python]
        probe = None
        try:
            quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            probe = start(way, Job(["-c", PROBE, *given]), home, **quiet)
            said = probe.communicate(timeout=120)[0].decode(errors="replace").strip()
        except (OSError, subprocess.SubprocessError) as error:
            return f"it does not start: {error}"
        finally:
            if probe is not None:
                end(way, probe, home)
        after = secret.stat()
    last = (said.splitlines() or ["no message"])[-1]
    if not last.startswith("refused "):
        return f"it does not start: {last[:200]}"
    *refused, version = last.split()[1:]
    if "False" in refused or (before.st_mode, before.st_mtime_ns) != (after.st_mode, after.st_mtime_ns):
        return "it lets a process read, write, connect or reach other processes"
    return "" if version == "True" else f"its Python is another than the grader's, {python}"


def best() -> tuple[str | None, dict[str, str]]:
    """Return the first sandbox that holds on this machine, or None, and why those before it do not."""
    reasons: dict[str, str] = {}
    for way in WAYS:
        reasons[way] = works(way)
        if not reasons[way]:
            return way, reasons
    return None, reasons
