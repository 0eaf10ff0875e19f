"""What people see of a run that trains: where it is, how the reward moves, what each gate passes, where the time goes, how much is left.

On a terminal one line is written again and again, cut to its width. Elsewhere, and in CI, about ten lines a run are printed.
`OCTAVO_PROGRESS=json` prints every step as one line of JSON, `lines` and `live` choose the other two, `off` shows nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from datetime import timedelta

from stages.train.recorder import Cell

MODES = ("live", "lines", "json", "off")
PARTS = {"generation": "generation", "reward": "rewards", "update": "update"}
SHOWN = {
    "reward": ("reward", ".2f"),
    "group_range": ("spread", ".2f"),
    "objective.kl": ("KL", ".2f"),
    "zero_signal_share": ("zero-signal", ".0%"),
    "truncated": ("truncated", ".0%"),
    "mean_token_accuracy": ("gold tokens", ".0%"),
}


class Progress:
    """Shows each step of one attempt. Whatever becomes of the terminal, training goes on."""

    def __init__(self, name: str, attempt: int, steps: int, begin_at: int = 0) -> None:
        self.name, self.attempt, self.steps = name, attempt, steps
        self.mode = os.environ.get("OCTAVO_PROGRESS", "")
        if self.mode not in MODES:
            is_live = sys.stdout.isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"
            self.mode = "live" if is_live else "lines"
        self._skipped, self._first = 0, True
        self._since = (begin_at, time.monotonic())

    def step(self, step: int, cells: Mapping[str, Cell]) -> None:
        """Show one finished step."""
        before, begun = self._since
        pace = (time.monotonic() - begun) / max(1, step - before)
        if self._first:  # it loads and compiles, and counts only as long as there is no other
            self._first, self._since = False, (step, time.monotonic())
        self._skipped += bool(cells.get("skipped"))
        is_last = step == self.steps
        if self.mode == "json":
            self._write(json.dumps(self._record(step, cells, pace), allow_nan=False) + "\n")
        elif self.mode == "live":
            line = self._text(step, cells, pace)[: shutil.get_terminal_size().columns - 1]
            self._write(f"\r\x1b[K{line}" + ("\n" if is_last else ""))
        elif self.mode == "lines" and (is_last or step % max(1, self.steps // 10) == 0):
            self._write(self._text(step, cells, pace) + "\n")

    def _text(self, step: int, cells: Mapping[str, Cell], pace: float) -> str:
        """Where it is, how it learns, and what its time goes to."""
        left = timedelta(seconds=round(pace * (self.steps - step)))
        fields = [f"{self.name} (attempt {self.attempt})", f"step {step}/{self.steps}", f"{left} left"]
        shown = SHOWN if "reward" in cells else {"loss": ("loss", ".2f"), **SHOWN}  # supervised fine-tuning has no reward
        fields += [f"{word} {_number(cells[name], form)}" for name, (word, form) in shown.items() if name in cells]
        gates = [f"{gate} {_number(passed, '.0%')}" for gate, passed in _gates(cells).items()]
        fields += [" -> ".join(gates)] if gates else []
        fields += [f"non-finite {self._skipped}"] if self._skipped else []
        seconds = [f"{word} {_number(cells[f'{part}_seconds'], '.2f')} s" for part, word in PARTS.items() if f"{part}_seconds" in cells]
        return "  ".join([*fields, f"{pace:.2f} s/step", *seconds])

    def _record(self, step: int, cells: Mapping[str, Cell], pace: float) -> dict[str, object]:
        seconds = {part: _finite(cells.get(f"{part}_seconds")) for part in ("step", *PARTS)}
        return {
            "progress": self.name,
            "attempt": self.attempt,
            "step": step,
            "steps": self.steps,
            **{name: _finite(cells[name]) for name in (*SHOWN, "unknown_share", "loss", "grad_norm") if name in cells},
            "gates": {gate: _finite(passed) for gate, passed in _gates(cells).items()},
            "skipped": self._skipped,
            "seconds": {part: round(value, 4) for part, value in seconds.items() if value is not None},
            "seconds_left": round(pace * (self.steps - step), 1),
        }

    def _write(self, text: str) -> None:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError:  # the terminal or the pipe has gone
            self.mode = "off"


def _gates(cells: Mapping[str, Cell]) -> dict[str, Cell]:
    """Gate -> share of completions that passed it, in the order of the funnel."""
    return {name[5:-11]: cell for name, cell in cells.items() if name.startswith("gate.") and name.endswith(".pass_share")}


def _finite(cell: Cell) -> float | None:
    return float(cell) if isinstance(cell, float | int) else None


def _number(cell: Cell, form: str) -> str:
    return format(cell, form) if isinstance(cell, float | int) else "-"
