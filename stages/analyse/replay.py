"""Stop rules and expectations once more, on a recorded history: the evaluator that ran while the run trained must say the same again."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import isfinite
from typing import Any

from stages.analyse.frames import NULL, SILENT, Run
from stages.contracts.analysis_card import ConcludeCard
from stages.contracts.expressions import comparisons
from stages.contracts.health import Health
from stages.contracts.history import GRADIENT_METRICS, SKIPPED
from stages.rules import Answer, Row, Watch, answer


def rows(run: Run, metrics: Collection[str]) -> Iterator[tuple[int, Row]]:
    """(step, cells) of all logged steps up to the target, rising, as the recorder gave them to the rules while the run trained. A step at
    which only other metrics were logged has no cells: windows move on over it."""
    frame = run.steps.loc[: run.target_steps, [name for name in run.steps if name in {*metrics, *GRADIENT_METRICS, SKIPPED}]]
    unscored = set(run.unscored) if SILENT in frame else set()
    for step, cells in zip(frame.index.tolist(), frame.to_numpy().tolist(), strict=True):
        row: dict[str, Any] = {
            str(name): cell if isfinite(cell) else None if cell == NULL else {"nonfinite": "nan"}
            for name, cell in zip(frame, cells, strict=True)
            if cell == cell  # NaN: not logged
        }
        if step in unscored and isinstance(row.get(SILENT), float):
            row[SILENT] = 1.0
        yield step, row


def watch_of(run: Run, card: ConcludeCard) -> Watch | None:
    """The stop rules of the run's condition after its whole history; None without rules."""
    stop = card.stops.get(run.condition)
    if stop is None:
        return None
    watch = Watch(stop)
    for step, row in rows(run, {leaf.metric for rule in (*stop.rules, *stop.green_lights) for leaf in comparisons(rule.when)}):
        watch.see(step, row)
    return watch


def answers_of(run: Run, card: ConcludeCard, health: Health | None) -> dict[str, Answer]:
    """By expectation of the run's condition: what the run says of it."""
    # a log with a stride reaches a place that lies before its next row; a trainer's own count of steps is believed
    done = max(run.last_step + run.stride - 1 if run.last_step else 0, (health.steps_done or 0) if health else 0)
    answers = {}
    for expected in card.expectations:
        if run.condition in expected.conditions:
            result = answer(expected, rows(run, {expected.metric}), target_steps=run.target_steps, done=done, share=card.windows.final)
            if health and health.stopped and result.state == "not_reached":
                result = Answer("not_reached", None, result.window, f"stopped by {health.stopped.rule} at step {health.stopped.step}")
            answers[expected.name] = result
    return answers
