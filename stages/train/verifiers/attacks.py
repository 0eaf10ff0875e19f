"""Attacks on the sandbox, as model-written code would try them. `sandbox` runs them before it trusts a tier; the tests run them all.

The source of this module is sent into the sandbox, so it needs modules only that the box has loaded.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

MARK = "octavo-mark"
FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/", "/usr/lib", "/proc/sys/kernel", "/etc", ".", "~")
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
NO_MEMORY = ctypes.c_void_p(-1).value


def works(attack: Callable[[], Any]) -> bool:
    """Whether an attack gets through: it neither raises nor gives False."""
    try:
        return attack() is not False
    except BaseException:
        return False


def can_write(path: str) -> bool:
    return works(lambda: os.open(path, os.O_CREAT | os.O_WRONLY))


def environment_of(process: object) -> bytes:
    """Empty where it cannot be read."""
    try:
        return os.read(os.open(f"/proc/{process}/environ", os.O_RDONLY), 2**16)
    except BaseException:
        return b""


def system_call(number: int, *arguments: int | None) -> bool:
    """Whether a raw system call is not refused."""
    return bool(libc.syscall(ctypes.c_long(number), *[None if part is None else ctypes.c_long(part) for part in arguments]) >= 0)


WALL: dict[str, Callable[[], Any]] = {
    "read_passwords": lambda: os.open("/etc/passwd", os.O_RDONLY),
    "read_shadow": lambda: os.open("/etc/shadow", os.O_RDONLY),
    "read_environment": lambda: (  # of this process, or of any in sight; the host puts MARK into its own
        MARK in str(dict(os.environ)) or any(MARK.encode() in environment_of(process) for process in ("self", 1, os.getppid()))
    ),
    "list_processes": lambda: [name for name in os.listdir("/proc") if name.isdigit()],
    "write_outside": lambda: any(can_write(os.path.expanduser(f"{folder}/{MARK}")) for folder in FOLDERS),
    "change_kernel": lambda: os.open("/proc/sys/kernel/domainname", os.O_WRONLY),  # what a guest of a bubblewrap that root started can do
    "open_inet_socket": lambda: any(libc.socket(family, kind, 0) >= 0 for family in (2, 10) for kind in (1, 2)),
    "open_unix_socket": lambda: libc.socket(1, 1, 0) >= 0 or libc.socketpair(1, 1, 0, (ctypes.c_int * 2)()) >= 0,
    "new_namespaces": lambda: any(libc.unshare(flag) == 0 for flag in (0x10000000, 0x00020000, 0x40000000, 0x20000000)),
    "mount_something": lambda: libc.mount(b"none", b"/tmp", b"tmpfs", ctypes.c_ulong(0), None) == 0,
    "trace": lambda: 0 in [libc.ptrace(0, 0, None, None), libc.ptrace(0x4206, os.getppid(), None, None)],  # TRACEME, SEIZE
    "become_root": lambda: os.getuid() == 0 or libc.setuid(0) == 0,
}
"""What bubblewrap with its filter must stop by itself, without the candidate's filter."""
CANDIDATE: dict[str, Callable[[], Any]] = WALL | {
    "make_memory_file": lambda: os.memfd_create("x"),
    "fork_once": lambda: os.fork() or os._exit(0),
    "start_a_thread": lambda: threading.Thread(target=print).start(),
    "run_a_program": lambda: os.execv("/bin/sh", ["sh", "-c", "exit 0"]),
    "kill_parent": lambda: os.kill(os.getppid(), 0),  # 0 asks whether a signal could be sent
    "kill_everyone": lambda: os.kill(-1, 0),
    "map_executable": lambda: libc.mmap(None, ctypes.c_size_t(4096), 7, 0x22, -1, ctypes.c_long(0)) != NO_MEMORY,
    "raise_limits": lambda: resource.setrlimit(resource.RLIMIT_CPU, (1, 1)),
    "stop_the_clock": lambda: signal.setitimer(signal.ITIMER_PROF, 0),
    # io_uring_setup, clone3, pidfd_getfd, memfd_secret, landlock_create_ruleset: equal numbers on every architecture since 2019
    "newer_doors": lambda: any(
        system_call(*call) for call in ((425, 1, None), (435, None, 0), (438, 0, 0, 0), (447, 0), (444, None, 0, 1))
    ),
    "sleep": lambda: time.sleep(1000),
    "give_up_the_core": lambda: os.sched_yield(),
    "wait_for_all_cores": lambda: system_call({"x86_64": 324}.get(os.uname().machine, 283), 1, 0),  # membarrier: asleep, as for a disk
    "swap_out": lambda: any(libc.madvise(ctypes.c_void_p(2**30), ctypes.c_size_t(0), advice) == 0 for advice in (20, 21)),
    "allocate": lambda: len(bytearray(10 * 2**30)),
    "use_file_descriptors": lambda: any(libc.fcntl(fd, 1) >= 0 for fd in range(4, 256)),  # F_GETFD
}
"""What a candidate's process must not be able to do, in every tier. Tried before a tier is trusted."""


def attempt(name: str) -> str:
    """Try one attack: `BREACH` when it gets through, else `contained`."""
    return "BREACH" if works(CANDIDATE[name]) else "contained"
