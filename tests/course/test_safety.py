"""The teacher's machine is safe from what vitnb-grade runs on it: files, settings, processes, memory and time.

Each attack touches only what the test itself has made, or writes a value that is there already.
"""

import builtins
import contextlib
import ctypes.util
import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

if not sys.platform.startswith("linux"):
    pytest.skip("the sandboxes are Linux's", allow_module_level=True)

from tests.course.test_grading import COUNT, COUNT_CHECK, SECONDS, TELL, WRONG, alive, counting, said_of, store  # noqa: E402
from vitbook.grading import cli, reports, sandbox, student, syscalls, wire  # noqa: E402
from vitbook.grading.submissions import Submission  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
CALLS = """
    ptrace process_vm_readv process_vm_writev kcmp pidfd_open pidfd_getfd process_madvise keyctl add_key request_key
    io_uring_setup io_uring_enter io_setup userfaultfd memfd_create memfd_secret shmget semget msgget mq_open
    unshare setns mount umount2 fsopen open_tree pivot_root clone3 bpf perf_event_open fanotify_init inotify_init1
    name_to_handle_at open_by_handle_at quotactl syslog init_module finit_module kexec_load swapon reboot adjtimex
    personality seccomp landlock_create_ruleset mbind move_pages vmsplice mknodat setuid setgroups sync ioprio_set
""".split()


@pytest.fixture(scope="session")
def shut():
    """The sandbox that the tests attack."""
    if reason := sandbox.works("bubblewrap"):
        pytest.skip(reason)
    return "bubblewrap"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where sandboxes have their folders, which must be empty afterwards."""
    made = tmp_path / "sandboxes"
    made.mkdir()
    if os.geteuid() == 0:
        for path in (made, *made.parents):  # what root starts is another user, who must find its folder
            if path.owner() == "root" and not path.stat().st_mode & 1:
                path.chmod(path.stat().st_mode | 0o011)
    monkeypatch.setattr(sandbox, "TOP", made)
    yield made
    assert list(made.iterdir()) == []


TRIES = """
import ctypes, fcntl, mmap, os, resource, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
seen = []
def tries(name, act):
    try: said = act()
    except BaseException: return
    if said is not None: seen.append((name, said))
def call(number, *more):
    said = libc.syscall(number, *more)
    if said < 0: raise OSError(ctypes.get_errno(), "refused")
    return said
def nap(name, seconds=300):
    libc.prctl(15, name.encode())
    time.sleep(seconds)
"""


def told(way, path, attack, seconds=SECONDS):
    """What an attack says that it reached."""
    said = said_of(way, path, TRIES, attack, TELL, COUNT_CHECK, seconds=seconds)
    assert "ValueError" in said.sentence, said.sentence
    return said.sentence.rpartition("`: ")[2]


def gone(*names, within=0.0):
    """Whether no process of these names is left."""
    until = time.monotonic() + within
    while any(f"({name})" in alive() for name in names):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


# ---- What is written


def test_nothing_of_the_machine_can_be_written(shut, tmp_path):
    """As root, too: most of /proc/sys belongs to root's number, whatever rights are given up."""
    before = Path("/proc/sys/fs/lease-break-time").read_text()
    attack = """
def sweep(top):
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if not (name.isdigit() or name in ("self", "thread-self"))]
        for name in names:
            path = os.path.join(folder, name)
            if os.path.islink(path): continue
            tries(path, lambda: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)) or "open")
for top in ("/proc", "/sys", "/dev/pts", "/etc", "/run", "/var", "/dev"):
    sweep(top)
for name in ("fs/lease-break-time", "kernel/core_pattern", "vm/swappiness", "kernel/hostname"):
    tries(name, lambda: os.write(os.open("/proc/sys/" + name, os.O_RDWR), b""))
for name in ("sysrq-trigger", "1/mem", "1/oom_score_adj", "self/oom_score_adj", "self/uid_map", "self/attr/current"):
    tries(name, lambda: os.close(os.open("/proc/" + name, os.O_RDWR)) or "open")
tries("root", lambda: None if os.getuid() and os.geteuid() and os.getgid() else "root")
seen = [one for one in seen if one[0] not in ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")]
seen = [one for one in seen if not one[0].startswith("/dev/shm/")]
"""
    assert told(shut, tmp_path, attack).startswith("[]")
    assert Path("/proc/sys/fs/lease-break-time").read_text() == before


def test_only_bounded_folders_can_be_written(shut, tmp_path):
    attack = """
import vitbook, vitnb
for name in ("/dev", os.path.dirname(vitbook.__file__) + "/exercises", os.path.dirname(vitnb.__file__),
             os.path.dirname(vitbook.__file__), "/", "/root", "/run", "/proc/self/root", "/proc/self/cwd/../..",
             "/dev/mqueue", "/var/tmp", os.path.dirname(sys.executable)):
    tries(name, lambda: open(name + "/mine", "w").write("x"))
def fill(folder):
    made = 0
    for n in range(6):
        with open(f"{folder}/{n}", "wb") as file:
            for _ in range(30):
                made += file.write(bytes(1 << 20))
                if made > 100 << 20: return made
tries("shm", lambda: fill("/dev/shm"))
"""
    assert told(shut, tmp_path, attack).startswith("[]")


# ---- System calls


KNOWN = [] if syscalls.missing() else syscalls.numbers(CALLS)  # an old libseccomp does not know them all

# One line each, in an answer: it must end in an error, which the student is told. Nothing of it does harm.
ATTACKS = {
    # Files
    "read the marks": "open(BOOK).read()",
    "change the marks": "open(BOOK, 'a')",
    "empty the marks": "os.truncate(BOOK, 0)",
    "delete the marks": "os.remove(BOOK)",
    "move the marks": "os.replace(BOOK, 'mine')",
    "a second name for the marks": "os.link(BOOK, 'mine')",
    "a link to the marks": "os.symlink(BOOK, 'link'); open('link').read()",
    "the marks by the root of the process": "open('/proc/self/root' + BOOK).read()",
    "the marks from the folder upwards": "open('../' * 60 + BOOK[1:]).read()",
    "the folder of the marks": "os.listdir(os.path.dirname(BOOK))",
    "the mode of the marks": "os.chmod(BOOK, 0o777)",
    "the times of the marks": "os.utime(BOOK, (1, 1))",
    "an attribute of the marks": "os.getxattr(BOOK, 'user.grade')",
    "the attributes of the marks": "os.listxattr(BOOK)",
    "passwords": "open('/etc/shadow').read()",
    "read the checks": "open(VITBOOK + '/exercises/engine.py').read()",
    "import the checks": "import vitbook.exercises.engine",
    "write beside Python": "open(os.path.dirname(os.__file__) + '/sitecustomize.py', 'a')",
    "memory of the machine": "os.open('/dev/mem', os.O_RDWR)",
    "a disk of one's own": "os.mknod('disk', 0o60600, os.makedev(8, 0))",
    "the terminal": "os.open('/dev/tty', os.O_RDWR)",
    # Settings of the kernel
    "the clock": "time.clock_settime(time.CLOCK_REALTIME, time.time())",
    "the name of the machine": "socket.sethostname('mine')",
    "another root folder": "os.chroot('.')",
    "keys of others": "open('/proc/keys').read() or refused()",
    # Network
    "the machine's TCP": "socket.create_connection(('127.0.0.1', PORT), 1)",
    "the internet": "socket.create_connection(('192.0.2.1', 80), 1)",
    "a datagram": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 9))",
    "a name server": "socket.getaddrinfo('example.org', 80)",
    "a socket in a folder": "socket.socket(socket.AF_UNIX).connect(BOOK + '.socket')",
    "an abstract socket": "socket.socket(socket.AF_UNIX).connect(BUS)",
    "a pair that is turned": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "raw packets": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "frames of Ethernet": "socket.socket(17, socket.SOCK_RAW)",
    "bluetooth": "socket.socket(31, socket.SOCK_STREAM)",
    "the kernel's ciphers": "socket.socket(38, socket.SOCK_SEQPACKET)",
    "the host of a virtual machine": "socket.socket(40, socket.SOCK_STREAM)",
    "XDP": "socket.socket(44, socket.SOCK_RAW)",
    "the kernel's journal": "socket.socket(16, socket.SOCK_RAW, 9)",
    # Processes and rights
    "root": "os.setuid(0)",
    "a signal to the grader": "os.kill(GRADER, 0)",
    "limits of the grader": "resource.prlimit(GRADER, resource.RLIMIT_CPU)",
    "memory of the grader": "os.open(f'/proc/{GRADER}/mem', os.O_RDONLY)",
    "environment of the grader": "open(f'/proc/{GRADER}/environ').read()",
    "the command of the grader": "open(f'/proc/{GRADER}/cmdline').read()",
    "hide from the grader": "libc.prctl(4, 0, 0, 0, 0); libc.prctl(3, 0, 0, 0, 0) == 1 and refused()",
    "more memory": "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
    "more time": "resource.setrlimit(resource.RLIMIT_CPU, (-1, -1))",
    "a core": "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))",
    **{f"a clone in a namespace, {bit}": f"clone(1 << {bit})" for bit in (17, 25, 26, 27, 28, 29, 30)},
    # Bounds
    "8 GB": "bytearray(8 << 30)",
    "a file of 1 TB": "open('large', 'wb').truncate(1 << 40)",
    "files without end": "[open(os.devnull) for _ in range(1000)]",
    # What one file descriptor can do
    "a lease": "fcntl.fcntl(os.open('own', os.O_RDWR | os.O_CREAT), 1024, fcntl.F_RDLCK)",
    "signals for another": "fcntl.fcntl(os.open(os.__file__, 0), fcntl.F_SETOWN, os.getpid())",
    "notices of a folder": "fcntl.fcntl(os.open('.', 0), 1026, 2)",
    "flags of a file": "fcntl.ioctl(os.open(os.__file__, 0), 0x40086602, bytes(8))",
    "the version of a file": "fcntl.ioctl(os.open(os.__file__, 0), 0x40087602, bytes(8))",
    "keys on a terminal": "fcntl.ioctl(0, 0x5412, b'x')",
    "an attribute": "open('own', 'w'); os.setxattr('own', 'user.x', b'x')",
    "a core by 64 bits": "call(N['prlimit64'], 0, ctypes.c_ulong((1 << 32) + 4), struct.pack('QQ', 0, 0), 0)",
    # System calls, whatever their arguments
    **{f"the call {name}": f"missing(N[{name!r}])" for name in KNOWN},
    "calls of x32": "missing(0x40000000 + 39)",
    "a call that is younger": "missing(1000)",
}  # fmt: skip
REFUSALS = {one.__name__ for one in (OSError, *OSError.__subclasses__(), ConnectionRefusedError)}
REFUSALS |= {"MemoryError", "ModuleNotFoundError", "ValueError"}  # the last of limits
MEANS = """
import vitbook
VITBOOK = os.path.dirname(vitbook.__file__)
def refused(): raise PermissionError("refused")
def missing(number):  # any other error is an answer of the call itself
    if libc.syscall(number, -1, -1, -1, -1, -1) < 0 and ctypes.get_errno() == 38: raise OSError("no such call")
def clone(flag):
    if call(N["clone"], flag | signal.SIGCHLD, 0, 0, 0, 0) == 0: os._exit(0)
    raise SystemExit("a namespace was made")
"""


@pytest.fixture(scope="session")
def attacked(shut, tmp_path_factory):
    """The verdict on each attack, all in one notebook: an answer and its check each; and that nothing was changed."""
    folder = tmp_path_factory.mktemp("attacked")
    folder.chmod(0o711)
    book, said, judge_one = folder / "book.csv", [], student._outside
    book.write_text("Ada,1")
    book.chmod(0o666)
    with contextlib.ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        for address in (f"{book}.socket", bus := f"\0{folder}"[-90:]):
            one = stack.enter_context(socket.socket(socket.AF_UNIX))
            one.bind(address), one.listen()
        known = dict(BOOK=str(book), BUS=bus, PORT=server.getsockname()[1], GRADER=os.getpid())
        known["N"] = syscalls.numbers([*CALLS, "clone", "prlimit64"])
        first = "\n".join(f"{name} = {value!r}" for name, value in known.items())
        cells = [cell for line in ATTACKS.values() for cell in (f"def count_tokens(*size):\n    {line}", COUNT_CHECK)]
        patch.setattr(student, "TRIES", len(ATTACKS))
        patch.setattr(student, "_outside", lambda *given: said.append(judge_one(*given)) or said[-1])
        student.judge(shut, store(folder / "x.ipynb", TRIES, first, MEANS, *cells), ["1.1"], seconds=SECONDS)
    assert book.read_text() == "Ada,1" and len(os.listdir(folder)) == 3
    return dict(zip(ATTACKS, said, strict=False))


@pytest.mark.parametrize("case", ATTACKS)
def test_an_attack_fails_and_its_student_is_told(case, attacked):
    assert case in attacked, f"the notebook ended at {list(attacked)[-1:]}"
    kind = re.search(r"raises (\w+) in the line `", attacked[case].sentence)
    assert kind and kind[1] in REFUSALS, attacked[case].sentence


def test_the_teachers_names_stay_outside_and_files_inside(shut, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"/opt/ada-lovelace/bin:{os.environ['PATH']}")
    monkeypatch.setenv("TOKEN_OF_THE_TEACHER", "ada-lovelace")
    attack = f"""
tries("PATH and TOKEN", lambda: "ada-lovelace" in str(os.environ) or None)
for folder in ("/tmp", "/dev/shm"):
    tries("file", lambda: open(folder + "/vitnb-mine", "w").write("x") and None)
tries("nice", lambda: os.setpriority(os.PRIO_PROCESS, {os.getpid()}, 19))
"""
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    assert told(shut, tmp_path, attack).startswith("[]") and os.getpriority(os.PRIO_PROCESS, 0) == nice
    assert not any(Path(folder, "vitnb-mine").exists() for folder in ("/tmp", "/dev/shm"))


def test_a_submission_blocks_nobody_by_a_lock(shut, tmp_path):
    """The package's own lock files may be read inside: who holds a lock there, holds up the teacher."""
    import fcntl

    attack = """
for path in (os.__file__, __import__("vitnb").__file__):
    fd = os.open(path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    tries("lock", lambda: fcntl.lockf(fd, fcntl.LOCK_SH))
seen = []
"""
    waits = "def count_tokens(*size):\n    time.sleep(1)\n    raise ValueError('held')"
    paths = [Path(os.__file__), ROOT / "vitnb" / "__init__.py"]
    failed, stop = [], threading.Event()

    def look():
        while not stop.wait(0.05):
            for path in paths:
                with path.open() as file:
                    try:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        failed.append(path)

    watch = threading.Thread(target=look)
    watch.start()
    said = said_of(shut, tmp_path, TRIES, attack, waits, COUNT_CHECK)
    stop.set(), watch.join()
    assert "held" in said.sentence and not failed


def test_a_crash_starts_no_program_of_the_machine(shut, tmp_path):
    """Where core_pattern is a program, the kernel starts it as root, unless the limit is 1."""
    attack = """
tries("limit", lambda: None if resource.getrlimit(resource.RLIMIT_CPU)[1] < 1000 else "none")
for soft in (0, 1):
    tries("core", lambda: resource.setrlimit(resource.RLIMIT_CORE, (soft, soft)) or "set")
    pair = struct.pack("QQ", soft, soft)
    tries("core", lambda: call(160 if os.uname().machine == "x86_64" else 164, 4, pair))
tries("other", lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CPU))
if os.uname().machine == "x86_64":
    room = ctypes.create_string_buffer(16)
    tries("core", lambda: libc.syscall(97, 4, room) or (None if struct.unpack("QQ", room) == (1, 1) else room.raw))
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
"""
    assert told(shut, tmp_path, attack).startswith("[]")


def test_files_without_end_end_a_submission(shut, tmp_path, monkeypatch):
    """Empty ones, too: each takes memory of the machine."""
    monkeypatch.setattr(sandbox, "FILES", 1000)
    endless = "for n in range(3_000_000): open(str(n), 'w').close()"
    said = said_of(shut, tmp_path, endless, COUNT, COUNT_CHECK)
    assert said.right and "cell 2 did not run to its end: it writes more than 1,000 files" in said.suspect


# ---- What is missing


def test_without_libseccomp_it_is_said_what_to_install(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyseccomp", None)
        assert sandbox.works("bubblewrap") == "pyseccomp is not installed: pip install pyseccomp"
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "pyseccomp", raising=False)
        patch.setattr(ctypes.util, "find_library", lambda name: None if name == "seccomp" else "libc.so.6")
        assert "apt-get install libseccomp2" in sandbox.works("bubblewrap")


@pytest.mark.parametrize("name, words", [("bwrap", "user namespaces"), ("podman", "podman build -t vitnb-grade")])
def test_a_sandbox_that_does_not_start_says_what_it_needs(name, words, tmp_path, monkeypatch):
    program = tmp_path / name
    program.write_text("#!/bin/sh\necho Run \\'--help\\' for more information >&2\nexit 125\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    said = sandbox.works({"bwrap": "bubblewrap"}.get(name, "container"))
    assert said.startswith("it does not start: Run '--help'") and words in said


def test_the_filter_is_made_for_arm64_too(monkeypatch):
    import pyseccomp

    class Arm(pyseccomp.SyscallFilter):
        def __init__(self, action):
            super().__init__(action)
            self.add_arch(pyseccomp.Arch.AARCH64), self.remove_arch(pyseccomp.Arch.NATIVE)

        def export_bpf(self, file):
            text = (file.write(b""), self.export_pfc(file), file.seek(0), file.read().decode())[-1]
            for name in ("openat", "clone", "newfstatat", "futex", "rseq", "statx", "getrandom", "membarrier"):
                assert f'"{name}"' in text, name
            assert '"ptrace"' not in text and '"setns"' not in text
            file.seek(0), file.truncate(), super().export_bpf(file)

    monkeypatch.setattr(pyseccomp, "SyscallFilter", Arm)
    code = syscalls.compiled.__wrapped__()
    assert len(code) % 8 == 0 and struct.unpack("<HBBI", code[8:16])[3] == 0xC00000B7  # AUDIT_ARCH_AARCH64


def test_a_filter_that_lets_all_through_is_refused(shut, monkeypatch):
    monkeypatch.setattr(syscalls, "compiled", lambda: struct.pack("HBBI", 6, 0, 0, 0x7FFF0000))
    said = sandbox.works(shut)
    for name in ("ptrace", "keyctl", "io_uring_setup", "userfaultfd", "memfd_create"):
        assert f"call {name}" in said and said.startswith("it lets a process ")


def test_whoever_survives_or_fills_the_disk_is_noticed(shut, monkeypatch):
    def roomy(job, name):
        return [str(1 << 30) if word == str(sandbox.LARGEST) else word for word in sandbox.bubblewrap(job, name)]

    boxes, end = [], sandbox.Box.end
    with monkeypatch.context() as patch:
        patch.setattr(sandbox.Box, "end", lambda self: boxes.append(self))
        patch.setattr(sandbox, "DYING", 0.5)
        patch.setitem(sandbox.WAYS, shut, roomy)
        said = sandbox.works(shut)
    for box in boxes:
        end(box)
    assert said == "it lets a process fill the disk, outlive the grader"


# ---- Nothing outlives its judging

LEFT = {
    "a double fork in a session of its own": """
if os.fork() == 0:
    for one in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(one, signal.SIG_IGN)
    tries("session", lambda: os.setsid() and None)
    if os.fork() == 0:
        tries("session", lambda: os.setsid() and None)
        nap("undead")
    os._exit(0)
""",
    "a message that is no dict": """
from vitbook.grading.wire import packed
import numpy
if os.fork() == 0: nap("undead")
for fd in range(3, 40):
    try: os.write(fd, packed(numpy.zeros(3)))
    except OSError: pass
""",
    "first in line": """
parent = call(56 if os.uname().machine == "x86_64" else 220, 0x8000 | 17, 0, 0, 0, 0)  # CLONE_PARENT
if parent == 0: nap("undead")
""",
    "pid 1 is asked to forget": """
for pid in (1, os.getppid()):
    tries("attach", lambda: libc.ptrace(16, pid, 0, 0))
    tries("memory", lambda: os.open(f"/proc/{pid}/mem", os.O_RDWR))
libc.prctl(1, 0, 0, 0, 0)
if os.fork() == 0:
    libc.prctl(1, 0, 0, 0, 0)
    nap("undead")
""",
    "its own nurse": """
libc.prctl(36, 1, 0, 0, 0)
for _ in range(5):
    if os.fork() == 0:
        if os.fork() == 0: nap("undead")
        os._exit(0)
""",
    "the pipes are passed on, and the program ends": """
if os.fork() == 0: nap("undead")
os._exit(0)
""",
    "many that fork on": """
for _ in range(6):
    if os.fork() == 0:
        until = time.time() + 20
        while time.time() < until:
            if os.fork(): os._exit(0)
            libc.prctl(15, b"undead")
            time.sleep(0.001)
        os._exit(0)
""",
}


@pytest.mark.parametrize("case", LEFT)
def test_nothing_that_a_submission_started_is_left(case, shut, tmp_path):
    student.judge(shut, store(tmp_path / "one.ipynb", TRIES, LEFT[case], COUNT, COUNT_CHECK), ["1.1"], seconds=20.0)
    assert gone("undead")


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_an_error_of_the_grader_leaves_nothing(error, shut, tmp_path, monkeypatch):
    reads = wire.unpacked

    def breaks(*message):
        said = reads(*message)
        if "at" not in said:  # the cells have run
            raise error
        return said

    monkeypatch.setattr(wire, "unpacked", breaks)
    path = store(tmp_path / "one.ipynb", TRIES, LEFT["a double fork in a session of its own"], COUNT, COUNT_CHECK)
    with pytest.raises(error):
        student.judge(shut, path, ["1.1"], seconds=SECONDS)
    assert gone("undead")


def waits_for(condition, seconds=300):  # on a very busy machine
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize("by", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_a_grader_that_is_killed_takes_all_with_it(by, shut, tmp_path, folder):
    path = store(tmp_path / "one.ipynb", TRIES, LEFT["a double fork in a session of its own"] + "\nnap('undead')")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background is born deaf to it
    grader = get_context("fork").Process(target=student.judge, args=(shut, path, ["1.1"]))
    grader.start()
    try:
        waits_for(lambda: "(undead)" in alive())
        os.kill(grader.pid, getattr(signal, by))
        grader.join(60)
    finally:
        grader.kill(), grader.join()
    assert gone("undead", within=10)
    waits_for(lambda: not list(folder.iterdir()), 20)


def test_a_supervisor_that_is_killed_is_stood_in_for(shut, tmp_path, monkeypatch):
    cells = TRIES, LEFT["a double fork in a session of its own"], "nap('undead')"

    def kill(process):
        if "(undead)" in alive():
            process.kill()
        return ""

    monkeypatch.setattr(sandbox, "excess", kill)
    assert not said_of(shut, tmp_path, *cells, number="1.1", seconds=3.0).right  # whom nobody ends, takes it all
    assert gone("undead", within=5)


def test_a_machine_that_is_too_busy_is_called_so(shut, monkeypatch):
    """On one with many other programs, Python and torch did not start in two minutes."""
    monkeypatch.setattr(sandbox, "TRYING", 0.01)
    assert "is the machine busy" in sandbox.works(shut)


def test_a_long_folder_for_temporary_files_and_data_for_their_owner_alone_stop_nothing(shut, tmp_path, monkeypatch):
    """The address of a socket of Unix has room for 107 bytes."""
    long = tmp_path / ("long" * 30)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    (tmp_path / "data").mkdir(0o700)
    monkeypatch.setenv("VITNB_DATA", str(tmp_path / "data"))
    assert sandbox.works(shut) == ""


@pytest.mark.parametrize("times", [1, 5])
def test_ctrl_c_keeps_the_marks_so_far(shut, times, tmp_path):
    (tmp_path / "in").mkdir()  # an empty folder would be a student who handed in nothing
    for name, cells in {"Ada": [COUNT, COUNT_CHECK], "Ben": [WRONG, COUNT_CHECK]}.items():
        store(tmp_path / "in" / f"{name}.ipynb", *cells)
    for name in ("Eve", "Fay", "Gus"):
        left = LEFT["a double fork in a session of its own"]
        store(tmp_path / "in" / f"{name}.ipynb", TRIES, left, "nap('undead')", COUNT_CHECK)
    (tmp_path / "sheet.csv").write_text("Identifier,Full name,Grade\nParticipant 1,Ada,\nParticipant 5,Eve,\n")
    command = [sys.executable, "-m", "vitbook.grading.cli", tmp_path / "in", "--exercises", "1.1", "--sandbox", shut]
    command += ["--out", tmp_path / "out", "--jobs", "1", "--sheet", tmp_path / "sheet.csv"]
    own = {**os.environ, "TMPDIR": str(tmp_path / "sandboxes")}
    pipe = subprocess.PIPE
    run = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True, env=own)
    try:
        waits_for(lambda: "(undead)" in alive())
        for _ in range(times):
            os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to the grader and all its processes
            time.sleep(0.3)
        out, errors = run.communicate(timeout=120)
    finally:
        run.kill(), run.wait()
    assert run.returncode == 130 and errors == "" and "Stopped. Not graded (3): " in out, out + errors
    assert "Eve, Fay, Gus" in out and "Handed in nothing" not in out and not (tmp_path / "out" / "sheet.csv").exists()
    rows = (tmp_path / "out" / "grades.csv").read_text()
    assert "Ada" in rows and "Ben" in rows and "Eve" not in rows
    assert gone("undead")


def test_ctrl_c_before_the_first_mark_is_one_line(tmp_path, monkeypatch, capsys):
    def interrupts(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sandbox, "best", interrupts)
    store(tmp_path / "one.ipynb", COUNT)
    assert cli.main([str(tmp_path), "--exercises", "3.1"]) == 130
    assert capsys.readouterr().err == "vitnb-grade: stopped before anything was graded\n"


# ---- Messages

SAME = 2**61 - 1  # Python's hash of each multiple is 0


def message(value) -> bytes:
    return json.dumps(value).encode()


def tensors(count: int) -> bytes:
    text = b"{" + b",".join(b'"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % n for n in range(count)) + b"}"
    return len(text).to_bytes(8, "little") + text


def shaped(*shape) -> bytes:
    text = json.dumps({"0": {"dtype": "U8", "shape": shape, "data_offsets": [0, 0 if 0 in shape else 1]}}).encode()
    return len(text).to_bytes(8, "little") + text + (b"" if 0 in shape else b"\0")


MESSAGES = {
    "a set of numbers of one hash": lambda: (message({"set": [SAME * n for n in range(150_000)]}), b""),
    "many such sets": lambda: (message([{"set": [SAME * n for n in range(900)]} for _ in range(150)]), b""),
    "a frozen set": lambda: (message({"frozenset": [SAME * n for n in range(150_000)]}), b""),
    "keys of one hash": lambda: (message({"dict": [[SAME * n, 0] for n in range(100_000)]}), b""),
    "keys that are tuples of them": lambda: (
        message({"set": [{"tuple": [SAME * n, SAME * n]} for n in range(60_000)]}), b"",
    ),
    "long tuples that differ at the end": lambda: (
        message({"set": [{"tuple": [*[0] * 1500, SAME * n]} for n in range(900)]}), b"",
    ),
    "sets in sets": lambda: (message({"set": [{"frozenset": [SAME * n]} for n in range(90_000)]}), b""),
    "equal numbers that are tensors": lambda: (
        message({"set": [{"scalar": str(n), "of": "int64"} for n in range(3000)]}),
        save({str(n): torch.tensor(SAME * (n % 4)) for n in range(3000)}),
    ),
    "empty tensors without end": lambda: (message([]), tensors(200_000)),
    "a tensor with 100 000 axes": lambda: (message({"tensor": "0"}), shaped(*[1] * 100_000)),
    "rows without end": lambda: (message({"tensor": "0"}), shaped(2**60, 0)),
    "a header longer than the message": lambda: (message({"tensor": "0"}), (2**62).to_bytes(8, "little") + b"{}"),
    "lists of lists of lists": lambda: (b"[" * 200_000 + b"]" * 200_000, b""),
    "a million lists": lambda: (b"[" + b",".join([b"[]"] * 1_000_000) + b"]", b""),
    "a million dicts": lambda: (b"[" + b",".join([b"{}"] * 1_000_000) + b"]", b""),
    "a dict of many keys": lambda: (message({str(n): 0 for n in range(200_000)}), b""),
    "tuples in tuples": lambda: (b'{"tuple":[' * 300_000 + b"]}" * 300_000, b""),
    "a long number": lambda: (b"[" + b"9" * 3_900_000 + b"]", b""),
    "many long numbers": lambda: (b"[" + b",".join([b"9" * 4200] * 900) + b"]", b""),
    "a long fraction": lambda: (message({"float": "1" * 3_900_000}), b""),
    "things of one kind": lambda: (message([{"foreign": "x"}] * 200_000), b""),
    "things of many kinds": lambda: (message([{"foreign": str(n)} for n in range(170_000)]), b""),
    "one tensor again and again": lambda: (
        message([{"array": "0"}] * 190_000), save({"0": torch.zeros(1 << 20)}),
    ),
    "a name that no class may have": lambda: (message({"foreign": "a\0b\ud800"}), b""),
    "a dict of no pairs": lambda: (message({"dict": [1, 2]}), b""),
    "an empty dict": lambda: (message({}), b""),
    "a text for a list": lambda: (message({"list": "x" * 3_000_000}), b""),
    "the same key": lambda: (b"{" + b",".join([b'"set": []'] * 190_000) + b"}", b""),
}  # fmt: skip


@pytest.mark.parametrize("case", MESSAGES)
def test_no_message_makes_the_grader_work_without_bound(case):
    text, body = MESSAGES[case]()
    assert len(text) <= wire.TEXT and len(body) <= wire.LIMIT, "the test itself sends too much"
    before = resource.getrusage(resource.RUSAGE_SELF)
    with contextlib.suppress(ValueError), student.in_time(time.monotonic() + 60):
        wire.unpacked(text, body)
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_utime - before.ru_utime < 4 and after.ru_maxrss - before.ru_maxrss < 600_000


ODD = [None, 3, "text", [], {}, {1: 2}, torch.zeros(1 << 24), torch.zeros(3).numpy(), [torch.zeros(2)] * 9,
       {"errors": torch.zeros(1 << 24), "answers": []}, {"errors": [], "answers": torch.zeros(1 << 24)},
       {"errors": 3, "answers": None}, {"errors": [[1]], "answers": [["3.1"]]}, {"errors": {"x": 1}, "answers": {1}},
       {"raised": torch.zeros(1 << 22)}, {"raised": "A\0B"}, {"raised": "\ud800"}, {"raised": "ExceptionGroup"},
       {"raised": "KeyboardInterrupt", "notes": torch.zeros(1 << 22)}, {"raised": "SystemExit", "notes": ["0"]},
       {"raised": "ValueError", "notes": ["x" * 10**6] * 4, "line": torch.zeros(2)},
       {"raised": ["a"], "line": "x" * 10**6},
       {"changed": torch.zeros(3)}, {"changed": {5: torch.zeros(2)}}, {"changed": {"0": 1, -1: 2, None: 3}},
       {"changed": [1]}, {"untouched": torch.zeros(2)}, {"returned": torch.zeros(0, 1 << 20), "untouched": "yes"},
       {"right": torch.ones(2), "sound": torch.ones(2), "said": torch.zeros(1 << 24)},
       {"raised": "E", "kinds": torch.zeros(1 << 22)}, {"raised": "E", "kinds": ["ValueError", "OSError"] * 10**5},
       {"raised": "E", "kinds": ["exit", "__import__", "A\0B", 3, None]}, {"raised": "E", "kinds": "ValueError"},
       {"raised": "E", "kinds": [one for one in vars(builtins) if one.endswith("Error")]},
       {"raised": "E", "files": torch.zeros(1 << 22)},
       {"raised": "E", "files": ["/vitnb/" * 10**5, "\0", 3] * 9}]  # fmt: skip
TOLD = [*ODD, {"at": torch.zeros(1 << 22)}, {"at": (torch.zeros(2), 1)}, {"at": (-1, 0)}, {"at": (10**4000, 0)},
        {"at": [1, 2]}, {"at": (1, 2, 3)}, {"at": ("1", 2)}, {"at": (True, 1)}, {"at": {1: 2, 3: 4}}, {"at": "12"},
        {"recorded": torch.zeros(1 << 22)}, {"recorded": ["3.1"]}, {"recorded": None}, {"recorded": "5.2"},
        {"errors": ["x" * 10**6] * 3}, {"errors": ["ModuleNotFoundError \ud800\x1b[2J" * 10**4] * 99},
        {"errors": [], "alike": torch.zeros(1 << 22)}, {"errors": [], "alike": [["3.1", "x"]]},
        {"errors": [], "alike": {"3.1": torch.zeros(1 << 22)}}, {"errors": [], "alike": {"3.1": "\ud800\n" * 10**6}},
        {"errors": [], "answers": ["3.1"] * 10**5}, {"errors": [], "answers": "3.1"}]  # fmt: skip


class Sent(student.Student):
    """A student whose process is this message."""

    def __init__(self, reply):
        self.reply, self.pending, self.reason, self.machine, self.seed = reply, False, "", "", ""
        self.errors, self.answers, self.at, self.alike = [], {"3.1"}, [0, 0], {}
        self.way = "container"  # which has no processes to look at

    def receive(self, until):
        return self.reply

    def ask(self, number, given, until):
        if type(self.reply) is not dict:
            raise student.Stopped(student.NO_ANSWER)
        return self.reply


@pytest.mark.parametrize("n", range(len(ODD)))
@pytest.mark.parametrize("inside", [False, True])
def test_a_reply_of_any_kind_is_a_verdict_or_no_answer(n, inside):
    one, start = student._inside if inside else student._outside, time.process_time()
    with contextlib.suppress(student.Stopped):
        verdict = one(Sent(ODD[n]), "3.1", time.monotonic() + 60)
        assert not verdict.right and "student.py" not in verdict.sentence and "given[i]" not in verdict.sentence
    with contextlib.suppress(student.Stopped):
        student.texts(ODD[n], "errors"), student.texts(ODD[n], "answers")
    assert time.process_time() - start < 5


@pytest.mark.parametrize("n", range(len(TOLD)))
def test_whatever_a_run_tells_is_a_verdict_that_can_be_written(n, tmp_path):
    """The place, the answers, the errors and the names that a notebook tells while its cells run."""
    sitting = student.Sitting(lambda plan: Sent(TOLD[n]), ["3.1"], "outside", 60.0, time.monotonic() + 60)
    start, sitting.past["3.1"] = time.process_time(), student.TRIES
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sent, "ready", lambda self, until: None)
        patch.setattr(Sent, "end", lambda self: None)
        said = sitting.held()
    assert not said["3.1"].right and time.process_time() - start < 10
    grade = reports.Grade(Submission("Ada", "Ada"), said, {"3.1": 1.0})
    reports.table([grade], tmp_path / "grades.csv")
    written = (tmp_path / "grades.csv").read_text(encoding="utf-8")
    assert len(written) < 10_000 and "\x1b" not in written and written.count("\n") == 2


@pytest.mark.parametrize("n", range(len(TOLD)))
def test_only_the_first_place_is_where_a_notebook_begins(n):
    with pytest.raises(student.Stopped, match="something else than an answer"):
        Sent(TOLD[n]).ready(time.monotonic() + 60)


def test_a_start_that_fails_takes_no_time_of_the_notebook(tmp_path, monkeypatch):
    """On a busy machine it did, and the exercises that were judged last got no points."""
    starts = []

    class Slow(Sent):
        def __init__(self, *given, **named):
            super().__init__({"errors": [], "answers": []})

        def ready(self, until):
            starts.append(until)
            if len(starts) == 1:
                time.sleep(2)
                raise student.Ended(student.LATE)

        def end(self):
            pass

    monkeypatch.setattr(student, "Student", Slow)
    path = store(tmp_path / "one.ipynb", "pass")
    said = student.judge("container", path, ["3.1", "5.2"], last=time.monotonic() + 1)
    assert len(starts) == 3 and all("not done yet" in one.sentence for one in said.values()), said
    assert said["3.1"].suspect == "it did not begin: it took too long (is there a loop that does not end?)."


def test_a_check_that_does_not_end_is_ended(monkeypatch):
    """Whatever a submission returns that keeps the check itself busy."""

    def busy(number, answer):
        while True:
            pass

    monkeypatch.setattr(student.engine, "judged", busy)
    monkeypatch.setattr(student, "GRACE", 0.5)
    start = time.monotonic()
    with pytest.raises(student.Stopped, match="took too long"):
        student._outside(Sent({}), "3.1", time.monotonic())
    assert time.monotonic() - start < 10 and signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_whoever_sends_slowly_has_no_more_time_than_others():
    reading, writing = os.pipe()
    one = Sent({})
    one.back = reading
    stop = threading.Event()

    def drips():
        while not stop.wait(0.01):
            os.write(writing, b"x")

    threading.Thread(target=drips, daemon=True).start()
    start = time.monotonic()
    with pytest.raises(student.Stopped, match="took too long"):
        one.read(1 << 20, time.monotonic() + 0.5)
    stop.set()
    assert time.monotonic() - start < 5


def test_a_check_that_gives_up_first_says_why_no_answer_came():
    """Processes without end were told as a loop where the machine was busy."""
    one = Sent({})
    one.pending, one.reason = True, sandbox.CROWDED
    sitting = student.Sitting(lambda: one, ["3.1"], "outside", 1.0, time.monotonic() + 5)
    with pytest.raises(student.Stopped, match="too many processes"):
        sitting.judge(one, "3.1")


# ---- Honest students, limits, and folders


def test_a_start_depends_on_no_other_process(monkeypatch):
    """A process that ends while the limits are set cost a student all points."""

    def ends(*_):
        raise FileNotFoundError("/proc/4711/task")

    monkeypatch.setattr(Path, "glob", ends)
    bounds = sandbox.limits(-1)
    assert bounds[resource.RLIMIT_NPROC] > sandbox.THREADS


@pytest.mark.skipif(os.geteuid() != 0, reason="of root alone")
def test_root_in_a_container_sees_what_forks_share(tmp_path):
    """It may not look into others' processes, and would count all that they share in each."""
    code = """
import os, time
from pathlib import Path
from vitbook.grading import _rights, sandbox
given = 0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31  # the rights of root in docker
reading, writing = os.pipe()
if (one := os.fork()) == 0:
    os.setpgid(0, 0), os.setgroups([]), os.setgid(sandbox.NOBODY), os.setuid(sandbox.NOBODY)
    _rights.libc.prctl(4, 1)  # may be looked at by its own user, as a program that has just begun
    taken = bytearray(os.urandom(1 << 20) * 200)
    os.fork(), os.write(writing, b"."), time.sleep(60), os._exit(0)
os.read(reading, 1), os.read(reading, 1)
_rights.keep(sum(1 << right for right in given))
path = Path(f"/proc/{one}")
print(sandbox.memory(path) >> 20, sandbox.memory(path, shared=False) >> 20)
os.killpg(one, 9)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    whole, own = map(int, done.stdout.split()) if done.stdout else pytest.fail(done.stderr)
    assert whole >= 200 and own < 0.7 * whole


def test_forks_are_counted_with_what_is_their_own(shut, tmp_path):
    """An allowance for what forks share would hide as much in each. When memory is short, they are the first to go."""
    seen = []
    looks = sandbox.excess

    def watch(process):
        for path, _ in sandbox.members(process.pid):
            with contextlib.suppress(OSError):
                if (path / "comm").read_text() == "taker\n":
                    seen.append(int((path / "oom_score_adj").read_text()))
        return looks(process)

    attack = """
if True:
    pids = []
    for _ in range(16):
        if os.fork() == 0:
            libc.prctl(15, b"taker")
            x = bytearray(os.urandom(1 << 20) * 280)
            time.sleep(150)
            os._exit(0)
    time.sleep(150)
"""
    path = store(tmp_path / "one.ipynb", TRIES, attack, COUNT, COUNT_CHECK)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox, "excess", watch)
        said = student.judge(shut, path, ["1.1"], seconds=SECONDS)["1.1"].suspect
    assert "4 GB of memory" in said and set(seen) == {1000}


def test_while_a_notebook_runs_nobody_else_can_read_it(shut, tmp_path, folder):
    modes = []
    looks = sandbox.excess

    def watch(process):
        with contextlib.suppress(OSError):
            modes.extend(path.stat().st_mode & 0o777 for path in folder.iterdir())
        return looks(process)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox, "excess", watch)
        path = store(tmp_path / "one.ipynb", counting("import time; time.sleep(0.1)"), COUNT_CHECK)
        assert student.judge(shut, path, ["1.1"], seconds=SECONDS)["1.1"].right
    assert set(modes) == {0o700}


HONEST = {
    "files": """
import tempfile, shutil
with tempfile.TemporaryDirectory() as folder:
    torch.save({"a": torch.ones(3)}, folder + "/a.pt")
    os.replace(folder + "/a.pt", folder + "/b.pt")
    shutil.copy2(folder + "/b.pt", folder + "/c.pt")
    assert torch.load(folder + "/c.pt", weights_only=True)["a"].sum() == 3
with tempfile.NamedTemporaryFile("w+") as file:
    file.write("x"); file.flush(); os.chmod(file.name, 0o600)
""",
    "threads and a thread pool": """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool: assert sum(pool.map(abs, range(100))) == 4950
torch.set_num_threads(2); torch.randn(300, 300) @ torch.randn(300, 300)
""",
    "an event loop": """
import asyncio
async def one(): await asyncio.sleep(0.01); return 1
assert await one() == 1
""",
    "a figure": """
import matplotlib.pyplot as plt
plt.plot([1, 2]); plt.savefig("x.png"); plt.close()
""",
    "training": """
net = nn.Linear(4, 2); step = torch.optim.AdamW(net.parameters())
for _ in range(5):
    loss = net(torch.randn(8, 4)).pow(2).mean(); step.zero_grad(); loss.backward(); step.step()
""",
    "a program": """
import subprocess
assert subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True).stdout == b"1\\n"
""",
    "processes that train together": """
import torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
dist.init_process_group("gloo", rank=0, world_size=1); dist.all_reduce(torch.ones(2)); dist.destroy_process_group()
""",
    "workers": """
from torch.utils.data import DataLoader, TensorDataset
assert sum(len(x) for x, in DataLoader(TensorDataset(torch.arange(8.)), 2, num_workers=2)) == 8
""",
}  # fmt: skip


@pytest.fixture(scope="session")
def noticed(shut, tmp_path_factory):
    """What an honest notebook says of each thing that it does, all of them in one."""
    cells = ["import traceback\nsaid = {}"]
    for case, text in HONEST.items():
        code = "\n".join(f"    {line}" for line in text.strip().split("\n"))
        cells += [f"try:\n{code}\n    said[{case!r}] = 'fine'\n"
                  f"except BaseException:\n    said[{case!r}] = traceback.format_exc()[-150:]"]  # fmt: skip
    tell = "def count_tokens(*size):\n    raise ValueError(said)"
    return said_of(shut, tmp_path_factory.mktemp("honest"), *cells, tell, COUNT_CHECK).sentence


@pytest.mark.parametrize("case", HONEST)
def test_an_honest_notebook_notices_nothing(case, shut, noticed):
    assert f"'{case}': 'fine'" in noticed, noticed
