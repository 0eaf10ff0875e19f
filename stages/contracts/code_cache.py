"""What files of code mean, kept between processes by the digest of their content, so that no change of a file can be missed.

It lies in the user's own cache folder. One in the project is never read: a pull request could bring it along.
"""

from __future__ import annotations

import functools
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path

MOST = 5_000
"""Entries; of more, the oldest are dropped."""
Meaning = tuple[str, tuple[str, ...]]
"""Digest of what a file means, and the names that it imports."""


class CodeCache:
    """Content -> meaning. A cache that cannot be read or written is an empty one."""

    def __init__(self, file: Path | None) -> None:
        self.file, self.is_new = file, False
        self.entries: dict[str, Meaning] = {}
        with suppress(OSError, ValueError, TypeError, RecursionError):
            content = dict(json.loads(file.read_bytes())) if file else {}
            self.entries = {str(key): (str(digest), tuple(map(str, imports))) for key, (digest, imports) in content.items()}

    def put(self, key: str, meaning: Meaning) -> Meaning:
        """Remember it until `save`."""
        self.entries[key], self.is_new = meaning, True
        return meaning

    def save(self) -> None:
        """Write what is new: a whole file, or none."""
        if self.file is None or not self.is_new:
            return
        self.is_new = False
        with suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self.file.parent, delete=False) as new:
                json.dump(dict(list(self.entries.items())[-MOST:]), new)
            os.replace(new.name, self.file)


def code_cache() -> CodeCache:
    """The user's."""
    with suppress(RuntimeError):  # no home
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").resolve()
        if Path.cwd() not in folder.parents:
            return _opened(folder / "octavo/code.json")
    return _opened(None)


@functools.cache
def _opened(file: Path | None) -> CodeCache:
    return CodeCache(file)
