"""Stop rules while a run trains, for any trainer: a trainer shows each logged step here and ends the run when a rule says so."""

from __future__ import annotations

from collections.abc import Mapping

from stages.contracts.attempt import StoppedBy
from stages.contracts.stops import StopRules
from stages.rules import Watch
from stages.train.recorder import Cell, Journal


class Stopping:
    """The rules of one run. Their state comes from the journal, so an attempt that resumes goes on where the last one was.

    `done`: steps that lie behind the attempt. `stopped` is set when a rule ends the run, also when it had done so before.
    """

    def __init__(self, stop: StopRules | None, journal: Journal, done: int) -> None:
        self.stopped: StoppedBy | None = None
        self._watch = Watch(stop) if stop is not None else None
        if stop is not None:
            for step, cells in journal.steps(until=done):
                self.see(step, cells)

    def see(self, step: int, cells: Mapping[str, Cell]) -> bool:
        """One logged step. True: save a checkpoint of it and train no further."""
        firing = self._watch.see(step, cells) if self._watch is not None else None
        if firing is not None:
            self.stopped = StoppedBy(rule=firing.rule, step=step, says=f"{firing.quantity} is {firing.value:.4g}")
        return firing is not None
