"""What people see of a run that trains: where it is, reward and spread, silent groups, funnel, what a step's time goes to, time left.

On a terminal a few lines are written again and again, folded to its width. Elsewhere, and in CI, about ten lines a run are printed.
`OCTAVO_PROGRESS=json` prints every step as one line of JSON, `lines` and `live` choose the other two, `off` shows nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import chain

from stages.train.recorder import Cell

VARIABLE = "OCTAVO_PROGRESS"
MODES = ("live", "lines", "json", "off")
PARTS = {"generation": "generation", "reward": "rewards", "update": "update"}
_IN_JSON = ("reward", "group_range", "zero_signal_share", "unknown_share", "truncated", "objective.kl", "loss", "grad_norm")
_BAR = 24


class Progress:
    """Shows each step of one attempt. Whatever becomes of the terminal, training goes on."""

    def __init__(self, name: str, attempt: int, steps: int, begin_at: int = 0) -> None:
        self.name, self.attempt, self.steps = name, attempt, steps
        self.mode = _mode()
        self._rows_drawn = self._skipped = 0
        self._since = (begin_at, time.monotonic())
        self._first = True

    def step(self, step: int, cells: Mapping[str, Cell]) -> None:
        """Show one finished step."""
        pace = self._pace(step)
        self._skipped += bool(cells.get("skipped"))
        if self.mode == "json":
            self._write(json.dumps(self._record(step, cells, pace), ensure_ascii=True, allow_nan=False) + "\n")
        elif self.mode == "live":
            self._draw(self._fields(step, cells, pace, bar=True), last=step == self.steps)
        elif self.mode == "lines" and (step == self.steps or step % max(1, self.steps // 10) == 0):
            self._write("  ".join(chain.from_iterable(self._fields(step, cells, pace, bar=False))) + "\n")

    def _pace(self, step: int) -> float:
        """Seconds a step; the first one, which loads and compiles, counts only as long as there is no other."""
        before, begun = self._since
        pace = (time.monotonic() - begun) / max(1, step - before)
        if self._first:
            self._first, self._since = False, (step, time.monotonic())
        return pace

    def _fields(self, step: int, cells: Mapping[str, Cell], pace: float, *, bar: bool) -> tuple[list[str], list[str], list[str]]:
        """Where it is, how it learns, and what its time goes to."""
        done = round(_BAR * step / self.steps)
        place = [f"{self.name} (attempt {self.attempt})", *(["━" * done + "╌" * (_BAR - done)] if bar else [])]
        place += [f"step {step}/{self.steps}", f"{_duration(pace * (self.steps - step))} left"]
        if "mean_token_accuracy" in cells:  # supervised fine-tuning
            learning = [f"loss {_number(cells.get('loss'))}  gold tokens {_percent(cells['mean_token_accuracy'])}"]
        else:
            spread = f" spread {_number(cells['group_range'])}" if "group_range" in cells else ""
            learning = [f"reward {_number(cells.get('reward'))}{spread}"]
            learning += [f"zero-signal {_percent(cells['zero_signal_share'])}"] if "zero_signal_share" in cells else []
            learning += [f"KL {_number(cells['objective.kl'])}"] if "objective.kl" in cells else []
            learning += [f"truncated {_percent(cells.get('truncated'))}"]
        for number, (gate, passed) in enumerate(_gates(cells).items()):
            learning.append(f"{'→ ' if number else ''}{gate} {_percent(passed)}")
        learning += [f"non-finite {self._skipped}"] if self._skipped else []
        seconds = _seconds(cells)
        return (
            place,
            learning,
            [f"{pace:.2f} s/step", *(f"{word} {seconds[part]:.2f} s" for part, word in PARTS.items() if part in seconds)],
        )

    def _record(self, step: int, cells: Mapping[str, Cell], pace: float) -> dict[str, object]:
        return {
            "progress": self.name,
            "attempt": self.attempt,
            "step": step,
            "steps": self.steps,
            **{name: _finite(cells[name]) for name in (*_IN_JSON, "mean_token_accuracy") if name in cells},
            "gates": {gate: _finite(passed) for gate, passed in _gates(cells).items()},
            "skipped": self._skipped,
            "seconds": {part: round(seconds, 4) for part, seconds in _seconds(cells).items()},
            "seconds_left": round(pace * (self.steps - step), 1),
        }

    def _draw(self, fields: Sequence[Sequence[str]], last: bool) -> None:
        rows = [row for group in fields for row in folded(group, shutil.get_terminal_size().columns - 1)]
        up = f"\x1b[{self._rows_drawn - 1}A" if self._rows_drawn > 1 else ""
        rows[0] = rows[0] if os.environ.get("NO_COLOR") else f"\x1b[1m{rows[0]}\x1b[0m"
        self._write(f"\r{up}\x1b[J" + "\n".join(rows) + ("\n" if last else ""))
        self._rows_drawn = len(rows)

    def _write(self, text: str) -> None:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except UnicodeEncodeError:
            sys.stdout.write(text.translate({0x2501: "#", 0x254C: ".", 0x2192: ">", 0x2013: "-"}).encode("ascii", "replace").decode())
        except OSError:  # the terminal or the pipe has gone
            self.mode = "off"


def folded(fields: Sequence[str], width: int) -> list[str]:
    """Fields in as few rows as the width allows, in order; one that is wider than a row is cut."""
    rows: list[str] = []
    for field in fields:
        if rows and len(rows[-1]) + 2 + len(field) <= width:
            rows[-1] += f"  {field}"
        else:
            rows.append(field if len(field) <= width else field[: max(0, width - 1)] + "…")
    return rows


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


def _number(cell: Cell) -> str:
    return f"{cell:.2f}" if isinstance(cell, float | int) else "–"


def _percent(cell: Cell) -> str:
    return f"{cell:.0%}" if isinstance(cell, float | int) else "–"


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60:02} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60:02} min"
