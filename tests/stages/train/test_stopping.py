"""Stop rules while a run trains: what an attempt that resumes knows of the steps behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stages.contracts.attempt import StoppedBy
from stages.contracts.expressions import Comparison
from stages.contracts.stops import StopRule, StopRules
from stages.train.recorder import Cell, Journal
from stages.train.run import Stopping

SILENT = Comparison(metric="zero_signal_share", sign="==", value=1.0)
STOP = StopRules(rules=(StopRule(id="early_stop", when=SILENT, lasting=3, window=1),))


def train(journal: Journal, attempt: str, stopping: Stopping, steps: range, shares: dict[int, float]) -> int | None:
    """What a trainer does with each step; the step at which it is told to stop."""
    for step in steps:
        cells: dict[str, Cell] = {"zero_signal_share": shares.get(step, 1.0)}
        journal.step(attempt=attempt, step=step, tokens=None, seconds=0.0, cells=cells)
        if stopping.see(step, cells):
            return step
    return None


@pytest.mark.parametrize("checkpoint", [0, 3, 4, 5])
def test_a_resumed_attempt_stops_where_the_whole_one_does(tmp_path: Path, checkpoint: int) -> None:
    """Step 3 has a signal, so the rule holds over steps 4-6, wherever the run was killed before."""
    shares = {3: 0.5}
    whole = Journal(tmp_path / "whole")
    assert train(whole, "a1", Stopping(STOP, whole, 0), range(1, 10), shares) == 6
    journal = Journal(tmp_path / "resumed")
    train(journal, "a1", Stopping(STOP, journal, 0), range(1, 6), {**shares, **dict.fromkeys(range(checkpoint + 1, 6), 0.0)})
    stopping = Stopping(STOP, journal, checkpoint)
    assert train(journal, "a2", stopping, range(checkpoint + 1, 10), shares) == 6
    assert stopping.stopped == StoppedBy(
        rule="early_stop", step=6, says="zero_signal_share at step 6 (the condition held over steps 4-6) is 1"
    )


def test_a_run_that_was_stopped_already_says_so(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    train(journal, "a1", Stopping(STOP, journal, 0), range(1, 10), {})
    again = Stopping(STOP, journal, 3)
    assert again.stopped is not None and again.stopped.step == 3
    assert Stopping(STOP, journal, 2).stopped is None  # the checkpoint before it has not seen the third step
    assert train(journal, "a2", Stopping(None, journal, 0), range(1, 10), {}) is None, "without rules nothing stops"
