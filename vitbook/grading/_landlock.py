"""Give up, for good, all files but the named ones and all power over other processes; then run Python.

    python -I -S _landlock.py alone|within USER HOME READ:READ:... LIST:LIST:... ARGUMENTS...

HOME may be written, each READ be read, and of each LIST (a folder) the names below it
be listed. Landlock refuses the files and TCP, a filter of system calls what
Landlock does not know: changing modes, owners and times, leases and locks, keys,
other programs' memory, new namespaces, memory that belongs to no process.
USER is the number of a user who owns nothing, or -1 to stay who one is.

`alone` nothing else protects the machine: sockets are refused, too (a desktop
runs programs for whoever reaches its bus), and signals for other processes, and
leaving the group of processes in which the grader ends them all. It needs no root,
no package and no namespace, but Linux 6.2 on x86-64 or arm64. `within` bubblewrap this
is the second wall, and on a kernel without Landlock the filter stands by itself.
"""

import contextlib
import ctypes
import errno
import os
import platform
import struct
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

# name: (number on x86-64, number on arm64); -1 where the machine has no such call.
REFUSED = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424), "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "migrate_pages": (256, 238), "move_pages": (279, 239),
    "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186), "mq_open": (240, 180),
    "memfd_create": (319, 279), "memfd_secret": (447, 447),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_setup": (206, 0), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "fanotify_init": (300, 262), "inotify_init": (253, -1), "inotify_init1": (294, 26),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "vmsplice": (278, 75),
    "unshare": (272, 97), "setns": (308, 268), "chroot": (161, 51), "pivot_root": (155, 41),
    "mount": (165, 40), "umount2": (166, 39), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "move_mount": (429, 429), "open_tree": (428, 428), "mount_setattr": (442, 442),
    "statmount": (457, 457), "listmount": (458, 458), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "syslog": (103, 116), "acct": (163, 89), "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142),
    "sethostname": (170, 161), "setdomainname": (171, 162), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "adjtimex": (159, 171), "clock_adjtime": (305, 266), "iopl": (172, -1), "ioperm": (173, -1),
    "modify_ldt": (154, -1), "uselib": (134, -1), "lookup_dcookie": (212, 18), "vhangup": (153, 58),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "ioprio_set": (251, 30),
}  # fmt: skip
# Where no namespace hides the machine's sockets and processes. Also messages: a file that lies in one is in no folder.
REFUSED_ALONE = {
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    "sendmsg": (46, 211), "sendmmsg": (307, 269),
    "kill": (62, 129), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "setsid": (112, 157), "setpgid": (109, 154), "truncate": (76, 45),
}  # fmt: skip
# What an honest library may do to its own files: told that it was done.
IGNORED = {
    "flock": (73, 32), "setpriority": (141, 140), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
}  # fmt: skip
IGNORED_ALONE = {
    "chmod": (90, -1), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, -1), "fchown": (93, 55), "lchown": (94, -1), "fchownat": (260, 54),
    "utime": (132, -1), "utimes": (235, -1), "utimensat": (280, 88), "futimesat": (261, -1),
}  # fmt: skip
# As on a disk that has none: they hold what others wrote about a file.
ATTRIBUTES = {
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "getxattr": (191, 8), "lgetxattr": (192, 9), "fgetxattr": (193, 10),
    "listxattr": (194, 11), "llistxattr": (195, 12), "flistxattr": (196, 13),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
}  # fmt: skip
CLONE, CLONE3, TGKILL, PRLIMIT, AFFINITY = (56, 220), (435, 435), (234, 131), (302, 261), (203, 122)
FCNTL, IOCTL, SOCKET, PAIR, PRCTL = (72, 25), (16, 29), (41, 198), (53, 199), (157, 167)
SETRLIMIT, CORE = (160, 164), 4  # how large a core may be decides whether the machine's program for crashes starts
MKDIR, MKDIRAT, UMASK = (83, -1), (258, 34), (95, 166)
LATEST = 463  # system calls from here on are younger than this list
NAMESPACES = 0x7E020000  # CLONE_NEWUSER and its like
FAMILIES = 1, 2, 10  # AF_UNIX, AF_INET, AF_INET6: those that a namespace of the network holds
NETLINK, ROUTE = 16, 0  # torch.distributed asks it which networks there are
# Duplicates, flags and what a pipe holds; owners, leases and notices would reach others.
FCNTLS = 0, 1, 2, 3, 4, 5, 36, 1027, 1030, 1032, 1034
LOCKS = 6, 7, 37, 38
IOCTLS = 0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451  # is it a terminal, how large, what is there
KEPT = 1, 4, 36  # of prctl: to die with the parent, to be looked at, to adopt orphans
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
LOAD, EQUAL, AT_LEAST, ANY, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
ALLOW, KILL, PRETEND = 0x7FFF0000, 0x80000000, 0x50000  # the last: an error, whose number is 0
NO, MISSING, NO_TERMINAL, UNSUPPORTED, NO_FAMILY = (
    PRETEND + number for number in (errno.EPERM, errno.ENOSYS, errno.ENOTTY, errno.EOPNOTSUPP, errno.EAFNOSUPPORT)
)

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


def program(which: int, architecture: int, pid: int, alone: bool) -> bytes:
    """The filter of system calls, for the kernel's packet filter: 8 bytes an instruction.

    Raises nothing; a call that is not named is allowed, if it is not younger than this list.
    """
    made: list[tuple[int, int, int, int]] = []

    def add(code: int, value: int, yes: int = 0, no: int = 0) -> None:
        made.append((code, yes, no, value))

    def all_of(calls: dict[str, tuple[int, int]], verdict: int) -> None:
        for numbers in calls.values():
            if numbers[which] >= 0:
                add(EQUAL, numbers[which], 0, 1)
                add(RETURN, verdict)

    def by_argument(numbers: tuple[int, int], n: int, verdicts: dict[int, int], otherwise: int, mask: int = -1) -> None:
        if numbers[which] < 0:
            return
        add(EQUAL, numbers[which], 0, 2 + (mask >= 0) + 2 * len(verdicts))
        add(LOAD, 16 + 8 * n)  # its lower half: both machines are little-endian
        if mask >= 0:
            add(AND, mask)
        for value, verdict in verdicts.items():
            add(EQUAL, value, 0, 1)
            add(RETURN, verdict)
        add(RETURN, otherwise)

    add(LOAD, 4)
    add(EQUAL, architecture, 1, 0)
    add(RETURN, KILL)
    add(LOAD, 0)
    if which == 0:  # x32: the same calls by other numbers
        add(AT_LEAST, 0x40000000, 0, 1)
        add(RETURN, NO)
    add(AT_LEAST, LATEST, 0, 1)
    add(RETURN, MISSING)
    all_of(REFUSED | (REFUSED_ALONE if alone else {}), NO)
    all_of(IGNORED | (IGNORED_ALONE if alone else {}), PRETEND)
    all_of(ATTRIBUTES, UNSUPPORTED)
    all_of({"clone3": CLONE3}, MISSING)
    # To oneself only: limits, and where to run; abort() sends itself a signal.
    by_argument(SETRLIMIT, 0, {CORE: NO}, ALLOW)
    add(EQUAL, PRLIMIT[which], 0, 7)
    for n, value, yes in ((0, 0, 1), (1, CORE, 0)):
        add(LOAD, 16 + 8 * n)
        add(EQUAL, value, yes, 1 - yes)
        add(RETURN, NO)
    add(RETURN, ALLOW)
    by_argument(AFFINITY, 0, {0: ALLOW}, PRETEND)
    if alone:
        by_argument(TGKILL, 0, {pid: ALLOW}, NO)
        # No folder that its owner cannot read: the grader looks how much is in it.
        by_argument(MKDIR, 1, {0o700: ALLOW}, NO, 0o700)
        by_argument(MKDIRAT, 2, {0o700: ALLOW}, NO, 0o700)
        by_argument(UMASK, 0, {0: ALLOW}, PRETEND, 0o700)
    by_argument(CLONE, 0, {0: ALLOW}, NO, NAMESPACES)
    add(EQUAL, SOCKET[which], 0, 6 + 2 * len(FAMILIES))
    add(LOAD, 16)
    for family in FAMILIES:
        add(EQUAL, family, 0, 1)
        add(RETURN, ALLOW)
    add(EQUAL, NETLINK, 0, 3)
    add(LOAD, 32)
    add(EQUAL, ROUTE, 0, 1)
    add(RETURN, ALLOW)
    add(RETURN, NO_FAMILY)
    by_argument(PAIR, 1, {1: ALLOW}, NO, 15)  # a pair of streams leads nowhere else; one of datagrams can be turned
    by_argument(FCNTL, 1, dict.fromkeys(FCNTLS, ALLOW) | dict.fromkeys(LOCKS, PRETEND), NO)
    by_argument(IOCTL, 1, dict.fromkeys(IOCTLS, ALLOW), NO_TERMINAL)
    by_argument(PRCTL, 0, dict.fromkeys(KEPT, PRETEND), ALLOW)
    add(RETURN, ALLOW)
    return b"".join(struct.pack("HBBI", *one) for one in made)


def filter_calls(alone: bool) -> None:
    """Refuse what Landlock does not know. Raises: OSError on a machine whose numbers are not here."""
    if platform.machine() not in MACHINES:
        raise OSError(f"the filter of system calls is made for {' and '.join(MACHINES)}")
    code = program(*MACHINES[platform.machine()], os.getpid(), alone)
    prctl(SECCOMP, 2, ctypes.byref(Program(len(code) // 8, code)), 0, 0)


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


def main(place: str, user: str, home: str, reads: str, listed: str, *arguments: str) -> None:
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
    filter_calls(alone)
    if alone:
        os.environ["PYTHONPATH"] = f"{home}/lib"
    os.execv(sys.executable, [sys.executable, *arguments])


if __name__ == "__main__":
    main(*sys.argv[1:])
