"""Stage `screen`: measures every run of an experiment and decides whether it counts.

    python -m stages.analyse.screen runs/<experiment>

Reads analysis/screen.card.json and each run's history, completions and outcome; writes each <run>/health.json. A failed run that is
due again gets a new <run>/retry.json, so that the next `dvc repro` trains it; the file is left alone when its content stays the same.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Literal

import numpy as np

from stages.analyse import health_gates
from stages.analyse.detectors import duplicates
from stages.analyse.frames import Run, read_if_there, read_run, window_of
from stages.analyse.signals import not_applicable, not_observable
from stages.contracts.analysis_card import RunRef, ScreenCard
from stages.contracts.artifact import ArtifactError, dump, write
from stages.contracts.attempt import Outcome
from stages.contracts.health import Detection, Exclusion, Health
from stages.contracts.import_card import Imported
from stages.contracts.layout import ExperimentFolder, RunFolder
from stages.contracts.plugin import DETECTORS, load
from stages.contracts.retries import Retry
from stages.contracts.stage import main, open_card

MODULES = ("stages.analyse.screen",)
COMPLETIONS = ("step", "group", "reward", "truncated", "text")
HELD_AGAINST_NULL = ("kl",)
"""Metrics of which a detector asks what the null controls' runs did."""
NOT_DUE = {"refused"}
"""Failures that a new attempt cannot cure; what made them (a permission, a reward example) is a dependency of train anyway."""


def plugins(card: ScreenCard) -> list[str]:
    """Detector modules that the card names: they have code versions of their own."""
    every = [*card.detectors, *(detector for own in card.others for detector in own.detectors)]
    return [f"{DETECTORS}.{kind}" for kind in dict.fromkeys(detector.kind for detector in every)]


def screen(folder: Path) -> None:
    """Write health.json of every run."""
    experiment = ExperimentFolder(folder)
    card = open_card(ScreenCard, experiment.screen_card, MODULES, plugins)
    runs = _Runs(card)
    null_first = sorted(card.runs, key=lambda ref: runs.conditions[ref.condition].role != "null_control")  # others are compared with them
    healths = {ref.name: _measure(runs, ref, experiment.run(ref.name)) for ref in null_first}
    for ref in card.runs:
        health, place = healths[ref.name], experiment.run(ref.name)
        write(place.health, health)
        _retry(place)
        if not health.included:
            print(f"screen: {health.run} is left out: {'; '.join(health.reasons)}")
    print(f"screen: {sum(health.included for health in healths.values())} of {len(healths)} runs are included")


class _Runs:
    """A few numbers of each run measured so far: a thousand histories do not fit in memory together."""

    def __init__(self, card: ScreenCard) -> None:
        self.card = card
        self.conditions = {condition.name: condition for condition in card.conditions}
        self._sizes = Counter(ref.condition for ref in card.runs)
        self._same: dict[tuple[str, str], str] = {}
        """Fingerprint of series and condition -> the first run that counts and has them."""
        self._null_finals: dict[str, list[float]] = {name: [] for name in HELD_AGAINST_NULL}

    def read(self, ref: RunRef, place: RunFolder, imported: bool) -> Run:
        """A run's tables, with what lies around them."""
        run = read_run(place, ref, self.conditions[ref.condition], COMPLETIONS)
        run.adapter, run.imported, run.siblings = adapter_state(place.adapter), imported, self._sizes[ref.condition] - 1
        run.null_finals = {} if run.null_control else self._null_finals
        series = run.fingerprint
        if series is not None:
            run.twin = self._same.get((series, ref.condition))
            run.elsewhere = next((name for (same, other), name in self._same.items() if same == series and other != ref.condition), None)
        return run

    def remember(self, run: Run, included: bool) -> None:
        if included and run.fingerprint is not None:
            self._same.setdefault((run.fingerprint, run.condition), run.name)
        if included and run.null_control:
            window = window_of("final", run.target_steps, self.card.windows)
            for name, finals in self._null_finals.items():
                values = run.values(name).loc[window.first : window.last]
                finals += [float(values.mean())] if len(values) else []


def _measure(runs: _Runs, ref: RunRef, place: RunFolder) -> Health:
    card, condition = runs.card, runs.conditions[ref.condition]
    outcome, imported = read_if_there(Outcome, place.outcome), read_if_there(Imported, place.imported)
    run = runs.read(ref, place, imported is not None)
    detectors = next((own.detectors for own in card.others if own.condition == run.condition), card.detectors)
    if imported is not None and imported.summary:
        detections = [not_observable(detector.kind, health_gates.NO_SERIES) for detector in detectors]
        detections.append(health_gates.look_at_summary(imported, card.detectors, run.null_control))
    else:
        detections = [_detect(detector.kind, detector.settings, run, supervised=condition.supervised) for detector in detectors]
    judged = [
        (rule, health_gates.judge(name, rule, run, outcome, detections, card.windows, imported, supervised=condition.supervised))
        for name, rule in card.gates.items()
    ]
    exclusions = [
        *_always_out(run, outcome, only_summary=imported is not None and bool(imported.summary)),
        *health_gates.failed(outcome, judged, lost=run.since is not None),
    ]
    if not exclusions:
        same = [signal for detection in detections if detection.detector == duplicates.NAME for signal in detection.signals]
        exclusions = [health_gates.exclusion(signal.says) for signal in same if signal.severity == "severe"]
    runs.remember(run, included=not exclusions)
    ended = {name: getattr(outcome, name) for name in ("steps_done", "failure", "error", "stopped")} if outcome else {"steps_done": None}
    again = "steps {0.first}-{0.last} of attempt {0.attempt} were made again by attempt {0.by}; the later rows count"
    return Health(
        run=run.name,
        condition=run.condition,
        seed=ref.seed,
        card_id=run.card_id or (outcome.card_id if outcome else None),
        attempt=run.attempt or (outcome.attempt if outcome else None),
        state=_state(outcome),
        target_steps=run.target_steps,
        detections=tuple(detections),
        gates=tuple(result for _, result in judged),
        included=not exclusions,
        reasons=tuple(exclusion.reason for exclusion in exclusions),
        exclusions=tuple(exclusions),
        stride=run.stride,
        valid_until=run.since - 1 if run.since is not None else None,
        notes=(*(again.format(overlap) for overlap in run.overlaps), *(imported.notes if imported else ())),
        **ended,
    )


def _state(outcome: Outcome | None) -> Literal["finished", "failed", "unknown", "missing"]:
    if outcome is None:
        return "missing"
    return "finished" if outcome.finished else "unknown" if outcome.unknown else "failed"


def _detect(kind: str, settings: dict[str, Any], run: Run, *, supervised: bool) -> Detection:
    try:
        plugin = load(DETECTORS, kind)
    except KeyError:
        raise ArtifactError("screen.card.json", f"no detector {kind!r}", why="it was removed or renamed", fix="octavo compile") from None
    if supervised and getattr(plugin, "NEEDS_COMPLETIONS", False):
        return not_applicable(kind, "supervised fine-tuning samples no completions and has no rewards")
    detection: Detection = plugin.detect(plugin.Settings.model_validate(settings), run)
    return detection


def _always_out(run: Run, outcome: Outcome | None, only_summary: bool) -> list[Exclusion]:
    """Why the run does not count whatever its gates say, the cause first."""
    reasons = []
    if outcome is None:
        reasons.append("not trained: no outcome was recorded")
    elif not outcome.finished and not outcome.unknown:
        if outcome.error and outcome.failure is None:
            reasons.append(f"its source says that it did not end well: {outcome.error}")
        else:
            reasons.append(f"the last attempt failed ({outcome.failure or 'unknown class'}) after {outcome.steps_done} steps")
    elif run.steps.empty and not only_summary:
        reasons.append("nothing was logged")
    if outcome is not None and run.card_id and outcome.card_id != run.card_id:
        reasons.append(f"history and outcome belong to different cards ({run.card_id} and {outcome.card_id})")
    return [health_gates.exclusion(reason) for reason in reasons]


def adapter_state(folder: Path) -> Literal["unknown", "changed", "zero"]:
    """`zero`: every lora_B is 0, so nothing was learnt. `unknown`: there is no adapter, it has no lora_B, or it cannot be read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / "adapter_model.safetensors", framework="numpy") as file:
            names = [name for name in file.keys() if ".lora_B." in name]  # noqa: SIM118 - it is no mapping
            changed = any(np.any(file.get_tensor(name)) for name in names)
    except (OSError, SafetensorError, TypeError):
        return "unknown"
    return "changed" if changed else "zero" if names else "unknown"


def _retry(place: RunFolder) -> None:
    """Make a failed run due again. A finished run's file is left alone: DVC would train it again."""
    outcome = read_if_there(Outcome, place.outcome)
    if place.imported.exists() and not place.retry.exists():  # a new attempt would read the same source again
        return
    if outcome is None or outcome.finished or outcome.failure in NOT_DUE:
        return
    due = Retry(after=outcome.attempt)
    if not place.retry.exists() or place.retry.read_text(encoding="utf-8") != dump(due):
        write(place.retry, due)


if __name__ == "__main__":
    main(screen, "python -m stages.analyse.screen runs/<experiment>")
