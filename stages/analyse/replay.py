"""Stop rules and expectations once more, on a recorded history: the evaluator that ran while the run trained must say the same again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from stages.analyse.frames import NULL, SILENT, Run
from stages.contracts.analysis_card import ConcludeCard
from stages.contracts.expressions import comparisons
from stages.contracts.health import Health
from stages.contracts.history import GRADIENT_METRICS, SKIPPED
from stages.contracts.stops import StopRules
from stages.rules import Answer, Firing, Row, Watch, answer


@dataclass(frozen=True)
class Replayed:
    """What rules and expectations say of a run."""

    stop: StopRules | None
    firings: Mapping[str, list[Firing]]
    """By rule; rules that never fired are left out."""
    stopped: Firing | None
    known: frozenset[str]
    """Metrics that had a number at any step that the rules saw."""
    answers: Mapping[str, Answer]
    """By expectation."""


def rows(run: Run, metrics: Collection[str] | None = None) -> Iterator[tuple[int, Row]]:
    """(step, cells) of all logged steps, rising, as the recorder gave them to the rules while the run trained. A step at which only other
    metrics were logged has no cells: windows move on over it."""
    frame = run.steps if metrics is None else run.steps[[name for name in run.steps.columns if name in metrics]]
    unscored = set(run.unscored) if SILENT in frame.columns else set()
    names = [str(name) for name in frame.columns]
    for step, cells in zip(frame.index.tolist(), frame.to_numpy().tolist(), strict=True):
        row: dict[str, Any] = {
            name: cell if isfinite(cell) else None if cell == NULL else {"nonfinite": "nan"}
            for name, cell in zip(names, cells, strict=True)
            if cell == cell  # NaN: not logged
        }
        if step in unscored and isinstance(row.get(SILENT), float):
            row[SILENT] = 1.0
        yield step, row


def replay(run: Run, card: ConcludeCard, health: Health | None) -> Replayed:
    """Evaluate the rules and expectations of a run's condition. Rows beyond the target are no part of the run."""
    stop = card.stops.get(run.condition)
    expectations = [expected for expected in card.expectations if run.condition in expected.conditions]
    rules = (*stop.rules, *stop.green_lights) if stop else ()
    asked = {leaf.metric for rule in rules for leaf in comparisons(rule.when)} | {expected.metric for expected in expectations}
    if not asked:
        return Replayed(None, {}, None, frozenset(), {})
    seen = [row for row in rows(run, {*asked, *GRADIENT_METRICS, SKIPPED}) if row[0] <= run.target_steps]
    # a log with a stride reaches a place that lies before its next row; a trainer's own count of steps is believed
    done = max(run.last_step + run.stride - 1 if run.last_step else 0, (health.steps_done or 0) if health else 0)
    answers = {
        expected.name: answer(expected, seen, target_steps=run.target_steps, done=done, share=card.windows.final)
        for expected in expectations
    }
    if health and health.stopped:
        why = f"stopped by {health.stopped.rule} at step {health.stopped.step}"
        late = {name: Answer(one.state, None, one.window, why) for name, one in answers.items() if one.state == "not_reached"}
        answers |= late
    if stop is None:
        return Replayed(None, {}, None, frozenset(), answers)
    watch = Watch(stop)
    for step, row in seen:
        watch.see(step, row)
    firings: dict[str, list[Firing]] = {}
    for firing in watch.firings:
        firings.setdefault(firing.rule, []).append(firing)
    return Replayed(stop, firings, watch.stopped, frozenset(watch.known), answers)
