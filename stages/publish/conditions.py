"""Cells of the tables that a reader compares by: a row a condition, then a row a seed. Rewards of different conditions are never ranked."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup

from stages.contracts.health import Detection
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.facts import Facts
from stages.publish.text import escape


def evaluated(experiment: ExperimentFiles, facts: Facts, subjects: Iterable[str], *, bounds: bool = False) -> dict[str, list[Markup]]:
    """Subject -> its pass shares of the shared evaluation, a score each; those of a score have equal digits."""
    metrics = [f"evaluation.{name}.pass_share" for name in experiment.card.evaluation]
    rows = {subject: [facts.find(subject, metric, "final", "share") for metric in metrics] for subject in subjects}
    digits = [facts.column(column) for column in zip(*rows.values(), strict=True)]
    write = facts.interval if bounds else facts.value
    return {subject: [write(*cell) for cell in zip(row, digits, strict=True)] for subject, row in rows.items()}


def reward_digits(experiment: ExperimentFiles, facts: Facts) -> int:
    """Of the column of runs' own rewards."""
    ends = (facts.find(run.ref.name, "reward", statistic) for run in experiment.runs for statistic in ("initial", "final"))
    return numbers.column_decimals(finding.value for finding in ends if finding)


def steps_done(facts: Facts, run: RunFiles, of: str = "of") -> Markup:
    """`60 of 60`, as a link to its finding where there is one."""
    finding = facts.find(run.ref.name, "steps", "done")
    if finding and finding.k is not None:
        return facts.counted(finding, of)
    done = run.health.steps_done if run.health else run.outcome.steps_done if run.outcome else None
    return escape(f"{numbers.NONE if done is None else done} {of} {run.ref.target_steps}")


def nonfinite(run: RunFiles) -> str:
    """`persistent from 21`, `transient, first at 50`; of an imported summary what its single values say."""
    detection = run.detection("nonfinite")
    by = run.detection("summary") or detection
    signals = [signal for signal in (by.signals if by else ()) if "class" in signal.evidence]
    if not signals:
        return _nothing(detection)
    lasting = [signal for signal in signals if signal.evidence["class"] == "persistent"]
    onset = min((signal.onset for signal in lasting or signals if signal.onset is not None), default=None)
    kind, since = ("persistent", " from") if lasting else ("transient", ", first at")
    return kind + (f"{since} {onset}" if onset is not None else "")


def collapse(run: RunFiles) -> str:
    """`step 21`: the first step of the first streak without a signal."""
    detection = run.detection("collapse")
    onset = min((signal.onset for signal in (detection.signals if detection else ()) if signal.onset is not None), default=None)
    return _nothing(detection) if onset is None else f"step {onset}"


def _nothing(detection: Detection | None) -> str:
    """Of a detector without a signal to report."""
    if detection is None:
        return numbers.NONE
    return "none" if detection.state == "looked" else detection.state.replace("_", " ")
