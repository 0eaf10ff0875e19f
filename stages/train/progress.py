"""One clear line about a training run: what trains, step, reward with its spread, zero-signal share, funnel, time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from stages.train.recorder import Cell


class Progress:
    """Rewrites one line on a terminal; prints about ten lines a run elsewhere."""

    def __init__(self, name: str, attempt: int, steps: int, begin_at: int = 0) -> None:
        self.name, self.attempt, self.steps, self.begin_at = name, attempt, steps, begin_at
        self.live = sys.stdout.isatty()
        self.begun = time.monotonic()

    def step(self, step: int, cells: Mapping[str, Cell]) -> None:
        """Show one finished step."""
        last = step == self.steps
        if not self.live and not last and step % max(1, self.steps // 10):
            return
        pace = (time.monotonic() - self.begun) / max(1, step - self.begin_at)
        text = (
            f"{self.name} (attempt {self.attempt})  step {step}/{self.steps}  reward {_number(cells.get('reward'))}"
            f"{_signal(cells)}"
            f"  truncated {_percent(cells.get('truncated'))}{_funnel(cells)}  {pace:.2f} s/step  {pace * (self.steps - step):.0f} s left"
        )
        if self.live:
            print(f"\r\x1b[K{text}", end="\n" if last else "", flush=True)
        else:
            print(text, flush=True)


def _signal(cells: Mapping[str, Cell]) -> str:
    if "zero_signal_share" in cells:
        return f" ±{_number(cells.get('group_range'))}  zero-signal {_percent(cells.get('zero_signal_share'))}"
    return f"  KL {_number(cells.get('objective.kl'))}" if "objective.kl" in cells else ""


def _funnel(cells: Mapping[str, Cell]) -> str:
    gates = [name.split(".")[1] for name in cells if name.startswith("gate.") and name.endswith(".pass_share")]
    return "".join(f"  {gate} {_percent(cells.get(f'gate.{gate}.pass_share'))}" for gate in gates)


def _number(cell: Cell | None) -> str:
    return f"{cell:.2f}" if isinstance(cell, float | int) else "–"


def _percent(cell: Cell | None) -> str:
    return f"{cell:.0%}" if isinstance(cell, float | int) else "–"
