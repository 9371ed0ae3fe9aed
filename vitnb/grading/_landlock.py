"""Give up, for good, all files but the named ones and all power over other processes; then run Python.

    python _landlock.py HOME READ:READ:... LIST:LIST:... ARGUMENTS...

HOME may be written, each READ be read, and of each LIST (a folder) the names below it
be listed. Landlock refuses the files and TCP, a filter of system calls what
Landlock does not know: sockets of every kind (a desktop runs programs for
whoever reaches its bus), changing modes, owners and times, signals and limits
for other processes, and leaving the group of processes in which the grader
ends them all. Needs no root, no package and no namespace, only Linux 5.13 on
x86-64 or arm64.
"""

import ctypes
import os
import platform
import struct
import sys

CREATE, ADD, RESTRICT = 444, 445, 446  # system calls: the same numbers on x86-64 and arm64
PATH_BENEATH = 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
READ = EXECUTE | READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE
NO_NEW_PRIVS, SECCOMP, DROP_CAPABILITY = 38, 22, 24

# name: (number on x86-64, number on arm64); -1 where the machine has no such call.
REFUSED = {
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    "kill": (62, 129), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424), "pidfd_getfd": (438, 438),
    "setsid": (112, 157), "setpgid": (109, 154),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "migrate_pages": (256, 238), "move_pages": (279, 239),
    "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186), "mq_open": (240, 180),
    "io_uring_setup": (425, 425), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
}  # fmt: skip
# What an honest library may do to its own files: told that it was done.
IGNORED = {
    "chmod": (90, -1), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, -1), "fchown": (93, 55), "lchown": (94, -1), "fchownat": (260, 54),
    "utime": (132, -1), "utimes": (235, -1), "utimensat": (280, 88), "futimesat": (261, -1),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16), "removexattrat": (466, 466),
    "file_setattr": (469, 469), "flock": (73, 32),
    "setpriority": (141, 140), "ioprio_set": (251, 30), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
}  # fmt: skip
CLONE, CLONE3, TGKILL, PRLIMIT, AFFINITY = (56, 220), (435, 435), (234, 131), (302, 261), (203, 122)
FCNTL, IOCTL, PAIR = (72, 25), (16, 29), (53, 199)
NEW_USER = 0x10000000  # CLONE_NEWUSER
OWNERS = (
    8,
    10,
    15,
    0x8901,
    0x8902,
)  # F_SETOWN, F_SETSIG, F_SETOWN_EX, FIOSETOWN, SIOCSPGRP: signals by the kernel
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
LOAD, EQUAL, AT_LEAST, ANY, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
ALLOW, KILL, PRETEND, NO, MISSING = 0x7FFF0000, 0x80000000, 0x50000, 0x50001, 0x50026  # errno 0, EPERM, ENOSYS

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
    call(RESTRICT, handle, ctypes.c_uint32(0))
    os.close(handle)


def program(which: int, architecture: int, pid: int) -> bytes:
    """The filter of system calls, for the kernel's packet filter: 8 bytes an instruction.

    Raises nothing; a call that is not named is allowed.
    """
    made: list[tuple[int, int, int, int]] = []

    def add(code: int, value: int, yes: int = 0, no: int = 0) -> None:
        made.append((code, yes, no, value))

    def argument(n: int) -> int:
        return 16 + 8 * n  # its lower half: both machines are little-endian

    add(LOAD, 4)
    add(EQUAL, architecture, 1, 0)
    add(RETURN, KILL)
    add(LOAD, 0)
    if which == 0:  # x32: the same calls by other numbers
        add(AT_LEAST, 0x40000000, 0, 1)
        add(RETURN, NO)
    for calls, verdict in ((REFUSED, NO), (IGNORED, PRETEND), ({"clone3": CLONE3}, MISSING)):
        for numbers in calls.values():
            if numbers[which] >= 0:
                add(EQUAL, numbers[which], 0, 1)
                add(RETURN, verdict)
    # To oneself only: limits, and where to run; abort() sends itself a signal.
    for numbers, own, verdict in ((PRLIMIT, 0, NO), (AFFINITY, 0, PRETEND), (TGKILL, pid, NO)):
        add(EQUAL, numbers[which], 0, 4)
        add(LOAD, argument(0))
        add(EQUAL, own, 0, 1)
        add(RETURN, ALLOW)
        add(RETURN, verdict)
    add(EQUAL, CLONE[which], 0, 4)
    add(LOAD, argument(0))
    add(ANY, NEW_USER, 0, 1)
    add(RETURN, NO)
    add(RETURN, ALLOW)
    add(EQUAL, PAIR[which], 0, 5)  # a pair of streams leads nowhere else; one of datagrams can be turned
    add(LOAD, argument(1))
    add(AND, 15)
    add(EQUAL, 1, 0, 1)
    add(RETURN, ALLOW)
    add(RETURN, NO)
    for numbers in (FCNTL, IOCTL):
        add(EQUAL, numbers[which], 0, 2 + 2 * len(OWNERS))
        add(LOAD, argument(1))
        for command in OWNERS:
            add(EQUAL, command, 0, 1)
            add(RETURN, NO)
        add(RETURN, ALLOW)
    add(RETURN, ALLOW)
    return b"".join(struct.pack("HBBI", *one) for one in made)


def filter_calls() -> None:
    """Refuse what Landlock does not know. Raises: OSError on a machine whose numbers are not here."""
    if platform.machine() not in MACHINES:
        raise OSError(f"the filter of system calls is made for {' and '.join(MACHINES)}")
    code = program(*MACHINES[platform.machine()], os.getpid())
    prctl(SECCOMP, 2, ctypes.byref(Program(len(code) // 8, code)), 0, 0)


def drop_capabilities() -> None:
    """Root without root's rights, for good: what it owns is all that it may read."""
    with open("/proc/sys/kernel/cap_last_cap") as file:
        last = int(file.read())
    for one in range(last + 1):
        prctl(DROP_CAPABILITY, one, 0, 0, 0)
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset was refused")


if __name__ == "__main__":
    home, reads, listed, *arguments = sys.argv[1:]
    own = f"/proc/{os.getpid()}"
    if os.geteuid() == 0:
        drop_capabilities()
    prctl(NO_NEW_PRIVS, 1, 0, 0, 0)
    restrict(
        {
            **dict.fromkeys(listed.split(":"), READ_DIR),
            **dict.fromkeys([*reads.split(":"), own], READ),
            home: -1,
            "/dev/null": -1,
        }
    )
    filter_calls()
    os.environ["PYTHONPATH"] = f"{home}/lib"
    os.execv(sys.executable, [sys.executable, *arguments])
