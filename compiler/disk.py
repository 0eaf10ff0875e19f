"""What a compile asks of the project's files. Every question is kept with its answer, so that a later compile can ask the same again
and knows without compiling that it would find the same.

All of the compiler's looks at its inputs go through here; a test holds that no module of the compile looks on its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from stages.contracts.digests import digest, file_digest

answers: dict[tuple[str, str], str] = {}
"""(question, path) -> answer, of this process since `forget`."""
NOTHING = "nothing"
UNSURE = "unsure"
"""The answer to a question that was answered in two ways: no later answer equals it."""


def forget() -> None:
    """Begin anew."""
    answers.clear()


def read(path: Path, most: int = -1) -> bytes:
    """The first `most` bytes of a file, all by default. Raises OSError."""
    try:
        with path.open("rb") as stream:
            content = stream.read(most)
    except OSError:
        _kept("content", path, NOTHING)
        raise
    _kept("content", path, digest(content))
    return content


def content_digest(path: Path) -> str:
    """SHA-256 in hex of a file or of all that a folder holds. Raises OSError."""
    try:
        return _kept("content", path, file_digest(path))
    except OSError:
        _kept("content", path, NOTHING)
        raise


def is_file(path: Path) -> bool:
    return _kept("kind", path, _kind(path)) == "file"


def is_folder(path: Path) -> bool:
    return _kept("kind", path, _kind(path)) == "folder"


def exists(path: Path) -> bool:
    return _kept("kind", path, _kind(path)) != NOTHING


def yaml_files(folder: Path) -> list[Path]:
    """Files or folders in it whose names end with `.yaml`, sorted."""
    return [folder / name for name in names(folder) if name.endswith(".yaml")]


def names(folder: Path) -> list[str]:
    """Names in a folder, sorted; none where there is no folder."""
    found = _names(folder)
    _kept("names", folder, _listed(found))
    return found


def still_so(asked: Iterable[tuple[str, str, str]]) -> bool:
    """Whether each (question, path, answer) is answered as before. Raises KeyError for an unknown question."""
    return all(_AGAIN[question](Path(path)) == answer for question, path, answer in asked)


def _kept(question: str, path: Path, answer: str) -> str:
    key = (question, os.fspath(path))
    if answers.setdefault(key, answer) != answer:
        answers[key] = UNSURE
    return answer


def _kind(path: Path) -> str:
    return "file" if os.path.isfile(path) else "folder" if os.path.isdir(path) else "other" if os.path.exists(path) else NOTHING


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _listed(found: list[str]) -> str:
    return digest("\0".join(found).encode("utf-8", "surrogateescape"))


def _content(path: Path) -> str:
    try:
        return file_digest(path)
    except OSError:
        return NOTHING


_AGAIN: dict[str, Callable[[Path], str]] = {"content": _content, "kind": _kind, "names": lambda folder: _listed(_names(folder))}
