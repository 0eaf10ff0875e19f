"""Actions and contingency plans of a spec, as a page shows them."""

from __future__ import annotations

from typing import Literal

from stages.contracts.artifact import Frozen


class ChangeWords(Frozen):
    """One setting that differs from another experiment's, as text for people."""

    key: str
    """Dotted key in the spec, such as `train.learning_rate`."""
    before: str
    after: str


class MoveWords(Frozen):
    """Where a metric should come to."""

    metric: str
    direction: Literal["above", "below"]
    bound: float


class ActionWords(Frozen):
    """What to do next. `tried`: experiments with this one as their parent that make all of the changes."""

    id: str
    do: str
    priority: int
    because: str
    changes: tuple[ChangeWords, ...]
    expects: tuple[MoveWords, ...]
    tried: tuple[str, ...]


class ContingencyWords(Frozen):
    """What to do if what it waits for comes out as one of `states`."""

    id: str
    waits: Literal["claim", "expectation", "red_flag"]
    of: str
    """Id of the claim, of the expectation, or of the rule, such as `red_flag-1`."""
    states: tuple[str, ...]
    """Verdicts, `met` or `missed`, or `raised`."""
    do: str
    changes: tuple[ChangeWords, ...]
    tried: tuple[str, ...]
