"""Plug-ins: one file a kind in `stages/train/rewards/` (gates), `stages/analyse/detectors/` and `stages/train/corpora/`.

The folder is the registry: a new kind changes no other file. A gate module has a frozen
`Settings` model (closed keys, every field described) and one function

    def judge(settings: Settings, answers: Sequence[Answer]) -> list[Judgement]

which never raises for anything a completion holds. A gate whose judgements hold marks names them in `MARKS`; one that reads the data
row names in `COLUMNS` those of its settings that name a column. A gate that grades what an earlier one found names the kinds of that
one in `READS`, and finds its judgement in `Answer.earlier`. One that runs processes names their sandbox with `tier()`; a
`require(settings)` beside it raises what `tier()` raises where the machine lacks what these settings need. A detector module has
`Settings` and

    def detect(settings: Settings, run: Run) -> Answer          (see stages/analyse/signals.py)

which yields events, and says `NEEDS_COMPLETIONS = True` when it looks at completions or rewards: of supervised fine-tuning it is then
not asked.

What a corpus has stands in stages/train/corpus.py.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

GATES = "stages.train.rewards"
DETECTORS = "stages.analyse.detectors"
CORPORA = "stages.train.corpora"
_NOT_GATES = {"compose", "__init__"}

Status = Literal["pass", "fail", "unknown"]


@dataclass(frozen=True)
class Answer:
    """A completion as a gate sees it. `row` is the data row (prompt, tests ...); `key` is unique and stable, for seeded gates."""

    text: str
    row: Mapping[str, Any]
    truncated: bool = False
    key: str = ""
    earlier: Mapping[str, Judgement] = field(default_factory=dict, hash=False)
    """By kind in the gate's READS, what the last earlier gate of that kind said of this completion, where it was reached."""
    tokens: int | None = None
    """Length in the model's tokens, end of text included; null where no model wrote it."""


@dataclass(frozen=True)
class Judgement:
    """What a gate says of one completion. `score` lies in 0..1 and is None exactly when the status is unknown."""

    status: Status
    score: float | None
    reason: str = ""
    marks: Mapping[str, bool] = field(default_factory=dict, hash=False)
    """What the gate saw on the way, by the names in its module's MARKS; penalties ask for them."""
    broken: bool = False
    """Of `unknown`: the reward's own code raised or gave no score; a verifier that could not tell is not at fault."""

    def __post_init__(self) -> None:
        if (self.score is None) != (self.status == "unknown"):
            raise ValueError(f"a judgement of status {self.status!r} cannot have the score {self.score!r}")


def kinds(package: str) -> list[str]:
    """Names of all plug-ins of a package, sorted."""
    folder = Path(__file__).parents[2].joinpath(*package.split("."))
    return sorted(file[:-3] for file in os.listdir(folder) if file.endswith(".py") and file[:-3] not in _NOT_GATES)


@functools.cache
def load(package: str, kind: str) -> ModuleType:
    """The plug-in's module. Raises KeyError for an unknown kind; only names from `kinds` are ever imported."""
    if kind not in kinds(package):
        raise KeyError(kind)
    return importlib.import_module(f"{package}.{kind}")


def declared(kind: str, table: Literal["MARKS", "COLUMNS", "READS"]) -> tuple[str, ...]:
    """What the module of a gate kind declares under this name. Raises KeyError for an unknown kind."""
    return tuple(getattr(load(GATES, kind), table, ()))
