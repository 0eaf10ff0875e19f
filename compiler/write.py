"""{path: text} -> disk. Only what differs, all or nothing: every new text lies beside its target before the first is renamed."""

from __future__ import annotations

import os
from collections.abc import Mapping
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
        old = _old(Path(path))
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
    staged: list[Path] = []
    made: list[Path] = []
    before: dict[Path, bytes | None] = {}
    try:
        for path, text in texts.items():
            target = Path(path)
            _folder(target.parent, made)
            if target.is_dir():
                raise IsADirectoryError(21, "a folder lies where a file belongs", path)
            staged.append(target.with_name(target.name + SUFFIX))
            staged[-1].write_bytes(text.encode())
        for temporary, path in zip(staged, texts, strict=True):
            before[Path(path)] = _old(Path(path))
            os.replace(temporary, path)
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


def _folder(folder: Path, made: list[Path]) -> None:
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        path.mkdir()
        made.append(path)


def _undo(staged: list[Path], made: list[Path], before: dict[Path, bytes | None]) -> None:
    for path, content in before.items():
        try:
            path.unlink() if content is None else path.write_bytes(content)
        except OSError:
            continue
    for path in staged:
        path.unlink(missing_ok=True) if path.parent.is_dir() else None
    for folder in reversed(made):
        try:
            folder.rmdir()
        except OSError:
            continue


def _old(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
