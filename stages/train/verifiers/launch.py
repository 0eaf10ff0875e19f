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

_NEW_MOUNTS = 0x00020000
_BIND, _REC, _PRIVATE = 0x1000, 0x4000, 0x40000
_NO_NEW_PRIVS = 38


def closed_folder(path: str) -> str | None:
    """The first folder on the way to `path` that others may not pass through; None when the way is open."""
    place = "/"
    for part in path.split("/")[1:]:
        if not stat.S_IMODE(os.stat(place).st_mode) & stat.S_IXOTH:
            return place
        place = os.path.join(place, part)
    return None


def expose(needs: list[str]) -> None:
    """Make absolute paths reachable for everyone, in a private mount namespace. Raises OSError."""
    closed = {path: folder for path in needs if os.path.exists(path) and (folder := closed_folder(path))}
    if not closed:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(_NEW_MOUNTS), "unshare")
    _check(libc.mount(None, b"/", None, ctypes.c_ulong(_REC | _PRIVATE), None), "mount /")
    opened = {path: os.open(path, os.O_PATH) for path in closed}
    for folder in sorted(set(closed.values())):
        _check(libc.mount(b"none", folder.encode(), b"tmpfs", ctypes.c_ulong(0), b"mode=755,size=1m"), f"mount {folder}")
    for path in sorted(opened):
        fd = opened[path]
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            os.makedirs(path, mode=0o755, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
        _check(libc.mount(f"/proc/self/fd/{fd}".encode(), path.encode(), None, ctypes.c_ulong(_BIND | _REC), None), f"bind {path}")
        os.close(fd)


def drop(uid: int) -> None:
    """Become `uid` for good: no groups, no way back, no new privileges. Raises OSError."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    _check(ctypes.CDLL(None, use_errno=True).prctl(_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def _check(status: int, what: str) -> None:
    if status:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def main() -> None:
    order = json.loads(sys.argv[1])
    os.umask(0o022)
    expose(order["needs"])
    drop(order["uid"])
    os.chdir("/")
    os.execv(order["argv"][0], order["argv"])


if __name__ == "__main__":
    main()
