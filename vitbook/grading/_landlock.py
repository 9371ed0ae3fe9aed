"""Give up, for good, all files but the named ones and all power over other processes; then run Python.

    python -I -S _landlock.py alone|within USER HOME READ:READ:... LIST:LIST:... CALLS ARGUMENTS...

HOME may be written, each READ be read, and of each LIST (a folder) the names below it
be listed. Landlock refuses the files and TCP; CALLS, a filter that syscalls.py made,
refuses what Landlock does not know: changing modes, owners and times, leases, keys,
other programs' memory, new namespaces, memory that belongs to no process.
USER is the number of a user who owns nothing, or -1 to stay who one is.

`alone` nothing else protects the machine: sockets are refused, too (a desktop
runs programs for whoever reaches its bus), and signals for other processes, and
leaving the group of processes in which the grader ends them all. It needs no root
and no namespace, but Linux 6.2. `within` bubblewrap this is the second wall, and on a
kernel without Landlock the filter stands by itself.
"""

import base64
import contextlib
import ctypes
import os
import sys

CREATE, ADD, RESTRICT = 444, 445, 446  # system calls: the same numbers on x86-64 and arm64
PATH_BENEATH = 1
OLDEST = 3  # before, a file that may be read, or not even that, could be emptied
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
READ = EXECUTE | READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE
NO_NEW_PRIVS, SECCOMP, DROP_CAPABILITY, KEEP_CAPABILITIES, AMBIENT = 38, 22, 24, 8, 47
SEARCH = 2  # CAP_DAC_READ_SEARCH
OWN = "cmdline", "exe", "fd", "limits", "maps", "stat", "statm", "status"  # of /proc/self; net and mounts would tell

libc = ctypes.CDLL(None, use_errno=True)


class Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("access", ctypes.c_uint64), ("fd", ctypes.c_int32)]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("code", ctypes.c_char_p)]


def call(number, *arguments):
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def prctl(*arguments):
    if libc.prctl(*[ctypes.c_ulong(one) if isinstance(one, int) else one for one in arguments]):
        raise OSError(ctypes.get_errno(), f"prctl {arguments[0]} was refused")


def version() -> int:
    """Which Landlock this kernel has; 0 where it has none."""
    if sys.platform != "linux":
        return 0
    try:
        return call(CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    except OSError:
        return 0


def restrict(rules: dict[str, int], version: int, alone: bool) -> None:
    """Leave this process and its children these paths with these rights, and nothing else."""
    everything = (1 << 13) - 1  # the rights of version 1, then one more each
    for since, bit in ((2, 13), (3, 14), (5, 15)):
        everything |= (version >= since) << bit
    # Within bubblewrap the network is one of its own.
    ruleset = Ruleset(everything, 3 if alone and version >= 4 else 0, 3 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    handle = call(CREATE, ctypes.byref(ruleset), ctypes.c_size_t(size), ctypes.c_uint32(0))
    for path, access in rules.items():
        if not os.path.exists(path):
            continue
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        allowed = access & everything if os.path.isdir(path) else access & everything & (OF_FILES | 3 << 14)
        call(ADD, handle, PATH_BENEATH, ctypes.byref(Beneath(allowed, fd)), ctypes.c_uint32(0))
        os.close(fd)
    call(RESTRICT, handle, ctypes.c_uint32(0))
    os.close(handle)


def keep(capabilities: int) -> None:
    """Give up root's rights, for good, but these (bits): what one owns is all that one may read."""
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(*[capabilities] * 3)
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset was refused")


def bound(capabilities: int) -> None:
    """Let no program that is started later have other rights than these."""
    with open("/proc/sys/kernel/cap_last_cap") as file:
        last = int(file.read())
    for one in range(last + 1):
        if not capabilities >> one & 1:
            with contextlib.suppress(OSError):  # who may not do so has too few rights to lose
                prctl(DROP_CAPABILITY, one, 0, 0, 0)


def become(user: int, paths: list[str]) -> None:
    """Become a user who owns nothing. Where that one could not reach Python, as in root's home, it may search."""
    prctl(KEEP_CAPABILITIES, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    hidden = [path for path in paths if not os.access(path, os.R_OK)]
    try:
        keep(1 << SEARCH if hidden else 0)
    except OSError:
        raise OSError(f"{hidden[0]} is not for all to read: install bubblewrap, or let other users read it") from None
    if hidden:
        prctl(AMBIENT, 2, SEARCH, 0, 0)


def main(place: str, user: str, home: str, reads: str, listed: str, calls: str, *arguments: str) -> None:
    alone, paths, has = place == "alone", [path for path in reads.split(":") if os.path.exists(path)], version()
    if alone and has < OLDEST:
        raise OSError(f"Landlock {has} leaves files open to be emptied: {OLDEST} or later is needed")
    writes = [home] if alone else [home, "/dev/shm"]
    for folder in writes if not alone and os.geteuid() == 0 else ():
        os.chmod(folder, 0o1777)
    if os.geteuid() == 0:
        bound(1 << SEARCH)
        become(int(user), paths) if int(user) >= 0 else keep(0)
    prctl(NO_NEW_PRIVS, 1, 0, 0, 0)
    if has:
        own = [f"/proc/{os.getpid()}/{name}" for name in OWN]
        rules = {**dict.fromkeys(filter(None, listed.split(":")), READ_DIR), **dict.fromkeys([*paths, *own], READ)}
        restrict({**rules, **dict.fromkeys([*writes, "/dev/null"], -1)}, has, alone)
    code = base64.b64decode(calls)
    prctl(SECCOMP, 2, ctypes.byref(Program(len(code) // 8, code)), 0, 0)
    if alone:
        os.environ["PYTHONPATH"] = f"{home}/lib"
    os.execv(sys.executable, [sys.executable, *arguments])


if __name__ == "__main__":
    main(*sys.argv[1:])
