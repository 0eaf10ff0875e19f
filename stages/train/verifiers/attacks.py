"""Attacks on the sandbox, as model-written code would try them. `sandbox` runs them before it trusts a tier; the tests run them all.

Each function returns text that starts with `contained` when the attempt failed, and with `BREACH` when it did not. The source of
this module is sent into the sandbox, so it needs modules only that the box has loaded.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

MARK = "octavo-mark"
_libc = ctypes.CDLL(None, use_errno=True)


def _tried(attempt: Callable[[], Any]) -> str:
    try:
        return f"BREACH {str(attempt())[:80]}"
    except BaseException as error:
        return f"contained {type(error).__name__}"


def _syscalls(*calls: tuple[Any, ...]) -> str:
    """Raw system calls by number for this machine; -1 is a refusal."""
    through = [call for call in calls if _libc.syscall(*[ctypes.c_long(part) if isinstance(part, int) else part for part in call]) >= 0]
    return f"BREACH {through}" if through else "contained refused"


def read_passwords() -> str:
    return _tried(lambda: open("/etc/passwd").read())


def read_shadow() -> str:
    return _tried(lambda: open("/etc/shadow").read())


def read_environment() -> str:
    """Own environment and that of any process in sight; the host puts MARK into its own."""
    if MARK in str(dict(os.environ)):
        return "BREACH inherited the environment"
    for name in ("self", "1", str(os.getppid())):
        try:
            with open(f"/proc/{name}/environ") as stream:
                if MARK in stream.read():
                    return f"BREACH read the environment of {name}"
        except BaseException:
            continue
    return "contained"


def list_processes() -> str:
    return _tried(lambda: [name for name in os.listdir("/proc") if name.isdigit()])


def write_outside() -> str:
    """Try to leave a file named MARK in likely places."""
    for folder in ("/tmp", "/var/tmp", "/dev/shm", "/", "/usr/lib", "/proc/sys/kernel", "/etc", ".", os.path.expanduser("~")):
        try:
            with open(os.path.join(folder, MARK), "w") as stream:
                stream.write("x")
            return f"BREACH wrote to {folder}"
        except BaseException:
            continue
    return "contained"


def change_kernel() -> str:
    """What a guest of a bubblewrap that root started can do."""
    return _tried(lambda: open("/proc/sys/kernel/domainname", "w"))


def make_memory_file() -> str:
    return _tried(lambda: os.memfd_create("x"))


def open_inet_socket() -> str:
    return "BREACH" if any(_libc.socket(family, kind, 0) >= 0 for family in (2, 10) for kind in (1, 2)) else "contained"


def open_unix_socket() -> str:
    return "BREACH" if _libc.socket(1, 1, 0) >= 0 or _libc.socketpair(1, 1, 0, (ctypes.c_int * 2)()) >= 0 else "contained"


def new_namespaces() -> str:
    unshared = [flag for flag in (0x10000000, 0x00020000, 0x40000000, 0x20000000) if _libc.unshare(flag) == 0]
    return f"BREACH unshared {unshared}" if unshared else "contained"


def mount_something() -> str:
    return "BREACH mounted" if _libc.mount(b"none", b"/tmp", b"tmpfs", ctypes.c_ulong(0), None) == 0 else "contained"


def trace() -> str:
    attempts = [_libc.ptrace(0, 0, None, None), _libc.ptrace(0x4206, os.getppid(), None, None)]  # TRACEME, SEIZE
    return f"BREACH ptrace {attempts}" if 0 in attempts else "contained"


def become_root() -> str:
    return _tried(lambda: os.setuid(0)) if os.getuid() != 0 else "BREACH is root"


def fork_once() -> str:
    return _tried(lambda: os.fork() or os._exit(0))


def start_a_thread() -> str:
    return _tried(lambda: threading.Thread(target=print).start())


def run_a_program() -> str:
    return _tried(lambda: os.execv("/bin/sh", ["sh", "-c", "exit 0"]))


def kill_parent() -> str:
    """Signal 0 asks whether a signal could be sent, and does no harm where the sandbox does not hold."""
    return _tried(lambda: os.kill(os.getppid(), 0))


def kill_everyone() -> str:
    return _tried(lambda: os.kill(-1, 0))


def map_executable() -> str:
    _libc.mmap.restype = ctypes.c_void_p
    place = _libc.mmap(None, ctypes.c_size_t(4096), 7, 0x22, -1, ctypes.c_long(0))
    return "contained" if place == ctypes.c_void_p(-1).value else "BREACH mapped"


def raise_limits() -> str:
    return _tried(lambda: resource.setrlimit(resource.RLIMIT_CPU, (1, 1)))


def stop_the_clock() -> str:
    return _tried(lambda: signal.setitimer(signal.ITIMER_PROF, 0))


def newer_doors() -> str:
    """io_uring_setup, clone3, pidfd_getfd, memfd_secret, landlock_create_ruleset: equal numbers on every architecture since 2019."""
    return _syscalls((425, 1, None), (435, None, 0), (438, 0, 0, 0), (447, 0), (444, None, 0, 1))


def sleep() -> str:
    return _tried(lambda: time.sleep(1000))


def allocate() -> str:
    return _tried(lambda: len(bytearray(10 * 2**30)))


def use_file_descriptors() -> str:
    """Look for anything open besides the three standard ones and the pipe for the result."""
    for fd in range(4, 256):
        try:
            os.lseek(fd, 0, os.SEEK_CUR)
        except OSError as error:
            if error.errno == errno.EBADF:
                continue
        return f"BREACH descriptor {fd} is open"
    return "contained"


WALL = (
    read_passwords,
    read_shadow,
    read_environment,
    list_processes,
    write_outside,
    change_kernel,
    open_inet_socket,
    open_unix_socket,
    new_namespaces,
    mount_something,
    trace,
    become_root,
)
"""What bubblewrap with its filter must stop by itself, without the candidate's filter."""
CANDIDATE = (
    *WALL,
    make_memory_file,
    fork_once,
    start_a_thread,
    run_a_program,
    kill_parent,
    kill_everyone,
    map_executable,
    raise_limits,
    stop_the_clock,
    newer_doors,
    sleep,
    allocate,
    use_file_descriptors,
)
"""What a candidate's process must not be able to do, in every tier. Tried before a tier is trusted."""
