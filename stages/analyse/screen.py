"""Stage `screen`: measures every run of an experiment and decides whether it counts.

    python -m stages.analyse.screen runs/<experiment>

Reads analysis/screen.card.json and each run's history, completions and outcome; writes each <run>/health.json. A failed run that is
due again gets a new <run>/retry.json, so that the next `dvc repro` trains it; the file is left alone when its content stays the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from stages.analyse import summaries
from stages.analyse.duplicates import duplicates
from stages.analyse.health_gates import judge
from stages.analyse.summary import series
from stages.analyse.tables import History, read_completions, read_history
from stages.contracts.analysis_card import HealthGate, RunRef, ScreenCard
from stages.contracts.artifact import ArtifactError, dump, read, write
from stages.contracts.attempt import Outcome
from stages.contracts.health import Detection, GateResult, Health, Signal
from stages.contracts.import_card import Imported
from stages.contracts.layout import ExperimentFolder, RunFolder
from stages.contracts.plugin import DETECTORS, load
from stages.contracts.retry import Retry
from stages.contracts.series import Series
from stages.contracts.stage import main, open_card

MODULES = ("stages.analyse.screen",)
NOT_DUE = {"refused"}
"""Failures that a new attempt cannot cure; what made them (a permission, a reward example) is a dependency of train anyway."""


def plugins(card: ScreenCard) -> list[str]:
    """Detector modules that the card names: part of its code hash."""
    return [f"{DETECTORS}.{detector.kind}" for detector in card.detectors]


def screen(folder: Path) -> None:
    """Write health.json of every run."""
    experiment = ExperimentFolder(folder)
    card = open_card(ScreenCard, experiment.screen_card, MODULES, plugins)
    healths, all_series = [], []
    for run in card.runs:
        health, found = _measure(card, run, experiment.run(run.name))
        healths.append(health)
        all_series.append(found)
    counted = {health.run for health in healths if health.included}
    same = duplicates([found for found in all_series if found.run in counted and found.metrics])
    healths = [_duplicate(health, same[health.run]) if health.run in same else health for health in healths]
    for health in healths:
        place = experiment.run(health.run)
        write(place.health, health)
        _retry(place)
        if not health.included:
            print(f"screen: {health.run} is left out: {'; '.join(health.reasons)}")
    print(f"screen: {sum(health.included for health in healths)} of {len(healths)} runs are included")


def _measure(card: ScreenCard, run: RunRef, place: RunFolder) -> tuple[Health, Series]:
    condition = next(found for found in card.conditions if found.name == run.condition)
    outcome = _outcome(place)
    history, imported = read_history(place.history), read(Imported, place.imported) if place.imported.exists() else None
    only_summary = imported is not None and bool(imported.summary)
    measured = series(run, condition, history, read_completions(place.completions, texts=True))
    detections = tuple(
        summaries.unobservable(detector.kind) if only_summary else _detect(detector.kind, detector.settings, measured)
        for detector in card.detectors
    )
    if imported is not None and only_summary:
        detections += (summaries.look(imported, card.detectors, measured.null_control),)
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
        )
        for gate in card.gates
    )
    reasons = _reasons(history, outcome, card.gates, gates, only_summary)
    health = Health(
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
    return health, measured


def _state(outcome: Outcome | None) -> Literal["finished", "failed", "unknown", "missing"]:
    if outcome is None:
        return "missing"
    return "finished" if outcome.finished else "unknown" if outcome.unknown else "failed"


def _outcome(place: RunFolder) -> Outcome | None:
    return read(Outcome, place.outcome) if place.outcome.exists() else None


def _detect(kind: str, settings: dict[str, object], measured: Series) -> Detection:
    try:
        plugin = load(DETECTORS, kind)
    except KeyError:
        raise ArtifactError("screen.card.json", f"no detector {kind!r}", why="it was removed or renamed", fix="octavo compile") from None
    found: Detection = plugin.detect(plugin.Settings.model_validate(settings), measured)
    return found


def _reasons(
    history: History, outcome: Outcome | None, declared: tuple[HealthGate, ...], gates: tuple[GateResult, ...], only_summary: bool
) -> tuple[str, ...]:
    """Why the run does not count, the cause first; () when it does. What merely follows from an unfinished run, or from
    a rule that stopped it, is not repeated."""
    reasons = []
    if outcome is None:
        reasons.append("not trained: no outcome was recorded")
    elif not outcome.finished and not outcome.unknown:
        source = f"its source says that it did not end well ({outcome.error})" if outcome.error and outcome.failure is None else ""
        failed = source or f"the last attempt failed ({outcome.failure or 'unknown class'})"
        reasons.append(f"{failed} after {outcome.steps_done} steps")
    elif not history.columns and not only_summary:
        reasons.append("nothing was logged")
    if outcome is not None and history.card_id and outcome.card_id != history.card_id:
        reasons.append(f"history and outcome belong to different cards ({history.card_id} and {outcome.card_id})")
    finished = outcome is not None and (outcome.finished or bool(outcome.unknown))
    told = outcome is not None and outcome.stopped is not None and any(gate.rule == "complete" for gate in declared)
    for gate, answer in zip(declared, gates, strict=True):
        follows = (not finished and (answer.passed is None or gate.rule == "complete")) or (told and answer.passed is None)
        if not answer.passed and not follows:
            reasons.append(f"gate {answer.gate}: {answer.says}")
    return tuple(reasons)


def _notes(history: History) -> tuple[str, ...]:
    return tuple(
        f"steps {lap.first}-{lap.last} of attempt {lap.attempt} were made again by attempt {lap.by}; the later rows count"
        for lap in history.overlaps
    )


def _duplicate(health: Health, of: str) -> Health:
    says = f"DUPLICATE: its series are identical to those of {of}, so it is no run of its own and n drops by one"
    signal = Signal(detector="duplicates", metric="reward", severity="severe", says=says, onset=1, evidence={"of": of})
    detection = Detection(detector="duplicates", state="looked", signals=(signal,))
    return health.model_copy(update={"detections": (*health.detections, detection), "included": False, "reasons": (says,)})


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
