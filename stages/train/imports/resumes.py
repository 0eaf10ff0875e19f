"""What a log says of a resume inside it: its learning rate and its reward before and after, at the steps that were logged twice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pandas as pd

from stages.train.imports.log import Log, sentence

_RATE = re.compile(r"(?:.*[/.])?(?:learning_rate|lr|actor_lr|lr\([0-9e.+-]+\))", re.IGNORECASE)
_SAME, _MUCH = 1e-3, 0.2
"""Parts of a rate: how far printed digits are apart, and how far two rates are that nobody takes for one schedule."""
_FEWEST, _ERRORS = 5, 4.0
"""Steps logged twice of which a difference of the reward is said, and its standard errors."""


def compare(log: Log, steps: Mapping[int, int], parts: Mapping[int, int], reward: str | None) -> Iterator[str]:
    """A sentence for each resume whose learning rate is another one than before, and one for the reward. The rate is looked at whether it
    is mapped or not. `reward`: its column, if the log has one."""
    rate = next((name for name in log.columns if _RATE.fullmatch(name) and not re.search("critic|value", name)), None)
    for part in range(1, max(parts.values(), default=0) + 1):
        rates = _before_and_after(log, rate, steps, parts, part) if rate else None
        if rates is not None:
            yield from _rate(*rates)
        rewards = _before_and_after(log, reward, steps, parts, part) if reward else None
        if rewards is not None:
            yield from _reward(*rewards)


def _before_and_after(
    log: Log, column: str, steps: Mapping[int, int], parts: Mapping[int, int], part: int
) -> tuple[pd.Series, pd.Series] | None:
    """Step -> number of all parts before, the newest first to count, and of this one; None without numbers in both."""
    cells = {row: cell for row, cell in log.logged(column).items() if isinstance(cell, float) and row in steps}
    before = pd.Series({steps[row]: cell for row, cell in cells.items() if parts[row] < part}, dtype=float)
    after = pd.Series({steps[row]: cell for row, cell in cells.items() if parts[row] == part}, dtype=float)
    return None if before.empty or after.empty else (before, after)


def _rate(before: pd.Series, after: pd.Series) -> Iterator[str]:
    both = before.index.intersection(after.index)
    start, first = after.index.min(), before.index.min()
    is_anew = abs(after[start] - before[first]) <= _SAME * abs(before[first]) and start != first
    anew = sentence("rate_anew", step=first) if is_anew else ""
    if len(both):
        other = both[((before[both] - after[both]).abs() > _SAME * before[both].abs())]
        if len(other):
            yield (
                sentence(
                    "rate_differs",
                    step=start,
                    at=other[0],
                    before=before[other[0]],
                    after=after[other[0]],
                    count=len(other),
                    both=len(both),
                )
                + anew
            )
        return
    last = before.index[before.index < start].max() if (before.index < start).any() else None
    if last is not None and is_anew and abs(after[start] - before[last]) > _MUCH * abs(before[last]):
        yield sentence("rate_jumps", step=start, last=last, before=before[last], after=after[start]) + anew


def _reward(before: pd.Series, after: pd.Series) -> Iterator[str]:
    both = before.index.intersection(after.index)
    if len(both) < _FEWEST:
        return
    differences = after[both] - before[both]
    error = float(differences.std()) / len(both) ** 0.5
    differs = sentence("reward_differs", errors=_ERRORS) if abs(differences.mean()) > _ERRORS * error else ""
    yield sentence("reward_twice", count=len(both), before=before[both].mean(), after=after[both].mean()) + differs
