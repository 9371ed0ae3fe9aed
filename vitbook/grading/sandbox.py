"""Shut a process in: no network, nothing to read but Python and the package, nothing to write but one empty folder.

Where it works, this is bubblewrap, else a container. That it works is tried, not
assumed: a probe inside must fail to read a file, to write one and to reach a
socket. Root's rights are given up: what root starts runs as a user who owns nothing.
"""

import base64
import contextlib
import json
import os
import re
import resource
import select
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vitbook.grading import _rights, syscalls
from vitnb._archives import cache_dir

PACKAGE = Path(__file__).resolve().parents[1]  # vitbook
PACKAGES = (PACKAGE.parent / "vitnb", PACKAGE)
SECRET = PACKAGE / "exercises"
HERE = Path(__file__).resolve().parent
ADDRESSES = 6 << 30  # bytes of address space of each process: torch alone takes more than 1 GiB of it
MEMORY = 4 << 30  # bytes in use by all processes of one notebook together
SECONDS = 120  # of processor time for one notebook and all its exercises
PROCESSES, THREADS = 64, 512  # of one notebook
CROWDED = "it starts too many processes"
FILES = 200_000  # in the folders of a notebook: an empty one takes a kilobyte of the machine's memory, too
LARGEST = 64 << 20  # bytes of all files in such a folder
STRANGERS = 1_900_000_000  # from here on: numbers of users that no system gives to anybody
NOBODY = 65534
TRYING = 120  # seconds until the probe must have said what it found
ENDING = 60  # seconds until a sandbox that was let go must have ended
DYING = 10  # seconds more until nothing in it may be alive: a namespace ends its processes a moment later
SHUT = "/", "/dev", "/run", "/var/tmp", "/root", "/proc/self/root"  # folders that are not for writing
SPARE = 512 << 20  # bytes of memory, and of the disk for temporary files, that the machine must have left
TOP: Path | None = None  # the folder in which each sandbox gets its own; None for the machine's
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
    checks: bool = False  # whether it may read vitbook.exercises


def readable() -> list[Path]:
    """The folders of Python, of its packages and of vitnb."""
    found = {Path(sys.prefix), Path(sys.base_prefix), Path(sysconfig.get_path("stdlib")).resolve()}
    return sorted(path for path in found if path.exists() and not path.is_relative_to("/usr/lib"))


def stranger() -> int:
    """The number of a user who owns nothing, for what root starts; -1 for whoever is not root, or knows no other."""
    if os.geteuid() or sys.platform != "linux":
        return -1
    known = [tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    numbers = STRANGERS + os.getpid(), NOBODY
    return next((one for one in numbers for first, _, count in known if first <= one < first + count), -1)


def limits(user: int) -> dict[int, int]:
    """Bounds of memory, processor time, processes and file sizes of what is about to start."""
    others = 0
    if user < STRANGERS:  # the kernel counts all that belongs to the user, with threads
        others = int(Path("/proc/loadavg").read_text().split()[3].split("/")[1])
    return {
        resource.RLIMIT_AS: ADDRESSES,
        resource.RLIMIT_CPU: SECONDS,
        resource.RLIMIT_FSIZE: LARGEST,
        resource.RLIMIT_CORE: 1,  # 0 would still start the program that a machine may have for crashes, as root
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_NPROC: 2 * THREADS + others,
    }


def bubblewrap(job: Job, name: str) -> list[str]:
    if stranger() < 0:
        namespaces = ["--unshare-all", "--uid", str(NOBODY), "--gid", str(NOBODY), "--cap-drop", "ALL"]
    else:  # a namespace of users would leave root's number, to which /proc/sys belongs
        namespaces = [f"--unshare-{one}" for one in ("ipc", "pid", "net", "uts", "cgroup-try")]
        namespaces += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    command = ["bwrap", *namespaces, "--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox"]
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
    command += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/dev/pts"]  # no terminals
    for name in ("/dev/shm", "/tmp"):
        command += ["--size", str(LARGEST), "--tmpfs", name]
    for path in [*readable(), *PACKAGES, *results(), *data(), *job.reads]:
        for parent in reversed(path.parents):  # bubblewrap makes those that are missing, for root alone
            command += ["--dir", str(parent)]
        command += ["--ro-bind", str(path), str(path)]
    shut = ["/", "/proc", "/dev", "/dev/pts"]
    if not job.checks:
        shut.append(str(SECRET))
        command += ["--size", "4096", "--tmpfs", shut[-1]]
    for name in shut:
        command += ["--remount-ro", name]
    calls = base64.b64encode(syscalls.compiled()).decode()
    rights = [str(HERE / "_rights.py"), str(stranger()), calls]
    return [*command, "--chdir", "/tmp", sys.executable, "-I", "-S", *rights, *job.arguments]


def container(job: Job, name: str) -> list[str]:
    """The image brings Python and torch only; the package comes from here, so that both sides have one version."""
    image = os.environ.get("VITNB_GRADE_IMAGE", "vitnb-grade")  # made from book/classroom/Containerfile
    inside = "/sandbox"
    command = [engine(), "run", "--rm", "-i", "--name", name, "--network", "none", "--read-only"]
    command += ["--tmpfs", "/tmp:size=64m", "--shm-size", "64m", "--workdir", "/tmp", "--pull", "never"]
    command += ["--memory", str(MEMORY), "--memory-swap", str(MEMORY), "--pids-limit", str(PROCESSES + 64)]
    command += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", "65534:65534"]
    for what, most in {"cpu": SECONDS, "fsize": 64 << 20, "nofile": 256, "nproc": 4096, "core": 0}.items():
        command += ["--ulimit", f"{what}={most}:{most}"]
    for variable, value in {**ENVIRONMENT, "HOME": "/tmp", "PYTHONPATH": inside, **given()}.items():
        command += ["--env", f"{variable}={value}"]
    for package in PACKAGES:
        command += ["-v", f"{package}:{inside}/{package.name}:ro"]
    if not job.checks:
        command += ["--tmpfs", f"{inside}/vitbook/exercises:size=4k"]
    for path in results():
        command += ["-v", f"{path}:{inside}/book/results:ro"]
    for path in [*data(), *job.reads]:
        command += ["-v", f"{path}:{path}:ro"]
    return [*command, image, "python", *job.arguments]


def engine() -> str:
    return next(name for name in ("podman", "docker") if shutil.which(name))


WAYS: dict[str, Callable[[Job, str], list[str]]] = {"bubblewrap": bubblewrap, "container": container}  # with a name


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


class Box:
    """A job in a sandbox and the folder that is its own: both end with this object's process, however that ends."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="vitnb-", dir=TOP))
        self.process: subprocess.Popen | None = None
        self.lifeline, self.lock = -1, threading.Lock()

    def start(self, way: str, job: Job, **streams) -> None:
        """Raises: OSError if it does not start."""
        outside = way == "container"  # its engine is the teacher's program, the limits are the container's
        user = -1 if outside else stranger()
        command = WAYS[way](job, self.folder.name)
        asked = {
            "command": [shutil.which(command[0]) or command[0], *command[1:]],
            "folder": str(self.folder),
            "limits": {} if outside else limits(user),
            "after": [engine(), "rm", "--force", self.folder.name] if outside else [],
        }
        own = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "PYTHONPATH": str(PACKAGE.parent)}
        if user >= 0:
            os.chown(self.folder, user, user)
        end, self.lifeline = os.pipe()
        supervisor = [sys.executable, "-I", "-S", str(HERE / "_supervisor.py"), str(end)]
        try:
            self.process = subprocess.Popen(
                supervisor,
                cwd=self.folder,
                env=None if outside else {**ENVIRONMENT, **given(), **own},
                pass_fds=[end],
                start_new_session=True,
                **streams,
            )
        finally:
            os.close(end)
        text = json.dumps(asked).encode()
        with open(self.lifeline, "wb", closefd=False) as file:
            file.write(len(text).to_bytes(8, "little") + text)  # as an argument it might be too long

    def stop(self) -> None:
        """Let go: the supervisor ends all that runs in the sandbox, and deletes its folder."""
        with self.lock:
            if self.lifeline >= 0:
                os.close(self.lifeline)
            self.lifeline = -1

    def end(self) -> None:
        """Return when nothing is left of it."""
        self.stop()
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(ENDING)
            for stream in (self.process.stdin, self.process.stdout):
                if stream:
                    stream.close()
            if self.process.returncode != 0:  # somebody ended the supervisor: then by hand
                self.process.kill(), self.process.wait()
                self.sweep()
        shutil.rmtree(self.folder, ignore_errors=True)

    def sweep(self) -> None:
        """Kill whoever is left without a supervisor, until two looks in a row find nobody: one may miss a fork."""
        found = 2
        while found:
            left = members(self.process.pid)
            for path, _ in left:
                with contextlib.suppress(OSError):
                    os.killpg(os.getpgid(int(path.name)), 9)  # which nobody in there can leave
            found = 2 if left else found - 1
            time.sleep(0.01)


def members(first: int) -> list[tuple[Path, int]]:
    """The supervisor of a sandbox and all that came from it, with their threads, but those that are dead."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if fields[0] not in "ZX":
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


def amounts(file: Path, names: tuple[str, ...]) -> int:
    """The sum of these lines, in bytes, of a file in which the kernel counts kilobytes."""
    with file.open(errors="replace") as lines:
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(names))


@contextlib.contextmanager
def as_owner(process: Path) -> Iterator[None]:
    """Look into a process as its own user, in this thread alone: root in a container may not look into others'."""
    owner = process.stat()
    _rights.libc.setfsgid(owner.st_gid), _rights.libc.setfsuid(owner.st_uid)
    try:
        yield
    finally:
        _rights.libc.setfsuid(os.geteuid()), _rights.libc.setfsgid(os.getegid())


def memory(process: Path, shared: bool = True) -> int:
    """Bytes that a process uses, without the files that it has mapped; of what it shares, its share or all."""
    with contextlib.suppress(OSError):
        if not shared:
            with as_owner(process):
                return amounts(process / "smaps_rollup", ("Pss_Anon:", "Pss_Shmem:", "SwapPss:"))
    with contextlib.suppress(OSError):
        return amounts(process / "status", ("RssAnon:", "RssShmem:", "VmSwap:"))
    return 0


def files(processes: Sequence[Path]) -> int:
    """How many files are in the folders that bubblewrap has in memory."""
    for process in processes:
        with contextlib.suppress(OSError):
            if os.stat(process / "root").st_dev != os.stat("/").st_dev:
                inside = [os.statvfs(process / "root" / name) for name in ("tmp", "dev/shm")]
                return sum(one.f_files - one.f_ffree for one in inside)
    return 0


def crowded(inside: list[tuple[Path, int]]) -> bool:
    """Whether these are too many processes or threads."""
    return len(inside) > PROCESSES or sum(threads for _, threads in inside) > THREADS


def excess(process: subprocess.Popen) -> str:
    """Say of what a sandbox takes too much, or nothing."""
    inside = members(process.pid)
    processes = [path for path, _ in inside]
    if crowded(inside):
        return CROWDED
    # What processes share is counted once, but to tell it apart takes the kernel longer: meanwhile they may be many.
    if sum(map(memory, processes)) > MEMORY:
        used = 0
        for one in processes:
            used += memory(one, shared=False)
            if crowded(members(process.pid)):
                return CROWDED
        if used > MEMORY:
            return f"its processes together take more than {MEMORY >> 30} GB of memory"
    if files(processes) > FILES:
        return f"it writes more than {FILES:,} files"
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
import ctypes, errno, json, os, resource, signal, socket, sys, time
given = json.loads(sys.argv[1])
secret, grader, broken = given["secret"], given["grader"], []
libc = ctypes.CDLL(None, use_errno=True)

def tries(promise, *acts):
    for act in acts:
        try:
            act()
            broken.append(promise)
        except OSError:
            pass

def reach(act, *more):
    if grader in (1, os.getpid(), os.getppid()):  # numbered anew in here: this is not the grader
        raise ProcessLookupError
    act(grader, *more)

def root():
    if os.geteuid():
        raise PermissionError

def make(folder):
    open(folder + "/vitnb-probe", "x").close()
    os.unlink(folder + "/vitnb-probe")

def call(number, flags=-1):
    said = libc.syscall(*map(ctypes.c_long, (number, flags, *[-1] * 4) if flags < 0 else (number, flags, 0, 0, 0, 0)))
    if said == 0 and flags > 0:
        os._exit(0)  # the child of a clone
    if said < 0 and ctypes.get_errno() == errno.ENOSYS:
        raise OSError  # any other answer is of the call itself, which got these arguments

tries("read files", lambda: open(secret).read(), lambda: open(given["checks"]).read())
tries("write files", lambda: open(secret, "a").write("x"), lambda: open("/etc/passwd", "a"),
      lambda: os.truncate(secret, 0), *[lambda at=at: make(at) for at in given["shut"]])
tries("list folders", lambda: os.listdir(os.path.dirname(secret)))
tries("connect", lambda: socket.create_connection(("127.0.0.1", given["port"]), 2),
      lambda: socket.socket(socket.AF_UNIX).connect(secret + ".socket"),
      lambda: socket.socket(socket.AF_UNIX).connect("\\0" + secret[-80:]),
      *[lambda one=one: socket.socket(one, socket.SOCK_STREAM) for one in given["families"]])
tries("reach other processes", lambda: reach(os.kill, 0),
      lambda: reach(resource.prlimit, resource.RLIMIT_CORE, (0, 0)))
tries("change the kernel's settings", root, *[lambda name=name: os.close(os.open("/proc/sys/" + name, os.O_WRONLY))
      for name in ("kernel/core_pattern", "fs/lease-break-time", "vm/swappiness")])
for name, number in given["calls"].items():
    tries("call " + name, lambda: call(number))
if given["calls"]:
    tries("make namespaces", lambda: call(given["clone"], 0x10000000 | signal.SIGCHLD))
try:
    os.chmod(secret, 0o777)
    os.utime(secret, (1, 1))
except OSError:
    pass
import torch, vitnb
assert float(torch.ones(2).sum()) == 2.0
open("mine", "w").write("a folder of its own")

if os.fork() == 0:  # who may survive
    try:
        os.setsid()
    except OSError:
        pass
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    if os.fork() == 0:
        time.sleep(300)
    os._exit(0)
kept = []
try:  # more than it may: each second file unlinked and open, the others where no path reaches
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
    for n in range(given["files"]):
        for _ in range(25):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
        kept.append(open("x", "xb"))
        os.posix_fallocate(kept[-1].fileno(), 0, given["size"])
        if n % 2:
            os.unlink("x")
    bounded = False
except OSError as error:
    bounded = error.errno == errno.ENOSPC
print(json.dumps({"broken": broken, "bounded": bounded, "python": sys.version_info[:2]}), flush=True)
time.sleep(300)
"""
# In bubblewrap no process gets an answer from these; a container's engine has a list of its own.
REFUSED = """
    ptrace process_vm_readv keyctl add_key request_key io_uring_setup userfaultfd memfd_create memfd_secret unshare
    setns mount bpf perf_event_open fanotify_init pidfd_open open_by_handle_at shmget
""".split()
NEEDS = {  # what is missing most often where a sandbox is installed and does not start
    "bubblewrap": " (it needs user namespaces, or root's right to make others)",
    "container": " (its image: {engine} build -t vitnb-grade --build-arg PYTHON={python} book/classroom)",
}
FOUND = re.compile(r'^{"broken": .*\n', re.MULTILINE)  # what the probe says at last
UNUSUAL = 17, 38, 40  # families of sockets: AF_PACKET, AF_ALG, AF_VSOCK


def output(pipe: int, seconds: float, line: re.Pattern | None = None) -> tuple[str, bool]:
    """What a pipe says until it is closed, or until this line, and whether that came in time."""
    said, until = "", time.monotonic() + seconds
    while not (line and line.search(said)):
        if not select.select([pipe], [], [], max(until - time.monotonic(), 0))[0]:
            return said, False
        if not (part := os.read(pipe, 1 << 16)):
            break
        said += part.decode(errors="replace")
    return said, True


def challenge(secret: Path, port: int, filtered: bool) -> dict:
    """What the probe is to try."""
    return {
        "secret": str(secret),
        "port": port,
        "checks": str(SECRET / "engine.py"),
        "grader": os.getpid(),
        "shut": [*map(str, (*PACKAGES, SECRET, Path(sys.executable).parent)), *SHUT],
        "families": UNUSUAL if filtered else (),
        "calls": syscalls.numbers(REFUSED) if filtered else {},
        "clone": syscalls.numbers(["clone"])["clone"] if filtered else None,
        "files": 5,
        "size": LARGEST,
    }


def works(way: str) -> str:
    """Try a sandbox; return "" if it holds, else why it does not."""
    tools, filtered = {"bubblewrap": ("bwrap",), "container": ("podman", "docker")}, way != "container"
    if way in tools and not any(map(shutil.which, tools[way])):
        return f"{' or '.join(tools[way])} is not installed"
    if filtered and (lacks := syscalls.missing()):
        return lacks
    # The address of a socket has room for 107 bytes, and a folder for temporary files may have a longer name.
    short = None if len(tempfile.gettempdir()) < 60 else "/tmp"
    with tempfile.TemporaryDirectory(dir=short) as folder, contextlib.ExitStack() as stack:
        secret, box = Path(folder, "outside", "secret"), Box()
        secret.parent.mkdir()
        secret.write_text("nobody inside may read this")
        before = secret.stat()
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        for address in (f"{secret}.socket", "\0" + str(secret)[-80:]):
            other = stack.enter_context(socket.socket(socket.AF_UNIX))
            other.bind(address), other.listen()
        given = challenge(secret, server.getsockname()[1], filtered)
        reading, writing = os.pipe()
        stack.callback(os.close, reading)
        try:
            try:
                quiet = {"stdin": subprocess.DEVNULL, "stdout": writing, "stderr": subprocess.STDOUT}
                box.start(way, Job(["-c", PROBE, json.dumps(given)]), **quiet)
            finally:
                os.close(writing)
            said, in_time = output(reading, TRYING, FOUND)
        except (OSError, subprocess.SubprocessError) as error:
            return f"it does not start: {error}"
        finally:
            box.end()
        if not in_time:
            return f"it was not ready after {TRYING} seconds: is the machine busy with something else?"
        _, ended = output(reading, DYING)  # whoever lives has the pipe
        after = secret.stat()
    python = sys.version_info[:2]
    if not (met := FOUND.search(said)):
        needs = NEEDS.get(way, "").format(engine=way == "container" and engine(), python=".".join(map(str, python)))
        return f"it does not start: {(said.splitlines() or ['no message'])[-1][:200]}{needs}"
    found = json.loads(met[0])
    kept = {
        "change modes and times of files": (before.st_mode, before.st_mtime_ns) == (after.st_mode, after.st_mtime_ns),
        "fill the disk": found["bounded"],
        "outlive the grader": ended,
    }
    broken = dict.fromkeys([*found["broken"], *(promise for promise, holds in kept.items() if not holds)])
    if broken:
        return f"it lets a process {', '.join(broken)}"
    return "" if found["python"] == [*python] else f"its Python is another than the grader's, {python[0]}.{python[1]}"


def best() -> tuple[str | None, dict[str, str]]:
    """Return the first sandbox that holds on this machine, or None, and why those before it do not."""
    reasons: dict[str, str] = {}
    for way in WAYS:
        reasons[way] = works(way)
        if not reasons[way]:
            return way, reasons
    return None, reasons
