"""{path: text} -> disk: only what differs, each file whole."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from compiler.problems import Rejected, problem


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
    created = sorted(path for path in (*files, *once) if not os.path.lexists(path))
    changed = sorted(path for path, text in files.items() if os.path.lexists(path) and not _holds(path, text))
    return Written(tuple(created), tuple(changed), len(files) + len(once) - len(created) - len(changed))


def write(files: Mapping[str, str], once: Mapping[str, str]) -> Written:
    """Write what differs: first all texts beside their targets, then rename. Raises Rejected E401 for a place that cannot be written."""
    written = compare(files, once)
    beside = {path: Path(f"{path}.octavo-new") for path in written.differing}
    try:
        for path, temporary in beside.items():
            temporary.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(files.get(path, once.get(path, "")), encoding="utf-8", newline="\n")
        for path, temporary in beside.items():
            temporary.replace(path)
    except OSError as error:
        for temporary in beside.values():
            with suppress(OSError):
                temporary.unlink()
        place = Path(str(error.filename2 or error.filename or "a generated file").removesuffix(".octavo-new"))
        raise Rejected([problem("E401", path=place, reason=error.strerror or error, folder=place.parent)]) from None
    return written


def _holds(path: str, text: str) -> bool:
    try:
        return Path(path).read_bytes() == text.encode()
    except OSError:  # no file that can be read
        return False
