"""{path: text} -> disk. Only what differs, all or nothing: every new text lies beside its target before the first is renamed."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from compiler.problems import Rejected
from stages.contracts.diagnostic import Diagnostic

SUFFIX = ".octavo-new"


@dataclass(frozen=True)
class Written:
    """Paths by what happened, or would happen, to them."""

    created: tuple[str, ...]
    changed: tuple[str, ...]
    unchanged: int

    @property
    def differing(self) -> tuple[str, ...]:
        return tuple(sorted((*self.created, *self.changed)))


def compare(files: Mapping[str, str], once: Mapping[str, str]) -> Written:
    """What `write` would do. Files of `once` differ only when they do not exist."""
    created, changed, folders = [], [], _Folders()
    for path, text in files.items():
        try:
            old = _old(path) if folders.missing(path) is None else None
        except OSError:  # whatever it holds, it is not known to be the text
            changed.append(path)
            continue
        if old is None:
            created.append(path)
        elif old != text.encode():
            changed.append(path)
    created += [path for path in once if folders.missing(path) or not os.path.lexists(path)]
    return Written(tuple(sorted(created)), tuple(sorted(changed)), len(files) + len(once) - len(created) - len(changed))


def write(files: Mapping[str, str], once: Mapping[str, str]) -> Written:
    """Write what differs. Raises Rejected E401 with nothing changed when a folder cannot be written or the disk is full."""
    found = compare(files, once)
    beside = _Beside()
    try:
        for path in found.created:
            beside.add(path, files.get(path, once.get(path, "")))
        for path in found.changed:
            beside.add(path, files[path])
        beside.put_in_place(set(found.changed))
    except OSError as error:
        beside.undo()
        place = str(error.filename2 or error.filename or "a generated file").replace(SUFFIX, "")
        raise Rejected(
            [
                Diagnostic(
                    "E401",
                    f"cannot write {place}: {error.strerror or error}",
                    why="cards and pipelines are written all together or not at all; nothing was changed",
                    fix=f"make room or give yourself the right to write: df -h . && ls -ld {Path(place).parent.as_posix()}",
                )
            ]
        ) from None
    except BaseException:
        beside.undo()
        raise
    return found


class _Folders:
    """Which folders are not there yet. Below one that is missing nothing is asked of the disk: a thousand runs have a thousand folders."""

    def __init__(self) -> None:
        self.known: dict[str, str | None] = {"": None, "/": None}

    def missing(self, path: str) -> str | None:
        """The topmost folder above a file that does not exist; None when all do."""
        folder = os.path.dirname(path)
        if folder not in self.known:
            self.known[folder] = self.missing(folder) or (None if os.path.isdir(folder) else folder)
        return self.known[folder]


class _Beside:
    """New texts beside their targets: a file as `<file>.octavo-new`; a folder that is new, with all that it will hold, as one."""

    def __init__(self) -> None:
        self.folders = _Folders()
        self.staged: dict[str, str] = {}
        """Target, a file or a new folder -> what lies beside it."""
        self.made: set[str] = set()
        """Folders made inside new ones."""
        self.placed: list[tuple[str, bytes | None]] = []
        """Targets that are in place, with the content that a file had before."""

    def add(self, path: str, text: str) -> None:
        """Write one text beside its target. Raises OSError."""
        top = self.folders.missing(path)
        if top is None:
            if os.path.isdir(path):
                raise IsADirectoryError(21, "a folder lies where a file belongs", path)
            self.staged[path] = at = path + SUFFIX
        else:
            at = f"{top}{SUFFIX}{path[len(top) :]}"
            if top not in self.staged:
                if os.path.lexists(top + SUFFIX):  # of a compile that was killed
                    _remove(top + SUFFIX)
                self.staged[top] = top + SUFFIX
            self._folder(os.path.dirname(at), top + SUFFIX)
        _written(at, text.encode())

    def put_in_place(self, changed: Container[str]) -> None:
        """Rename everything to where it belongs. `changed`: files that replace another. Raises OSError."""
        for path, at in self.staged.items():
            before = _old(path) if path in changed else None
            os.replace(at, path)
            self.placed.append((path, before))

    def undo(self) -> None:
        """Put everything back, as far as the disk allows."""
        for path, content in reversed(self.placed):
            with suppress(OSError):
                os.replace(path, self.staged[path]) if content is None else Path(path).write_bytes(content)
        for at in self.staged.values():
            with suppress(OSError):
                _remove(at)

    def _folder(self, folder: str, top: str) -> None:
        if folder not in self.made:
            if folder != top:
                self._folder(os.path.dirname(folder), top)
            os.mkdir(folder)
            self.made.add(folder)


def _written(path: str, content: bytes) -> None:
    """Three calls a file: Python's own streams need twice as many, which counts for two thousand of them."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        while content:
            content = content[os.write(handle, content) :]  # on a disk that is getting full a write may stop short without a word
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(handle)


def _remove(path: str) -> None:
    """A file, or a folder with all that it holds."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def _old(path: str) -> bytes | None:
    """What lies there; None for nothing, and for what is no file, such as a folder or a link to itself. Raises OSError for a file that
    cannot be read: nobody could put it back."""
    try:
        with open(path, "rb", buffering=0) as stream:
            return stream.read()
    except (FileNotFoundError, IsADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise OSError(error.errno, f"what lies there cannot be read, so it is not replaced: {error.strerror}", path) from None
