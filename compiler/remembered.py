"""The last compile of all that is live, remembered: when nothing that it depends on has changed, its answer is known without compiling.

It depends on what it asked of the disk (compiler/disk.py), on octavo's own code, on the Python and the libraries that ran it, and the
answer "nothing to write" on the files that it would write. All of these are compared by content, never by time or size. What is
remembered is a file of `.cache/`, and counts for nothing when a byte of it is broken. Imports neither pydantic nor the compiler: that
would cost more than the whole answer.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from compiler import disk
from stages.contracts.digests import digest

MEMORY = Path(".cache/octavo/compiled.json")
ROOT = Path(__file__).parents[1]
_CODE = ("compiler", "stages")


class Memory:
    """What is remembered here, and what compiles now: made before the rest of the code is imported, so that an edit meanwhile counts."""

    def __init__(self) -> None:
        self.made_by = _made_by()

    def recall(self, colour: bool) -> str | None:
        """What the compile would say on standard error, finding every file as it should be; None when that is not known."""
        try:
            own, _, content = MEMORY.read_bytes().partition(b"\n")
            if own.decode() != digest(content):
                return None
            known = json.loads(content)
            if known["made_by"] == self.made_by and disk.still_so(known["asked"]) and _in_place(known["files"], known["once"]):
                return str(known["said"]["colour" if colour else "plain"])
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            pass
        return None

    def keep(self, files: Mapping[str, str], once: Iterable[str], said: Mapping[str, str]) -> None:
        """Remember a compile that has written, or found in place, all its files. A disk that refuses only costs time."""
        known = {
            "made_by": self.made_by,
            "asked": [[question, path, answer] for (question, path), answer in disk.answers.items()],
            "files": {path: digest(text) for path, text in files.items()},
            "once": list(once),
            "said": dict(said),
        }
        content = json.dumps(known, separators=(",", ":"))
        with suppress(OSError, ValueError):  # half a file counts for nothing, so it need not be written with more care
            MEMORY.parent.mkdir(parents=True, exist_ok=True)
            MEMORY.write_text(f"{digest(content)}\n{content}", encoding="utf-8")


def _made_by() -> str:
    """Digest of what compiles: our code, the libraries beside it and Python."""
    parts = [sys.version]
    for package in _CODE:
        for folder, folders, files in os.walk(ROOT / package):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            parts += [f"{folder}/{name} {digest(_content(f'{folder}/{name}'))}" for name in sorted(files)]
    libraries: set[str] = set()
    for folder in sys.path:
        with suppress(OSError):  # a library's version stands in the name of its folder
            libraries |= {name for name in os.listdir(folder or ".") if name.endswith((".dist-info", ".egg-info"))}
    return digest("\n".join([*parts, *sorted(libraries)]).encode("utf-8", "surrogateescape"))


def _in_place(files: Mapping[str, str], once: Iterable[str]) -> bool:
    """Whether every file holds the text that a compile would write, and those are there that it writes once."""
    return all(digest(_content(path)) == wanted for path, wanted in files.items()) and all(os.path.lexists(path) for path in once)


def _content(path: str) -> bytes:
    with open(path, "rb", buffering=0) as stream:
        return stream.read()
