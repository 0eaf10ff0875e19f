"""Stage `screen`: measures every run of an experiment and decides whether it counts.

    python -m stages.analyse.screen runs/<experiment>

Reads analysis/screen.card.json and each run's history, completions and outcome; writes each <run>/health.json. A failed run that is
due again gets a new <run>/retry.json, so that the next `dvc repro` trains it; the file is left alone when its content stays the same.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Literal

import numpy as np

from stages.analyse import health_gates, signals
from stages.analyse.frames import Run, read_if_there, read_run, window_of
from stages.contracts.analysis_card import ConditionCard, DetectorCard, HealthRule, RunRef, ScreenCard
from stages.contracts.artifact import ArtifactError, dump, write
from stages.contracts.attempt import Outcome
from stages.contracts.files import read_text
from stages.contracts.health import Detection, Exclusion, GateResult, Health
from stages.contracts.history import gate_columns
from stages.contracts.import_card import Imported
from stages.contracts.layout import ExperimentFolder, RunFolder
from stages.contracts.plugin import DETECTORS, load
from stages.contracts.retries import Retry
from stages.contracts.stage import main, open_card, print_text

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
    measured = _Measured(card)
    # null controls first: the others are held against them
    null_first = sorted(card.runs, key=lambda ref: measured.conditions[ref.condition].role != "null_control")
    healths = {ref.name: measured.measure(ref, experiment.run(ref.name)) for ref in null_first}
    for ref in card.runs:
        health, place = healths[ref.name], experiment.run(ref.name)
        write(place.health, health)
        _retry(place)
        if not health.included:
            print_text(f"screen: {health.run} is left out: {'; '.join(health.reasons)}")
    print_text(f"screen: {sum(health.included for health in healths.values())} of {len(healths)} runs are included")


class _Measured:
    """A few numbers of each run measured so far: a thousand histories do not fit in memory together."""

    def __init__(self, card: ScreenCard) -> None:
        self.card = card
        self.conditions = {condition.name: condition for condition in card.conditions}
        self._others = {own.condition: own.detectors for own in card.others}
        self._sizes = Counter(ref.condition for ref in card.runs)
        self._same: dict[tuple[str, str], str] = {}
        """Fingerprint of series and condition -> the first run that counts and has them."""
        self._null_finals: dict[str, list[float]] = {name: [] for name in HELD_AGAINST_NULL}

    def measure(self, ref: RunRef, place: RunFolder) -> Health:
        """What detectors and gates say of a run, and whether it counts."""
        card, condition = self.card, self.conditions[ref.condition]
        outcome, imported = read_if_there(Outcome, place.outcome), read_if_there(Imported, place.imported)
        run, detectors = self._read(ref, place, imported is not None), self._others.get(ref.condition, card.detectors)
        if imported is not None and imported.summary:
            nothing = "only a summary was imported: there is no series to look at"
            detections = [Detection(detector=detector.kind, state="not_observable", reason=nothing) for detector in detectors]
            detections.append(health_gates.look_at_summary(imported, card.detectors, run.null_control))
        else:
            detections = [_detect(detector, run, condition) for detector in detectors]
        judged = [(rule, self._judge(name, rule, run, outcome, detections, imported)) for name, rule in card.gates.items()]
        goes_on = ref.so_far is not None and outcome is not None and bool(outcome.unknown)
        exclusions = [
            *_always_out(run, ref, outcome, only_summary=imported is not None and bool(imported.summary)),
            *health_gates.failed(outcome, judged, lost=run.since is not None, goes_on=goes_on),
        ]
        if not exclusions:
            same = [signal for detection in detections if detection.detector == "duplicates" for signal in detection.signals]
            exclusions = [health_gates.exclusion(signal.says) for signal in same if signal.severity == "severe"]
        if not exclusions:
            self._remember(run)
        ended = {name: getattr(outcome, name, None) for name in ("steps_done", "failure", "error", "stopped")}
        return Health(
            run=run.name,
            condition=run.condition,
            seed=ref.seed,
            card_id=run.card_id or (outcome.card_id if outcome else None),
            attempt=run.attempt or (outcome.attempt if outcome else None),
            state="missing" if outcome is None else "finished" if outcome.finished else "unknown" if outcome.unknown else "failed",
            target_steps=ref.target_steps,
            detections=tuple(detections),
            gates=tuple(result for _, result in judged),
            included=not exclusions,
            reasons=tuple(exclusion.reason for exclusion in exclusions),
            exclusions=tuple(exclusions),
            stride=run.stride,
            valid_until=run.since - 1 if run.since is not None else None,
            notes=(*run.notes, *(imported.notes if imported else ())),
            **ended,
        )

    def _judge(
        self, name: str, rule: HealthRule, run: Run, outcome: Outcome | None, detections: list[Detection], imported: Imported | None
    ) -> GateResult:
        supervised, claimed = self.conditions[run.condition].supervised, self.card.claimed
        windows = self.card.windows
        return health_gates.judge(name, rule, run, outcome, detections, windows, imported, supervised=supervised, claimed=claimed)

    def _read(self, ref: RunRef, place: RunFolder, imported: bool) -> Run:
        """A run's tables, with what lies around them."""
        condition = self.conditions[ref.condition]
        scores = [gate_columns(gate)[1] for gate in condition.gates]
        run = read_run(place, ref, condition, (*COMPLETIONS, *scores), self.card.derived)
        run.adapter, run.imported, run.siblings = adapter_state(place.adapter), imported, self._sizes[ref.condition] - 1
        run.null_finals = {} if run.null_control else self._null_finals
        same = {condition: name for (series, condition), name in self._same.items() if series == run.fingerprint}
        run.twin = same.pop(ref.condition, None)
        run.elsewhere = next(iter(same.values()), None)
        return run

    def _remember(self, run: Run) -> None:
        """A run that counts."""
        if run.fingerprint is not None:
            self._same.setdefault((run.fingerprint, run.condition), run.name)
        if run.null_control:
            window = window_of("final", run.target_steps, self.card.windows)
            for name, finals in self._null_finals.items():
                values = window.rows(run.values(name))
                finals += [float(values.mean())] if len(values) else []


def _detect(detector: DetectorCard, run: Run, condition: ConditionCard) -> Detection:
    try:
        plugin = load(DETECTORS, detector.kind)
    except KeyError:
        what = f"no detector {detector.kind!r}"
        raise ArtifactError("screen.card.json", what, why="it was removed or renamed", fix="octavo compile") from None
    if condition.supervised and getattr(plugin, "NEEDS_COMPLETIONS", False):
        reason = "supervised fine-tuning samples no completions and has no rewards"
        return Detection(detector=detector.kind, state="not_applicable", reason=reason)
    return signals.ask(detector.kind, plugin, detector.settings, run)


def _always_out(run: Run, ref: RunRef, outcome: Outcome | None, *, only_summary: bool) -> list[Exclusion]:
    """Why the run does not count whatever its gates say, the cause first."""
    reasons = []
    if outcome is None:
        reasons.append("not trained: no outcome was recorded" if ref.so_far is None else "it has not begun")
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
    if not place.retry.exists() or read_text(place.retry) != dump(due):
        write(place.retry, due)


if __name__ == "__main__":
    main(screen, "python -m stages.analyse.screen runs/<experiment>")
