"""What the detectors saw, grouped so that one sentence stands for many runs, and what they could not look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stages.contracts.health import Signal
from stages.contracts.metric_words import words
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles
from stages.publish.explain import Explanation, clipped_at, explain
from stages.publish.numbers import plural

SEVERITIES = ("severe", "warning", "info")
_PHRASES = {
    ("nonfinite", ""): "{} is not a finite number",
    ("zero_signal", ""): "groups lose their reward signal",
    ("zero_signal", "reward"): "no reward is known",
    ("zero_signal", "reward_std"): "the batch's spread hides that groups have none",
    ("collapse", ""): "no group has a signal for many steps",
    ("spikes", ""): "{} has spikes",
    ("value_fit", ""): "the value head explains less than a constant",
    ("kl_sign", ""): "the KL of the penalty is negative",
    ("truncation", ""): "completions run into the length limit",
    ("atoms", ""): "one partial score is earned very often",
    ("degenerate", ""): "the reward is full while {} is at its floor",
    ("degenerate", "texts"): "the reward is full while the variety of texts is at its floor",
    ("entropy_change", ""): "entropy is far from where it began",
    ("kl_reference", ""): "the KL to the reference model stands out",
    ("update_size", ""): "{} is large",
    ("update_size", "policy.ratio"): "{} is far from 1",
    ("update_size", "policy.first_ratio"): "{} is not 1",
    ("gradient", ""): "the gradient is 0 although rewards differ",
    ("gradient", "gradient"): "the gradient is 0 throughout",
    ("gradient", "adapter"): "the adapter adds nothing to the model",
    ("true_objective", ""): "the objective falls while the score does not",
    ("resume_faults", ""): "{} jumps at a resume",
    ("resume_faults", "step"): "steps are missing at a resume",
    ("resume_faults", "rows"): "steps were written more than once",
    ("duplicates", ""): "a seed repeats another",
    ("duplicates", "series"): "a run repeats one of another condition",
    ("throughput", ""): "{} stands out",
}
_MARKS = {"severe": "▲", "warning": "△", "info": "○"}


@dataclass(frozen=True)
class Seen:
    run: str
    signal: Signal
    evidence: str
    texts: tuple[str, ...]
    """Completions that are part of the evidence."""


@dataclass(frozen=True)
class Anomaly:
    """Signals of one detector on one metric in one condition."""

    detector: str
    metric: str
    condition: str
    severity: str
    seen: tuple[Seen, ...]
    runs_of_condition: int
    clip: float | None = None
    """Norm to which the condition's gradients were clipped, where it is known."""

    @property
    def explained(self) -> Explanation | None:
        """What it means, in one sentence; None for mere information."""
        return explain([seen.signal for seen in self.seen], self.clip)

    @property
    def mark(self) -> str:
        return _MARKS[self.severity]

    @property
    def onsets(self) -> str:
        steps = sorted({s.signal.onset for s in self.seen if s.signal.onset is not None})
        return "steps " + ", ".join(map(str, steps)) if len(steps) > 1 else f"step {steps[0]}" if steps else ""

    @property
    def heading(self) -> str:
        runs = len({s.run for s in self.seen})
        name = self.detector.replace("_", " ").replace("kl ", "KL ")
        return f"{name[:1].upper()}{name[1:]} in {self.condition}: {runs} of {plural(self.runs_of_condition, 'run')}"

    @property
    def phrase(self) -> str:
        """`groups lose their reward signal in 3 of 3 runs (steps 21, 24, 25)`: the summary's words."""
        plain = _PHRASES.get((self.detector, ""), self.detector.replace("_", " "))
        what = _PHRASES.get((self.detector, self.metric), plain).format(words(self.metric))
        if self.detector == "summary":  # single values: say them, there is no course to describe
            values = [numbers.fixed(seen.signal.value, 2) for seen in self.seen if seen.signal.value is not None]
            what = f"{words(self.metric)} {', '.join(values)}" if values else f"{words(self.metric)} not finite"
        where = f"{len({s.run for s in self.seen})} of {plural(self.runs_of_condition, 'run')}"
        return f"{what} in {where}" + (f" ({self.onsets})" if self.onsets else "")


@dataclass(frozen=True)
class Unseen:
    """A detector that could not look, with the runs concerned."""

    detector: str
    state: str
    reason: str
    runs: tuple[str, ...]


def anomalies(experiment: ExperimentFiles) -> tuple[Anomaly, ...]:
    """Severe ones first, then in the order of conditions."""
    groups: dict[tuple[str, str, str, str], list[Seen]] = {}
    for run in experiment.runs:
        for detection in run.health.detections if run.health else ():
            for signal in detection.signals:
                key = (signal.severity, run.ref.condition, signal.detector, signal.metric)
                groups.setdefault(key, []).append(Seen(run.ref.name, signal, evidence_words(signal), evidence_texts(signal)))
    clips = {name: clipped_at(experiment.train_card(name)) for _, name, _, _ in groups}
    found = [
        Anomaly(detector, metric, condition, severity, tuple(seen), len(experiment.of_condition(condition)), clips[condition])
        for (severity, condition, detector, metric), seen in groups.items()
    ]
    return tuple(sorted(found, key=lambda a: SEVERITIES.index(a.severity)))


def unseen(experiment: ExperimentFiles) -> tuple[Unseen, ...]:
    """Detectors that did not look, and why: silence never means health."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for run in experiment.runs:
        for detection in run.health.detections if run.health else ():
            if detection.state != "looked":
                groups.setdefault((detection.detector, detection.state, detection.reason), []).append(run.ref.name)
    return tuple(Unseen(detector, state.replace("_", " "), reason, tuple(runs)) for (detector, state, reason), runs in groups.items())


def looked(experiment: ExperimentFiles) -> tuple[tuple[str, int, int], ...]:
    """(detector, runs it looked at, runs with signals) for each detector that looked at all."""
    counts: dict[str, list[int]] = {}
    for run in experiment.runs:
        for detection in run.health.detections if run.health else ():
            if detection.state == "looked":
                pair = counts.setdefault(detection.detector, [0, 0])
                pair[0] += 1
                pair[1] += bool(detection.signals)
    return tuple((detector, at, signals) for detector, (at, signals) in counts.items())


def evidence_words(signal: Signal) -> str:
    """`k 12, n 60, share 0.2`: the plain values of a signal's evidence on one line; long ones are cut."""
    parts = []
    for key, value in signal.evidence.items():
        if not _is_texts(value) and value != []:
            text = _plain(value)
            parts.append(f"{key.replace('_', ' ')} {text if len(text) <= 80 else text[:77] + '…'}")
    return ", ".join(parts)


def _plain(value: Any) -> str:
    """Numbers in as many digits as anywhere on the page, those of a list too."""
    if isinstance(value, list):
        return "[" + ", ".join(map(_plain, value)) + "]"
    return numbers.number(value) if isinstance(value, float) else numbers.setting(value)


def evidence_texts(signal: Signal) -> tuple[str, ...]:
    """Example completions in a signal's evidence, each cut to 200 letters."""
    return tuple(text[:200] for value in signal.evidence.values() if _is_texts(value) for text in value[:3])


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)
