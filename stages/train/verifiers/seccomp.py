"""System call filters, as BPF programs for the running architecture. Made by libseccomp through `pyseccomp`.

`candidate` is an allow-list: a system call that is not named fails with EPERM, also one that a later kernel adds.
A candidate can compute and nothing else. It cannot open or look at a file, make a process, a thread or a socket, signal anyone,
map executable memory, change its own limits or timers, sleep, wait inside the kernel or give up its core. So one that uses no CPU time
is starved, and no answer gains an unknown verdict.
`program` is a deny-list for whole programs behind bubblewrap, which need to open their libraries.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import tempfile
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from stages.train.verifiers.verdict import VerifierUnavailable

_NAMES: dict[str, str] = YAML(typ="safe").load(Path(__file__).with_suffix(".yaml"))
"""Filter -> names of system calls."""
_CLONE_THREAD = 0x00010000
_CLONE_NAMESPACES = 0x7E020080
"""CLONE_NEW{TIME,NS,CGROUP,UTS,IPC,USER,PID,NET}."""
_PROT_EXEC = 4
_TCGETS = 0x5401
_F_GETFD, _F_GETFL = 1, 3
_MADV_DONTNEED = 4


def _library() -> Any:
    try:
        import pyseccomp
    except (ImportError, RuntimeError, OSError) as error:
        raise VerifierUnavailable(
            f"seccomp filters cannot be made: {error}",
            why="model-written code only runs behind a system call filter",
            fix="apt-get install libseccomp2 && pip install pyseccomp",
        ) from None
    return pyseccomp


@functools.cache
def candidate() -> bytes:
    """Filter of the process that runs model-written code."""
    lib = _library()
    rules = lib.SyscallFilter(lib.ERRNO(errno.EPERM))
    _add(rules, lib.ALLOW, _NAMES["candidate_allowed"])
    for name in ("mmap", "mprotect"):
        rules.add_rule(lib.ALLOW, name, lib.Arg(2, lib.MASKED_EQ, _PROT_EXEC, 0))
    rules.add_rule(lib.ALLOW, "ioctl", lib.Arg(1, lib.EQ, _TCGETS))  # isatty
    rules.add_rule(lib.ALLOW, "madvise", lib.Arg(2, lib.EQ, _MADV_DONTNEED))  # not to swap out, which waits for a disk
    for command in (_F_GETFD, _F_GETFL):
        rules.add_rule(lib.ALLOW, "fcntl", lib.Arg(1, lib.EQ, command))
    rules.add_rule(lib.ALLOW, "prlimit64", lib.Arg(0, lib.EQ, 0), lib.Arg(2, lib.EQ, 0))
    return _exported(rules)


@functools.cache
def program() -> bytes:
    """Filter of a whole program inside bubblewrap: no sockets, no namespaces, no mounts, no tracing."""
    return _exported(_program(_NAMES["program_denied"]))


@functools.cache
def checker() -> bytes:
    """Filter of a proof checker inside bubblewrap: as `program`, and no process besides its own; threads and reading files are left."""
    lib, rules = _library(), _program(_NAMES["program_denied"] + _NAMES["checker_denied"])
    rules.add_rule(lib.ERRNO(errno.EPERM), "clone", lib.Arg(0, lib.MASKED_EQ, _CLONE_THREAD, 0))
    return _exported(rules)


def _program(denied: str) -> Any:
    lib = _library()
    rules = lib.SyscallFilter(lib.ALLOW)
    _add(rules, lib.ERRNO(errno.EPERM), denied)
    for flag in (1 << bit for bit in range(32) if _CLONE_NAMESPACES >> bit & 1):
        rules.add_rule(lib.ERRNO(errno.EPERM), "clone", lib.Arg(0, lib.MASKED_EQ, flag, flag))
    rules.add_rule(lib.ERRNO(errno.ENOSYS), "clone3")  # its flags lie in memory, out of a filter's sight; libc falls back to clone
    return rules


def _add(rules: Any, action: int, names: str) -> None:
    """Add a rule for each name; one that this architecture or this libseccomp does not have is left out."""
    for name in names.split():
        with contextlib.suppress(OSError, ValueError):
            rules.add_rule(action, name)


def _exported(rules: Any) -> bytes:
    with contextlib.suppress(OSError, ValueError):  # libseccomp 2.5: a tree, which the kernel reads in two thirds of the time
        rules.set_attr(_library().Attr.CTL_OPTIMIZE, 2)
    with tempfile.TemporaryFile() as stream:
        rules.export_bpf(stream)
        stream.seek(0)
        return stream.read()
