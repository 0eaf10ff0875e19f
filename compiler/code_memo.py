"""What our own modules mean, kept from one command to the next: walking their syntax would be a third of a compile.

What is kept depends on a module's text alone and is found by the digest of that text, so it cannot become stale. The file names the
code and the Python that made it; with another of either it counts for nothing, as does a broken one. Should it lie all the same, no
result does: a stage walks its own code again and refuses a card that was compiled for other code (S101).
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path

from stages.contracts import code_hash
from stages.contracts.artifact import Frozen, digest, write_text
from stages.contracts.code_hash import Module, known

MEMO = Path(cache_from_source(code_hash.__file__)).with_suffix(".modules.json")
"""Beside the bytecode that Python keeps of the same code."""
MOST = 1_000
"""So many modules are kept, the latest ones."""


class _Kept(Frozen):
    made_by: str
    modules: dict[str, tuple[str, tuple[str, ...]]]
    """Digest of a module's text -> its hash and its imports."""


def load() -> int:
    """Recall what is kept, and how many modules that is."""
    with suppress(OSError, ValueError):
        kept = _Kept.model_validate_json(MEMO.read_bytes())
        if kept.made_by == _made_by():
            known.update({key: Module(*module) for key, module in kept.modules.items()})
            return len(kept.modules)
    return 0


def keep(already: int) -> None:
    """Keep what is known when it is more than is kept already, where Python keeps bytecode. A disk that refuses only costs time."""
    if len(known) > already and not sys.dont_write_bytecode:
        modules = {key: (module.hash, module.imports) for key, module in list(known.items())[-MOST:]}
        with suppress(OSError):
            write_text(MEMO, _Kept(made_by=_made_by(), modules=modules).model_dump_json())


def _made_by() -> str:
    return f"{digest(Path(code_hash.__file__).read_text(encoding='utf-8'))} {sys.version}"
