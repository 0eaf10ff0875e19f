"""{path: text} -> disk. Only what differs, all or nothing: every new text lies beside its target before the first is renamed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from compiler.diagnostics import Rejected
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
    created, changed = [], []
    for path, text in files.items():
        old = _old(path)
        if old is None:
            created.append(path)
        elif old != text.encode():
            changed.append(path)
    created += [path for path in once if not os.path.lexists(path)]
    return Written(tuple(sorted(created)), tuple(sorted(changed)), len(files) + len(once) - len(created) - len(changed))


def write(files: Mapping[str, str], once: Mapping[str, str]) -> Written:
    """Write what differs. Raises Rejected E401 with nothing changed when a folder cannot be written or the disk is full."""
    found = compare(files, once)
    texts = {path: files.get(path, once.get(path, "")) for path in found.differing}
    changed = set(found.changed)
    staged: list[str] = []
    known: set[str] = {"", "/"}
    made: list[str] = []
    before: dict[str, bytes | None] = {}
    try:
        for path, text in texts.items():
            _folder(os.path.dirname(path), known, made)
            if os.path.isdir(path):
                raise IsADirectoryError(21, "a folder lies where a file belongs", path)
            staged.append(path + SUFFIX)
            with open(path + SUFFIX, "wb") as stream:  # buffered: a raw write may stop short on a full disk without a word
                stream.write(text.encode())
        for path in texts:
            before[path] = _old(path) if path in changed else None
            os.replace(path + SUFFIX, path)
    except OSError as error:
        _undo(staged, made, before)
        place = error.filename2 or error.filename or "a generated file"
        raise Rejected(
            [
                Diagnostic(
                    "E401",
                    f"cannot write {place}: {error.strerror or error}",
                    why="cards and pipelines are written all together or not at all; nothing was changed",
                    fix=f"make room or give yourself the right to write: df -h . && ls -ld {Path(str(place)).parent.as_posix()}",
                )
            ]
        ) from None
    except BaseException:
        _undo(staged, made, before)
        raise
    return found


def _folder(folder: str, known: set[str], made: list[str]) -> None:
    """Make a folder and its parents; those that were not there are remembered."""
    if folder in known:
        return
    _folder(os.path.dirname(folder), known, made)
    if not os.path.isdir(folder):
        os.mkdir(folder)
        made.append(folder)
    known.add(folder)


def _undo(staged: list[str], made: list[str], before: dict[str, bytes | None]) -> None:
    """Put everything back, as far as the disk allows."""
    for path, content in before.items():
        with suppress(OSError):
            os.unlink(path) if content is None else Path(path).write_bytes(content)
    for path in staged:
        with suppress(OSError):
            os.unlink(path)
    for folder in reversed(made):
        with suppress(OSError):
            os.rmdir(folder)


def _old(path: str) -> bytes | None:
    try:
        with open(path, "rb", buffering=0) as stream:
            return stream.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
