"""Stage `screen`: measures every run of an experiment and decides whether it counts.

    python -m stages.analyse.screen runs/<experiment>

Reads analysis/screen.card.json and each run's history, completions and outcome; writes each <run>/health.json. A failed run that is
due again gets a new <run>/retry.json, so that the next `dvc repro` trains it; the file is left alone when its content stays the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from stages.analyse import adapter, summaries
from stages.analyse.completions import read_completions
from stages.analyse.detectors import duplicates
from stages.analyse.duplicates import fingerprint
from stages.analyse.health_gates import judge
from stages.analyse.summary import series
from stages.analyse.tables import History, read_history
from stages.analyse.windows import final_window
from stages.contracts.analysis_card import ConditionCard, HealthGate, RunRef, ScreenCard
from stages.contracts.artifact import ArtifactError, dump, read, write
from stages.contracts.attempt import Outcome
from stages.contracts.health import Detection, GateResult, Health
from stages.contracts.import_card import Imported
from stages.contracts.layout import ExperimentFolder, RunFolder
from stages.contracts.observed import Observed
from stages.contracts.plugin import DETECTORS, load
from stages.contracts.retry import Retry
from stages.contracts.stage import main, open_card

MODULES = ("stages.analyse.screen",)
HELD_AGAINST_NULL = ("kl",)
"""Metrics of which a detector asks what the null controls' runs did."""
TOO_LARGE = "a logged number is so large that sums and squares of it are no numbers any more (beyond 1e308)"
NOT_DUE = {"refused"}
"""Failures that a new attempt cannot cure; what made them (a permission, a reward example) is a dependency of train anyway."""


def plugins(card: ScreenCard) -> list[str]:
    """Detector modules that the card names: part of its code hash."""
    every = [*card.detectors, *(detector for own in card.others for detector in own.detectors)]
    return [f"{DETECTORS}.{kind}" for kind in dict.fromkeys(detector.kind for detector in every)]


def screen(folder: Path) -> None:
    """Write health.json of every run."""
    experiment = ExperimentFolder(folder)
    card = open_card(ScreenCard, experiment.screen_card, MODULES, plugins)
    known = _Known(card)
    found: dict[str, Health] = {}
    for run in sorted(card.runs, key=lambda run: known.condition(run).role != "null_control"):  # what the others are held against is first
        found[run.name] = _measure(known, run, experiment.run(run.name))
    healths = [found[run.name] for run in card.runs]
    for health in healths:
        place = experiment.run(health.run)
        write(place.health, health)
        _retry(place)
        if not health.included:
            print(f"screen: {health.run} is left out: {'; '.join(health.reasons)}")
    print(f"screen: {sum(health.included for health in healths)} of {len(healths)} runs are included")


_Judged = tuple[HealthGate, GateResult]


class _Known:
    """What is known of the runs measured so far, a few numbers each: a thousand histories do not fit in memory together."""

    def __init__(self, card: ScreenCard) -> None:
        self.card = card
        self._conditions = {condition.name: condition for condition in card.conditions}
        self._sizes = Counter(run.condition for run in card.runs)
        self._seen: dict[str, dict[str, str]] = {}
        """Fingerprint of series -> condition -> the first included run that has them."""
        self._left_out: dict[tuple[str, str], str] = {}
        """Condition and fingerprint -> the first run that has them and does not count."""
        self.null_finals: dict[str, list[float]] = {name: [] for name in HELD_AGAINST_NULL}

    def condition(self, run: RunRef) -> ConditionCard:
        return self._conditions[run.condition]

    def around(self, run: RunRef, print_: str | None) -> dict[str, Any]:
        null, same = self.condition(run).role == "null_control", self._seen.get(print_ or "", {})
        counted = same.get(run.condition)
        return {
            "twin": counted or self._left_out.get((run.condition, print_ or "")),
            "twin_counts": counted is not None,
            "elsewhere": next((name for condition, name in same.items() if condition != run.condition), None),
            "siblings": self._sizes[run.condition] - 1,
            "null_finals": {} if null else self.null_finals,
        }

    def left_out(self, run: RunRef, print_: str | None) -> None:
        """Remember a run that is not."""
        if print_:
            self._left_out.setdefault((run.condition, print_), run.name)

    def counts(self, run: RunRef, history: History, print_: str | None) -> None:
        """Remember a run that is included."""
        if print_:
            self._seen.setdefault(print_, {}).setdefault(run.condition, run.name)
        if self.condition(run).role == "null_control":
            window = final_window(run.target_steps, self.card.windows.final)
            for name, finals in self.null_finals.items():
                values = history.values(name, window.first, window.last)
                finals += [float(values.mean())] if len(values) else []


def _measure(known: _Known, run: RunRef, place: RunFolder) -> Health:
    card = known.card
    outcome = _outcome(place)
    history, imported = read_history(place.history), read(Imported, place.imported) if place.imported.exists() else None
    only_summary = imported is not None and bool(imported.summary)
    print_ = fingerprint(history.columns)
    condition = known.condition(run)
    around = known.around(run, print_) | {"adapter": adapter.state(place.adapter), "imported": imported is not None}
    measured = series(run, condition, history, read_completions(place.completions, texts=True), **around)
    detectors = next((own.detectors for own in card.others if own.condition == run.condition), card.detectors)
    detections = tuple(
        summaries.unobservable(detector.kind)
        if only_summary
        else _detect(detector.kind, detector.settings, measured, supervised=condition.supervised)
        for detector in detectors
    )
    if imported is not None and only_summary:
        detections += (summaries.look(imported, card.detectors, measured.null_control),)
    elif not any(detector.kind == duplicates.NAME for detector in card.detectors):  # whatever the profile: a run never counts twice
        detections += (duplicates.detect(duplicates.Settings(), measured),)
    gates = tuple(
        judge(
            gate,
            run=run,
            null_control=measured.null_control,
            history=history,
            outcome=outcome,
            detections=detections,
            windows=card.windows,
            imported=imported,
            supervised=condition.supervised,
        )
        for gate in card.gates
    )
    judged, lost = list(zip(card.gates, gates, strict=True)), history.gradient.since is not None
    reasons, failed = _reasons(history, outcome, only_summary), _gate_reasons(outcome, judged, lost)
    found = [signal for one in detections if one.detector == duplicates.NAME for signal in one.signals]
    twins = tuple(signal.says for signal in found if signal.severity == "severe")
    if failed and not reasons and measured.twin is None:
        gates = _alone(outcome, judged, lost)
    reasons = (*reasons, *failed) or twins
    if reasons:
        known.left_out(run, print_)
    else:
        known.counts(run, history, print_)
    return Health(
        run=run.name,
        condition=run.condition,
        seed=run.seed,
        card_id=history.card_id or (outcome.card_id if outcome else None),
        attempt=history.attempt or (outcome.attempt if outcome else None),
        state=_state(outcome),
        steps_done=outcome.steps_done if outcome else None,
        target_steps=run.target_steps,
        failure=outcome.failure if outcome else None,
        error=outcome.error if outcome else None,
        stopped=outcome.stopped if outcome else None,
        detections=detections,
        gates=gates,
        included=not reasons,
        reasons=reasons,
        stride=history.stride,
        valid_until=measured.valid_until,
        notes=(*_notes(history), *(imported.notes if imported else ())),
    )


def _state(outcome: Outcome | None) -> Literal["finished", "failed", "unknown", "missing"]:
    if outcome is None:
        return "missing"
    return "finished" if outcome.finished else "unknown" if outcome.unknown else "failed"


def _outcome(place: RunFolder) -> Outcome | None:
    return read(Outcome, place.outcome) if place.outcome.exists() else None


def _detect(kind: str, settings: dict[str, object], measured: Observed, *, supervised: bool) -> Detection:
    try:
        plugin = load(DETECTORS, kind)
    except KeyError:
        raise ArtifactError("screen.card.json", f"no detector {kind!r}", why="it was removed or renamed", fix="octavo compile") from None
    if supervised and getattr(plugin, "NEEDS_COMPLETIONS", False):
        reason = "supervised fine-tuning samples no completions and has no rewards"
        return Detection(detector=kind, state="not_applicable", reason=reason)
    try:
        with np.errstate(over="raise"):
            found: Detection = plugin.detect(plugin.Settings.model_validate(settings), measured)
    except (OverflowError, FloatingPointError):
        return Detection(detector=kind, state="not_observable", reason=TOO_LARGE)
    numbers = [number for signal in found.signals for number in (signal.value, *signal.evidence.values()) if isinstance(number, float)]
    return found if all(map(math.isfinite, numbers)) else Detection(detector=kind, state="not_observable", reason=TOO_LARGE)


def _gate_reasons(outcome: Outcome | None, judged: Sequence[_Judged], lost: bool) -> tuple[str, ...]:
    """Gates for which the run is left out; what merely follows from an unfinished run, from a rule that stopped it, or from values that
    stay non-finite is not repeated."""
    finished = outcome is not None and (outcome.finished or bool(outcome.unknown))
    told = outcome is not None and outcome.stopped is not None and any(gate.rule == "complete" for gate, _ in judged)
    told = told or (lost and any(gate.rule == "not_persistent" and answer.passed is False for gate, answer in judged))
    reasons = []
    for gate, answer in judged:
        follows = (not finished and (answer.passed is None or gate.rule == "complete")) or (told and answer.passed is None)
        if not answer.passed and not follows:
            reasons.append(f"gate {answer.gate}: {answer.says}")
    return tuple(reasons)


def _alone(outcome: Outcome | None, judged: Sequence[_Judged], lost: bool) -> tuple[GateResult, ...]:
    """The gates of a run that is left out for nothing else, marked where the run would count if this one had not been declared."""
    rest = [[other for other in judged if other[0].name != gate.name] for gate, _ in judged]
    return tuple(
        answer.model_copy(update={"alone": not answer.passed and not _gate_reasons(outcome, others, lost)})
        for (_, answer), others in zip(judged, rest, strict=True)
    )


def _reasons(history: History, outcome: Outcome | None, only_summary: bool) -> tuple[str, ...]:
    """Why the run does not count whatever its gates say, the cause first."""
    reasons = []
    if outcome is None:
        reasons.append("not trained: no outcome was recorded")
    elif not outcome.finished and not outcome.unknown:
        if outcome.error and outcome.failure is None:
            reasons.append(f"its source says that it did not end well: {outcome.error}")
        else:
            reasons.append(f"the last attempt failed ({outcome.failure or 'unknown class'}) after {outcome.steps_done} steps")
    elif not history.columns and not only_summary:
        reasons.append("nothing was logged")
    if outcome is not None and history.card_id and outcome.card_id != history.card_id:
        reasons.append(f"history and outcome belong to different cards ({history.card_id} and {outcome.card_id})")
    return tuple(reasons)


def _notes(history: History) -> tuple[str, ...]:
    return tuple(
        f"steps {lap.first}-{lap.last} of attempt {lap.attempt} were made again by attempt {lap.by}; the later rows count"
        for lap in history.overlaps
    )


def _retry(place: RunFolder) -> None:
    """Make a failed run due again. A finished run's file is left alone: DVC would train it again."""
    outcome = _outcome(place)
    if place.imported.exists() and not place.retry.exists():  # a new attempt would read the same source again
        return
    if outcome is None or outcome.finished or outcome.failure in NOT_DUE:
        return
    due = Retry(after=outcome.attempt)
    if not place.retry.exists() or place.retry.read_text(encoding="utf-8") != dump(due):
        write(place.retry, due)


if __name__ == "__main__":
    main(screen, "python -m stages.analyse.screen runs/<experiment>")
