"""What the detectors saw, grouped so that one sentence stands for many runs, and what they could not look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from stages.contracts.finding import Finding
from stages.contracts.health import Signal
from stages.contracts.history import metric_title
from stages.publish import numbers
from stages.publish.causes import Explanation, clipped_at, explain, phrase
from stages.publish.experiment import ExperimentFiles
from stages.publish.numbers import plural

_SEVERITIES = ("severe", "warning", "info")
_IN_FULL = {("level", "fall"), ("level", "part"), ("level", "rise"), ("parts", "traded")}
"""Detectors and kinds whose sentences stand on the first screen."""


class Anomaly(NamedTuple):
    """Signals of one detector on one metric in one condition."""

    condition: str
    signals: list[tuple[str, Signal]]
    """With the runs they are of."""
    where: str
    """`3 of 3 runs`."""
    explained: Explanation | None
    """None for mere information."""

    @property
    def signal(self) -> Signal:
        return self.signals[0][1]

    @property
    def severity(self) -> str:
        return self.signal.severity

    @property
    def onsets(self) -> str:
        steps = sorted({signal.onset for _, signal in self.signals if signal.onset is not None})
        return "steps " + ", ".join(map(str, steps)) if len(steps) > 1 else f"step {steps[0]}" if steps else ""

    @property
    def phrase(self) -> str:
        """`groups lose their reward signal`: the first screen's words."""
        if self.signal.detector == "summary":  # single values without a course
            values = [numbers.fixed(signal.value, 2) for _, signal in self.signals if signal.value is not None]
            return f"{metric_title(self.signal.metric)} {', '.join(values) or 'not finite'}"
        return phrase([self.signal])

    @property
    def sentence(self) -> str:
        """What happened to the reward, in the words of the first run; empty of what a phrase says well enough."""
        if self.severity == "info" or (self.signal.detector, self.signal.kind) not in _IN_FULL:
            return ""
        run, signal = self.signals[0]
        return f"{signal.says} ({run}; {self.where})" if self.where != "1 of 1 run" else signal.says


def anomalies(experiment: ExperimentFiles) -> list[Anomaly]:
    """Severe ones first, then in the order of conditions."""
    groups: dict[tuple[str, str, str, str], list[tuple[str, Signal]]] = {}
    for run in experiment.runs:
        for signal in run.signals:
            groups.setdefault((signal.severity, run.ref.condition, signal.detector, signal.metric), []).append((run.ref.name, signal))
    grouped = []
    for (_, condition, _, _), signals in groups.items():
        explained = explain([signal for _, signal in signals], clipped_at(experiment.train_card(condition)))
        where = f"{len({run for run, _ in signals})} of {plural(len(experiment.of_condition(condition)), 'run')}"
        grouped.append(Anomaly(condition, signals, where, explained))
    return sorted(grouped, key=lambda anomaly: _SEVERITIES.index(anomaly.severity))


def warned(experiment: ExperimentFiles, seen: Sequence[Anomaly]) -> list[tuple[str, list[str]]]:
    """(condition, what happens in it) of conditions with warnings that have no sentence of their own, those with a severe one first."""
    rows = []
    for condition in experiment.card.conditions:
        own = [anomaly for anomaly in seen if anomaly.condition == condition.name]
        warnings = [anomaly for anomaly in own if anomaly.severity != "info" and not anomaly.sentence]
        if warnings:
            rows.append((warnings[0].severity != "severe", condition.name, list(dict.fromkeys(anomaly.phrase for anomaly in warnings))))
    return [(condition, phrases) for _, condition, phrases in sorted(rows, key=lambda row: row[0])]


def counted(experiment: ExperimentFiles) -> list[tuple[str, str, Finding]]:
    """(condition, detector, how many of its runs it warns about) where a detector warns."""
    detectors = dict.fromkeys(finding.metric for finding in experiment.findings.values() if finding.metric.startswith("detector."))
    ids = [(condition.name, metric) for condition in experiment.card.conditions for metric in detectors]
    counts = ((*pair, experiment.findings.get(f"{'/'.join(pair)}/runs")) for pair in ids)
    return [(name, metric.removeprefix("detector."), count) for name, metric, count in counts if count and count.k]


def answers(experiment: ExperimentFiles) -> pd.DataFrame:
    """One row a run and detector: run, detector, state, reason, and whether it reported a signal."""
    detections = ((run.ref.name, detection) for run in experiment.runs for detection in (run.health.detections if run.health else ()))
    rows = [(run, each.detector, each.state.replace("_", " "), each.reason, bool(each.signals)) for run, each in detections]
    return pd.DataFrame(rows, columns=["run", "detector", "state", "reason", "signals"])


def looked(experiment: ExperimentFiles) -> list[tuple[str, int, int]]:
    """(detector, runs it looked at, runs with signals) of each detector that looked at a run."""
    rows = answers(experiment).query("state == 'looked'")
    return list(rows.groupby("detector", sort=False)["signals"].agg(["size", "sum"]).itertuples(name=None))


def unseen(experiment: ExperimentFiles) -> list[tuple[str, str, str, list[str]]]:
    """(detector, state, reason, runs) of detectors that could not look: without this a page would pass silence for health."""
    groups = answers(experiment).query("state != 'looked'").groupby(["detector", "state", "reason"], sort=False)["run"]
    return [(*key, list(runs)) for key, runs in groups]


def partly(experiment: ExperimentFiles) -> list[tuple[str, str, list[str]]]:
    """(detector, what it could not see, runs) of detectors that looked at a run, and not at all of it."""
    groups = answers(experiment).query("state == 'looked' and reason != ''").groupby(["detector", "reason"], sort=False)["run"]
    return [(*key, list(runs)) for key, runs in groups]


def gaps(experiment: ExperimentFiles) -> dict[str, list[str]]:
    """Why detectors could not look at some runs -> names of the detectors."""
    rows = answers(experiment).query("state != 'looked'")
    why = rows["state"] + ": " + rows["reason"]
    return {str(reason): list(detectors.unique()) for reason, detectors in rows["detector"].groupby(why, sort=False)}


def evidence_words(signal: Signal) -> str:
    """`From step 21, detectable at step 30: 78 of 80 (250 of 480 in all), share 0.2`: when, and the values of a signal's evidence."""
    evidence = {key: value for key, value in signal.evidence.items() if value != [] and not _is_texts(value)}
    parts = []
    if "k" in evidence and "n" in evidence:
        k, n, all_k, all_n = (evidence.pop(key, None) for key in ("k", "n", "all_k", "all_n"))
        parts.append(f"{k} of {n}" + ("" if all_k is None or all_n is None else f" ({all_k} of {all_n} in all)"))
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
