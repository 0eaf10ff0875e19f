"""Give up root, then become another program. Run as a program of its own, with the standard library only.

`python launch.py '{"uid": 60720, "needs": ["/usr/local/lib"], "argv": ["bwrap", ...]}'`

bubblewrap started by root is no sandbox (its guest could write /proc/sys), so the uid goes first. The unprivileged uid must still
reach the files of Python, which may lie under a closed folder such as /root: in a mount namespace of its own, this program covers
the closed folder by an empty one that holds nothing but the files needed, at the paths where they were.
"""

from __future__ import annotations

import ctypes
import json
import os
import stat
import sys
from pathlib import Path

_NEW_MOUNTS = 0x00020000
_BIND, _REC, _PRIVATE = 0x1000, 0x4000, 0x40000
_NO_NEW_PRIVS = 38
_libc = ctypes.CDLL(None, use_errno=True)


def closed_folder(path: str) -> Path | None:
    """The first folder on the way to `path` that others may not pass through; None when the way is open."""
    above = reversed(Path(path).parents)
    return next((folder for folder in above if not folder.stat().st_mode & stat.S_IXOTH), None)


def expose(needs: list[str]) -> None:
    """Make absolute paths reachable for everyone, in a private mount namespace. Raises OSError."""
    closed = {path: folder for path in needs if os.path.exists(path) and (folder := closed_folder(path))}
    if not closed:
        return
    _check(_libc.unshare(_NEW_MOUNTS), "unshare")
    _mount(None, "/", None, _REC | _PRIVATE, None)
    opened = {path: os.open(path, os.O_PATH) for path in closed}
    for folder in sorted(set(closed.values())):
        _mount(b"none", str(folder), b"tmpfs", 0, b"mode=755,size=1m")
    for path, fd in sorted(opened.items()):
        is_folder = stat.S_ISDIR(os.fstat(fd).st_mode)
        os.makedirs(path if is_folder else os.path.dirname(path), exist_ok=True)
        if not is_folder:
            Path(path).touch(0o644)
        _mount(f"/proc/self/fd/{fd}".encode(), path, None, _BIND | _REC, None)
        os.close(fd)


def _mount(source: bytes | None, place: str, kind: bytes | None, flags: int, options: bytes | None) -> None:
    _check(_libc.mount(source, place.encode(), kind, ctypes.c_ulong(flags), options), f"mount {place}")


def _check(status: int, what: str) -> None:
    if status:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def main() -> None:
    order = json.loads(sys.argv[1])
    os.umask(0o022)
    expose(order["needs"])
    os.setgroups([])
    os.setresgid(*[order["uid"]] * 3)
    os.setresuid(*[order["uid"]] * 3)
    _check(_libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    os.chdir("/")
    os.execv(order["argv"][0], order["argv"])


if __name__ == "__main__":
    main()
