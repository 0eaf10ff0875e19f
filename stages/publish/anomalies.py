"""What the detectors saw, grouped so that one sentence stands for many runs, and what they could not look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from stages.contracts.health import Detection, Signal
from stages.contracts.history import metric_title
from stages.publish import numbers
from stages.publish.causes import Explanation, clipped_at, explain, phrase
from stages.publish.experiment import ExperimentFiles
from stages.publish.numbers import plural

SEVERITIES = ("severe", "warning", "info")
_COUNTS = ("k", "n", "all_k", "all_n")


@dataclass(frozen=True)
class Anomaly:
    """Signals of one detector on one metric in one condition."""

    condition: str
    signals: tuple[tuple[str, Signal], ...]
    """With the runs they are of."""
    runs_of_condition: int
    explained: Explanation | None
    """None for mere information."""

    @property
    def signal(self) -> Signal:
        return self.signals[0][1]

    @property
    def severity(self) -> str:
        return self.signal.severity

    @property
    def mark(self) -> str:
        return {"severe": "▲", "warning": "△", "info": "○"}[self.severity]

    @property
    def onsets(self) -> str:
        steps = sorted({signal.onset for _, signal in self.signals if signal.onset is not None})
        return "steps " + ", ".join(map(str, steps)) if len(steps) > 1 else f"step {steps[0]}" if steps else ""

    @property
    def where(self) -> str:
        return f"{len({run for run, _ in self.signals})} of {plural(self.runs_of_condition, 'run')}"

    @property
    def heading(self) -> str:
        name = self.signal.detector.replace("_", " ").replace("kl ", "KL ")
        return f"{name[:1].upper()}{name[1:]} in {self.condition}: {self.where}"

    @property
    def phrase(self) -> str:
        """`groups lose their reward signal in 3 of 3 runs (steps 21, 24, 25)`: the summary's words."""
        if self.signal.detector == "summary":  # single values without a course
            values = [numbers.fixed(signal.value, 2) for _, signal in self.signals if signal.value is not None]
            what = f"{metric_title(self.signal.metric)} {', '.join(values) or 'not finite'}"
        else:
            what = phrase([self.signal])
        return f"{what} in {self.where}" + (f" ({self.onsets})" if self.onsets else "")


def anomalies(experiment: ExperimentFiles) -> tuple[Anomaly, ...]:
    """Severe ones first, then in the order of conditions."""
    groups: dict[tuple[str, str, str, str], list[tuple[str, Signal]]] = {}
    for run, condition, detection in detections(experiment):
        for signal in detection.signals:
            groups.setdefault((signal.severity, condition, signal.detector, signal.metric), []).append((run, signal))
    grouped = []
    for (_, condition, _, _), signals in groups.items():
        explained = explain([signal for _, signal in signals], clipped_at(experiment.train_card(condition)))
        grouped.append(Anomaly(condition, tuple(signals), len(experiment.of_condition(condition)), explained))
    return tuple(sorted(grouped, key=lambda anomaly: SEVERITIES.index(anomaly.severity)))


def detections(experiment: ExperimentFiles) -> Iterator[tuple[str, str, Detection]]:
    """(run, condition, answer of a detector)."""
    for run in experiment.runs:
        for detection in run.health.detections if run.health else ():
            yield run.ref.name, run.ref.condition, detection


def looked(experiment: ExperimentFiles) -> list[tuple[str, int, int]]:
    """(detector, runs it looked at, runs with signals) of each detector that looked at a run."""
    answers = _answers(experiment)
    counts = answers[answers["state"] == "looked"].groupby("detector", sort=False)["signals"].agg(["size", "sum"])
    return [(str(detector), int(runs), int(signals)) for detector, runs, signals in counts.itertuples()]


def unseen(experiment: ExperimentFiles) -> list[tuple[str, str, str, list[str]]]:
    """(detector, state, reason, runs) of detectors that could not look: without this a page would pass silence for health."""
    answers = _answers(experiment)
    groups = answers[answers["state"] != "looked"].groupby(["detector", "state", "reason"], sort=False)["run"]
    return [(detector, state.replace("_", " "), reason, list(runs)) for (detector, state, reason), runs in groups]


def _answers(experiment: ExperimentFiles) -> pd.DataFrame:
    rows = [(run, each.detector, each.state, each.reason, bool(each.signals)) for run, _, each in detections(experiment)]
    return pd.DataFrame(rows, columns=["run", "detector", "state", "reason", "signals"])


def evidence_words(signal: Signal) -> str:
    """`From step 21, detectable at step 30: 78 of 80 (250 of 480 in all), share 0.2`: when, and the values of a signal's evidence."""
    evidence = {key: value for key, value in signal.evidence.items() if value != [] and not _is_texts(value)}
    parts = []
    if "k" in evidence and "n" in evidence:
        whole = f" ({evidence['all_k']} of {evidence['all_n']} in all)" if "all_k" in evidence and "all_n" in evidence else ""
        parts.append(f"{evidence['k']} of {evidence['n']}{whole}")
        evidence = {key: value for key, value in evidence.items() if key not in _COUNTS}
    for key, value in evidence.items():
        text = _plain(value)
        parts.append(f"{key.replace('_', ' ')} {text if len(text) <= 80 else text[:77] + '…'}")
    counted = ", ".join(parts)
    if signal.onset is None or signal.detected is None:
        return counted
    return f"From step {signal.onset}, detectable at step {signal.detected}" + (f": {counted}" if counted else "")


def _plain(value: Any) -> str:
    """Numbers in as many digits as anywhere on the page, those of a list too."""
    if isinstance(value, list):
        return "[" + ", ".join(map(_plain, value)) + "]"
    return numbers.number(value) if isinstance(value, float) else numbers.setting(value)


def evidence_texts(signal: Signal) -> list[str]:
    """Example completions in a signal's evidence, each cut to 200 letters."""
    return [text[:200] for value in signal.evidence.values() if _is_texts(value) for text in value[:3]]


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)
