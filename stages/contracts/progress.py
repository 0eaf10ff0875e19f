"""How far runs are that have not ended: what a page says that is written while they go on (`octavo page --now`)."""

from __future__ import annotations

from typing import Literal

from stages.contracts.artifact import Frozen, Time

RunState = Literal["waiting", "running", "elsewhere", "interrupted", "growing", "ended"]
"""waiting: no attempt has begun. running: a process of this machine trains it. elsewhere: one of another machine did when it last wrote.
interrupted: its process has gone. growing: an imported log without an end. ended: its attempt is over, whatever came of it."""


class RunProgress(Frozen):
    """One run."""

    run: str
    state: RunState
    step: int
    target: int
    began: Time | None = None
    """When the attempt began that is the newest."""
    newest: Time | None = None
    """When the newest step was written."""
    step_seconds: float | None = None
    """Seconds that one of the last steps took."""

    @property
    def goes_on(self) -> bool:
        return self.state != "ended"

    @property
    def seconds_left(self) -> float | None:
        """To its last step, at this pace; None where the pace is not known."""
        return None if self.step_seconds is None or not self.goes_on else self.step_seconds * max(0, self.target - self.step)


class Progress(Frozen):
    """All runs of an experiment, as they were at one moment."""

    written: Time
    runs: tuple[RunProgress, ...]

    @property
    def at_once(self) -> int:
        """Runs that train at the same time."""
        return sum(run.state in ("running", "elsewhere") for run in self.runs)

    @property
    def seconds_left(self) -> float | None:
        """To the last step of the last run, when as many runs train at once as now; None where the pace of no run is known, or where a
        log grows that says nothing of it."""
        paces = [run.step_seconds for run in self.runs if run.step_seconds is not None]
        if not paces or any(run.state == "growing" for run in self.runs):
            return None
        usual = sum(paces) / len(paces)
        left = [(run.step_seconds or usual) * max(0, run.target - run.step) for run in self.runs if run.goes_on]
        return max(sum(left) / max(1, self.at_once), max(left, default=0.0))
