"""Outside the sandbox: start it, and when the grader lets go, end all that is left of it and delete its folder.

    python -I -S _supervisor.py LIFELINE

LIFELINE is the reading end of a pipe whose other end only the grader holds. First
comes what is asked, its length and JSON: command, folder, limits (number -> most)
and after, a command that is run at the end. The pipe closes when the grader wants
to end the sandbox, and also when the grader is killed. Orphans of the sandbox come to this process
(PR_SET_CHILD_SUBREAPER), so none can be left behind.
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import shutil
import signal
import sys
import time

DEATH_SIGNAL, SUBREAPER = 1, 36  # of prctl
IGNORED = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
LOOK = 0.05  # seconds between two looks for what has ended


def prctl(what: int, value: int) -> None:
    """Raises: OSError if the kernel refuses. Where there is no Linux, an engine of containers does all this."""
    if sys.platform == "linux" and ctypes.CDLL(None).prctl(what, value, 0, 0, 0):
        raise OSError(f"prctl {what} was refused")


def begin(asked: dict, supervisor: int) -> None:
    """Become the sandbox."""
    try:
        os.setpgid(0, 0)
        prctl(DEATH_SIGNAL, signal.SIGKILL)
        for one in IGNORED:
            signal.signal(one, signal.SIG_DFL)
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")  # when memory is short, this goes first
        for what, most in asked["limits"].items():
            resource.setrlimit(int(what), (most, most))
        if os.getppid() == supervisor:
            os.execvp(asked["command"][0], asked["command"])
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", flush=True)
    os._exit(1)


def children() -> list[int]:
    """The processes whose parent this one is."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
            if int(file.read().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(name))
    return found


def over(child: int) -> bool:
    """Bury orphans; return whether the sandbox itself has ended."""
    while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if found.si_pid == child:
            return True  # not buried yet: its number stays its own
        os.waitpid(found.si_pid, 0)
    return False


def sweep(child: int) -> None:
    """Kill until nobody is left: what loses its parent becomes a child of this process."""
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    while True:
        for one in children():
            with contextlib.suppress(OSError):
                os.kill(one, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def main(lifeline: int, asked: dict) -> None:
    for one in IGNORED:
        signal.signal(one, signal.SIG_IGN)
    prctl(SUBREAPER, 1)
    supervisor = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(lifeline)
        begin(asked, supervisor)
    nothing = os.open(os.devnull, os.O_RDWR)
    for one in range(3):  # else nobody would see that the sandbox closes them
        os.dup2(nothing, one)
    while not select.select([lifeline], [], [], LOOK)[0] and not over(child):
        pass
    sweep(child)
    if asked["after"]:
        os.spawnvp(os.P_WAIT, asked["after"][0], asked["after"])
    os.chdir("/")
    shutil.rmtree(asked["folder"], ignore_errors=True)


def asked(lifeline: int) -> dict:
    """What the grader wants to have run."""
    with open(lifeline, "rb", closefd=False) as file:
        return json.loads(file.read(int.from_bytes(file.read(8), "little")))


if __name__ == "__main__":
    main(int(sys.argv[1]), asked(int(sys.argv[1])))
