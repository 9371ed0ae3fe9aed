"""Within bubblewrap: give up root's rights and all system calls but a filter's, for good; then run Python.

    python -I -S _rights.py USER CALLS ARGUMENTS...

USER is the number of a user who owns nothing, or -1 to stay who one is. CALLS is
the filter that syscalls.py made.
"""

import base64
import contextlib
import ctypes
import os
import sys

NO_NEW_PRIVS, SECCOMP, DROP_CAPABILITY = 38, 22, 24

libc = ctypes.CDLL(None, use_errno=True)


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("code", ctypes.c_char_p)]


def prctl(*arguments):
    if libc.prctl(*[ctypes.c_ulong(one) if isinstance(one, int) else one for one in arguments]):
        raise OSError(ctypes.get_errno(), f"prctl {arguments[0]} was refused")


def keep(capabilities: int) -> None:
    """Give up root's rights, for good, but these (bits): what one owns is all that one may read."""
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(*[capabilities] * 3)
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset was refused")


def bound() -> None:
    """Let no program that is started later have root's rights."""
    with open("/proc/sys/kernel/cap_last_cap") as file:
        last = int(file.read())
    for one in range(last + 1):
        with contextlib.suppress(OSError):  # who may not do so has too few rights to lose
            prctl(DROP_CAPABILITY, one, 0, 0, 0)


def become(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def main(user: str, calls: str, *arguments: str) -> None:
    if os.geteuid() == 0:
        for folder in ("/tmp", "/dev/shm"):
            os.chmod(folder, 0o1777)
        bound()
        if int(user) >= 0:
            become(int(user))
        keep(0)
    prctl(NO_NEW_PRIVS, 1, 0, 0, 0)
    code = base64.b64decode(calls)
    prctl(SECCOMP, 2, ctypes.byref(Program(len(code) // 8, code)), 0, 0)
    os.execv(sys.executable, [sys.executable, *arguments])


if __name__ == "__main__":
    main(*sys.argv[1:])
