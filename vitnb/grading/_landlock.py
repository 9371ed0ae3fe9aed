"""Give up, for good, all files but the named ones and all TCP, by Landlock; then run Python with the given arguments.

    python _landlock.py HOME READ:READ:... LIST ARGUMENTS...

HOME may be written, each READ be read, and of LIST (a folder) the names below it
be listed. Needs no root, no package and no namespace, only Linux 5.13; TCP is
refused from 6.7 on, signals to other processes from 6.12 on, UDP not at all.
"""

import ctypes
import os
import sys

CREATE, ADD, RESTRICT = 444, 445, 446  # system calls: the same numbers on x86-64 and arm64
PATH_BENEATH = 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
READ = EXECUTE | READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE
NO_NEW_PRIVS = 38

libc = ctypes.CDLL(None, use_errno=True)


class Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("access", ctypes.c_uint64), ("fd", ctypes.c_int32)]


def call(number, *arguments):
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def restrict(rules: dict[str, int]) -> None:
    """Leave this process and its children these paths with these rights, and nothing else."""
    version = call(CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    everything = (1 << 13) - 1  # the rights of version 1, then one more each
    for since, bit in ((2, 13), (3, 14), (5, 15)):
        everything |= (version >= since) << bit
    ruleset = Ruleset(everything, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    handle = call(CREATE, ctypes.byref(ruleset), ctypes.c_size_t(size), ctypes.c_uint32(0))
    for path, access in rules.items():
        if not os.path.exists(path):
            continue
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        allowed = access & everything if os.path.isdir(path) else access & everything & (OF_FILES | 3 << 14)
        call(ADD, handle, PATH_BENEATH, ctypes.byref(Beneath(allowed, fd)), ctypes.c_uint32(0))
        os.close(fd)
    if libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError("no_new_privs was refused")
    call(RESTRICT, handle, ctypes.c_uint32(0))
    os.close(handle)


if __name__ == "__main__":
    home, reads, listed, *arguments = sys.argv[1:]
    own = f"/proc/{os.getpid()}"
    restrict({**dict.fromkeys([*reads.split(":"), own], READ), listed: READ_DIR, home: -1, "/dev/null": -1})
    os.environ["PYTHONPATH"] = f"{home}/lib"
    os.execv(sys.executable, [sys.executable, *arguments])
