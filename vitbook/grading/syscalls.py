"""The system calls of a sandbox: those named here are allowed, every other one does not exist (ENOSYS).

libseccomp compiles the list for the machine's own processor; _rights.py installs it.
ENOSYS, not EPERM, because libraries then do as on an older kernel (clone3, io_uring).
"""

import errno
import functools
import tempfile

ALLOWED = """
    read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek sendfile copy_file_range splice tee
    open openat openat2 creat close close_range stat fstat lstat newfstatat statx statfs fstatfs access faccessat
    faccessat2 readlink readlinkat getdents getdents64 getcwd chdir fchdir rename renameat renameat2 rmdir link linkat
    unlink unlinkat symlink symlinkat ftruncate fallocate fsync fdatasync sync_file_range fadvise64 readahead
    dup dup2 dup3 pipe pipe2 poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait
    epoll_pwait2 eventfd eventfd2 signalfd signalfd4 timerfd_create timerfd_settime timerfd_gettime
    brk mmap munmap mremap mprotect madvise msync mincore membarrier
    fork vfork execve exit exit_group wait4 waitid set_tid_address set_robust_list rseq futex futex_waitv arch_prctl
    getpid getppid gettid getpgid getpgrp getsid getuid geteuid getgid getegid getresuid getresgid getgroups capget
    sched_yield sched_getaffinity sched_getparam sched_getscheduler sched_getattr sched_get_priority_max
    sched_get_priority_min sched_rr_get_interval getpriority getcpu getrlimit getrusage times sysinfo uname getrandom
    time gettimeofday clock_gettime clock_getres nanosleep clock_nanosleep alarm getitimer setitimer timer_create
    timer_settime timer_gettime timer_getoverrun timer_delete restart_syscall pause
    rt_sigaction rt_sigprocmask rt_sigpending rt_sigtimedwait rt_sigsuspend rt_sigreturn sigaltstack
    sendto recvfrom getsockname getpeername getsockopt setsockopt shutdown
    connect bind listen accept accept4 sendmsg sendmmsg recvmsg recvmmsg kill tkill tgkill setsid setpgid truncate
    mkdir mkdirat umask chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes utimensat futimesat
""".split()
# What an honest library may do to its own files: told that it was done.
IGNORED = "flock setpriority sched_setscheduler sched_setparam sched_setattr".split()
# As on a disk that has none: they hold what others wrote about a file.
ATTRIBUTES = [f"{which}{do}xattr" for which in ("", "l", "f") for do in ("get", "set", "list", "remove")]
NAMESPACES = 0x7E020000  # CLONE_NEWUSER and its like
FAMILIES = 1, 2, 10  # AF_UNIX, AF_INET, AF_INET6: those that a namespace of the network holds
NETLINK, ROUTE = 16, 0  # torch.distributed asks it which networks there are
# Duplicates, flags and what a pipe holds; owners, leases and notices would reach others.
FCNTLS = 0, 1, 2, 3, 4, 5, 36, 1027, 1030, 1032, 1034
LOCKS = 6, 7, 37, 38
IOCTLS = 0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451  # is it a terminal, how large, what is there
PRCTLS = 3, 15, 16, 23, 38, 39, 0x53564D41  # may one be looked at, names of threads and of memory, rights
KEPT = 1, 4, 36  # of prctl: to die with the parent, to be looked at, to adopt orphans
CORE = 4  # how large a core may be decides whether the machine's program for crashes starts


def missing() -> str:
    """What must be installed before a filter can be compiled, or nothing."""
    try:
        import pyseccomp  # noqa: F401
    except ImportError:
        return "pyseccomp is not installed: pip install pyseccomp"
    except RuntimeError:
        return "libseccomp is not installed: apt-get install libseccomp2"
    return ""


def numbers(names: list[str]) -> dict[str, int]:
    """The numbers of system calls on this machine, but those that libseccomp or the processor does not know."""
    import pyseccomp as seccomp

    found = {name: seccomp.resolve_syscall(seccomp.Arch.NATIVE, name) for name in names}
    return {name: number for name, number in found.items() if number >= 0}


@functools.cache
def compiled() -> bytes:
    """The filter as the kernel takes it.

    All 64 bits of an argument are compared, so no other value passes for one that is named.
    """
    import pyseccomp as seccomp

    allow, pretend = seccomp.ALLOW, seccomp.ERRNO(0)
    made = seccomp.SyscallFilter(seccomp.ERRNO(errno.ENOSYS))
    made.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.ERRNO(errno.ENOSYS))

    def add(action: int, names: list[str] | str, *where: seccomp.Arg) -> None:
        for name in names.split() if isinstance(names, str) else names:
            if seccomp.resolve_syscall(seccomp.Arch.NATIVE, name) != -1:  # else younger than this libseccomp
                made.add_rule(action, name, *where)

    def one_of(action: int, names: str, n: int, values: tuple[int, ...], *where: seccomp.Arg) -> None:
        for value in values:
            add(action, names, seccomp.Arg(n, seccomp.EQ, value), *where)

    def masked(n: int, mask: int, value: int) -> seccomp.Arg:
        return seccomp.Arg(n, seccomp.MASKED_EQ, mask, value)

    add(allow, ALLOWED)
    add(pretend, IGNORED)
    add(seccomp.ERRNO(errno.EOPNOTSUPP), ATTRIBUTES)
    add(allow, "clone", masked(0, NAMESPACES, 0))
    add(allow, "socketpair", masked(1, 15, 1))  # a pair of streams leads nowhere; one of datagrams can be turned
    one_of(allow, "fcntl", 1, FCNTLS)
    one_of(pretend, "fcntl", 1, LOCKS)
    one_of(allow, "ioctl", 1, IOCTLS)
    one_of(allow, "prctl", 0, PRCTLS)
    one_of(pretend, "prctl", 0, KEPT)
    # To oneself only: limits, and where to run.
    limits = tuple(one for one in range(16) if one != CORE)
    one_of(allow, "setrlimit", 0, limits)
    one_of(allow, "prlimit64", 1, limits, seccomp.Arg(0, seccomp.EQ, 0))
    one_of(allow, "sched_setaffinity", 0, (0,))
    add(pretend, "sched_setaffinity", seccomp.Arg(0, seccomp.NE, 0))
    one_of(allow, "socket", 0, FAMILIES)
    one_of(allow, "socket", 0, (NETLINK,), seccomp.Arg(2, seccomp.EQ, ROUTE))
    with tempfile.TemporaryFile() as file:
        made.export_bpf(file)
        file.seek(0)
        return file.read()
