"""What people see of a run that trains: where it is, how the reward moves, what each gate passes, where the time goes, how much is left.

On a terminal a few lines are written again and again, folded to its width. Elsewhere, and in CI, about ten lines a run are printed.
`OCTAVO_PROGRESS=json` prints every step as one line of JSON, `lines` and `live` choose the other two, `off` shows nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Mapping
from datetime import timedelta

from stages.train.recorder import Cell

VARIABLE = "OCTAVO_PROGRESS"
MODES = ("live", "lines", "json", "off")
PARTS = {"generation": "generation", "reward": "rewards", "update": "update"}
SHARES = {"zero_signal_share": "zero-signal", "truncated": "truncated", "mean_token_accuracy": "gold tokens"}
NUMBERS = {"reward": "reward", "group_range": "spread", "objective.kl": "KL"}
_BAR = 24


class Progress:
    """Shows each step of one attempt. Whatever becomes of the terminal, training goes on."""

    def __init__(self, name: str, attempt: int, steps: int, begin_at: int = 0) -> None:
        self.name, self.attempt, self.steps, self.mode = name, attempt, steps, _mode()
        self._rows_drawn = self._skipped = 0
        self._since = (begin_at, time.monotonic())
        self._first = True

    def step(self, step: int, cells: Mapping[str, Cell]) -> None:
        """Show one finished step."""
        before, begun = self._since
        pace = (time.monotonic() - begun) / max(1, step - before)
        if self._first:  # it loads and compiles, and counts only as long as there is no other
            self._first, self._since = False, (step, time.monotonic())
        self._skipped += bool(cells.get("skipped"))
        if self.mode == "json":
            self._write(json.dumps(self._record(step, cells, pace), allow_nan=False) + "\n")
        elif self.mode == "live":
            done = round(_BAR * step / self.steps)
            rows = textwrap.wrap(f"[{'#' * done:.<{_BAR}}] {self._text(step, cells, pace)}", shutil.get_terminal_size().columns - 1)
            up = f"\x1b[{self._rows_drawn - 1}A" if self._rows_drawn > 1 else ""
            self._write(f"\r{up}\x1b[J" + "\n".join(rows) + ("\n" if step == self.steps else ""))
            self._rows_drawn = len(rows)
        elif self.mode == "lines" and (step == self.steps or step % max(1, self.steps // 10) == 0):
            self._write(self._text(step, cells, pace) + "\n")

    def _text(self, step: int, cells: Mapping[str, Cell], pace: float) -> str:
        """Where it is, how it learns, and what its time goes to."""
        left = timedelta(seconds=round(pace * (self.steps - step)))
        fields = [f"{self.name} (attempt {self.attempt})", f"step {step}/{self.steps}", f"{left} left"]
        names = NUMBERS if "reward" in cells else {"loss": "loss"}  # supervised fine-tuning has no reward
        fields += [f"{word} {_number(cells[name], '.2f')}" for name, word in names.items() if name in cells]
        fields += [f"{word} {_number(cells[name], '.0%')}" for name, word in SHARES.items() if name in cells]
        gates = [f"{gate} {_number(passed, '.0%')}" for gate, passed in _gates(cells).items()]
        fields += [" -> ".join(gates)] if gates else []
        fields += [f"non-finite {self._skipped}"] if self._skipped else []
        seconds = _seconds(cells)
        return "  ".join(
            [*fields, f"{pace:.2f} s/step", *(f"{word} {seconds[part]:.2f} s" for part, word in PARTS.items() if part in seconds)]
        )

    def _record(self, step: int, cells: Mapping[str, Cell], pace: float) -> dict[str, object]:
        return {
            "progress": self.name,
            "attempt": self.attempt,
            "step": step,
            "steps": self.steps,
            **{name: _finite(cells[name]) for name in (*NUMBERS, *SHARES, "unknown_share", "loss", "grad_norm") if name in cells},
            "gates": {gate: _finite(passed) for gate, passed in _gates(cells).items()},
            "skipped": self._skipped,
            "seconds": {part: round(seconds, 4) for part, seconds in _seconds(cells).items()},
            "seconds_left": round(pace * (self.steps - step), 1),
        }

    def _write(self, text: str) -> None:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError:  # the terminal or the pipe has gone
            self.mode = "off"


def _mode() -> str:
    wanted = os.environ.get(VARIABLE, "")
    if wanted in MODES:
        return wanted
    return "live" if sys.stdout.isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb" else "lines"


def _gates(cells: Mapping[str, Cell]) -> dict[str, Cell]:
    """Gate -> share of completions that passed it, in the order of the funnel."""
    return {name[5:-11]: cell for name, cell in cells.items() if name.startswith("gate.") and name.endswith(".pass_share")}


def _seconds(cells: Mapping[str, Cell]) -> dict[str, float]:
    """Seconds of a step by what they went to."""
    parts = {part: _finite(cells.get(f"{part}_seconds")) for part in ("step", *PARTS)}
    return {part: seconds for part, seconds in parts.items() if seconds is not None}


def _finite(cell: Cell) -> float | None:
    return float(cell) if isinstance(cell, float | int) else None


def _number(cell: Cell, form: str) -> str:
    return format(cell, form) if isinstance(cell, float | int) else "-"
