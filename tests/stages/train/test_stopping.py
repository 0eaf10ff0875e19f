"""Stop rules while a run trains: what an attempt that resumes knows of the steps behind it, and a run that a rule stops for good."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from random_model import random_model, run_folder

from stages.contracts.artifact import read, write
from stages.contracts.attempt import Outcome, StoppedBy, read_attempts
from stages.contracts.expressions import Comparison
from stages.contracts.run_card import TrainCard
from stages.contracts.stops import StopRule, StopRules
from stages.contracts.training import GrpoSettings
from stages.train.recorder import Cell, Journal
from stages.train.run import Stopping

SILENT = Comparison(metric="zero_signal_share", sign="==", value=1.0)
STOP = StopRules(rules=(StopRule(id="early_stop", when=SILENT, lasting=3, window=1),))


def go_on(journal: Journal, attempt: str, stopping: Stopping, steps: range, shares: dict[int, float]) -> int | None:
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
    assert go_on(whole, "a1", Stopping(STOP, whole, 0), range(1, 10), shares) == 6
    journal = Journal(tmp_path / "resumed")
    go_on(journal, "a1", Stopping(STOP, journal, 0), range(1, 6), {**shares, **dict.fromkeys(range(checkpoint + 1, 6), 0.0)})
    stopping = Stopping(STOP, journal, checkpoint)
    assert go_on(journal, "a2", stopping, range(checkpoint + 1, 10), shares) == 6
    assert stopping.stopped == StoppedBy(
        rule="early_stop", step=6, says="zero_signal_share at step 6 (the condition held over steps 4-6) is 1"
    )


def test_a_run_that_was_stopped_already_says_so(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    go_on(journal, "a1", Stopping(STOP, journal, 0), range(1, 10), {})
    again = Stopping(STOP, journal, 3)
    assert again.stopped is not None and again.stopped.step == 3
    assert Stopping(STOP, journal, 2).stopped is None  # the checkpoint before it has not seen the third step
    assert go_on(journal, "a2", Stopping(None, journal, 0), range(1, 10), {}) is None, "without rules nothing stops"


@pytest.mark.e2e
def test_a_rule_stops_a_run_also_after_a_kill(tmp_path: Path, train: Callable[..., int | None], capsys: pytest.CaptureFixture[str]) -> None:
    """Of 12 steps; the rule holds from step 1 on, so it stops the run at step 9, whichever attempt has seen the first steps."""
    always = Comparison(metric="learning_rate", sign=">", value=0.0)
    stop = StopRules(rules=(StopRule(id="early_stop", when=always, lasting=9, window=1),))
    plain = {"max_steps": 12, "learning_rate": 1e-2, "max_completion_length": 6, "save_steps": 2, "num_generations": 4}
    settings = GrpoSettings.model_validate({**plain, "per_device_train_batch_size": 8})
    run = run_folder(tmp_path, random_model(tmp_path / "base"), settings)
    write(run.card, read(TrainCard[GrpoSettings], run.card).model_copy(update={"stop": stop}))
    assert train("grpo", tmp_path, killed_in=6) is None and train("grpo", tmp_path) == 0
    assert "stopped by early_stop at step 9 of 12" in capsys.readouterr().out
    outcome, (first, second) = read(Outcome, run.outcome), read_attempts(run.attempts)
    assert outcome.finished and (outcome.steps_done, outcome.target_steps) == (9, 12)
    assert outcome.stopped is not None and (outcome.stopped.rule, outcome.stopped.step) == ("early_stop", 9)
    assert (first.state, second.state, second.started.resumed_from) == ("killed", "finished", 4)
    assert second.ended is not None and second.ended.stopped == outcome.stopped
    assert (run.adapter / "adapter_model.safetensors").exists()
