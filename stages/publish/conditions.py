"""The tables that a reader compares by: one row a condition, then one row a seed. Rewards of different conditions are never ranked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from markupsafe import Markup

from stages.contracts.finding import Finding
from stages.contracts.health import Detection, Signal
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.facts import Facts, is_signed
from stages.publish.numbers import plural
from stages.publish.text import escape

MOST_CHANGED = 60
"""Numbers in the table of those that exclusions change; `findings.json` holds all."""


class Tables:
    """Cells of the two tables, for their templates. Numbers of one column have the same number of digits."""

    def __init__(self, experiment: ExperimentFiles, facts: Facts) -> None:
        self.experiment, self.facts = experiment, facts
        names, runs = [condition.name for condition in experiment.card.conditions], [run.ref.name for run in experiment.runs]
        ends = (facts.find(run, "reward", statistic) for run in runs for statistic in ("initial", "final"))
        self._own_reward = numbers.column_decimals((finding.value, None, None) for finding in ends if finding)
        self._moved = facts.moved_digits(names, "reward")
        self._shares = {False: self._column_digits(names), True: self._column_digits(runs)}

    def _column_digits(self, subjects: Iterable[str]) -> list[int]:
        columns = zip(*(self._scores(subject) for subject in subjects), strict=True)
        return [numbers.column_decimals((f.value, f.low, f.high) for f in column if f) for column in columns]

    def _scores(self, subject: str) -> list[Finding | None]:
        names = self.experiment.card.evaluation
        return [self.facts.find(subject, f"evaluation.{name}.pass_share", "final", "share") for name in names]

    def evaluated(self, subject: str, *, seed: bool = False) -> list[Markup]:
        """The shared evaluation's pass shares, one a score; those of a seed without intervals."""
        write, scores = self.facts.value if seed else self.facts.interval, self._scores(subject)
        return [write(finding, digits) for finding, digits in zip(scores, self._shares[seed] or [2] * len(scores), strict=True)]

    def movement(self, condition: str) -> tuple[Markup, Markup, Markup]:
        """First window, last window and change of the reward."""
        return movement(self.facts, condition, "reward", self._moved[condition])

    def own_reward(self, run: str, statistic: str) -> Markup:
        """With the column's digits, but never a 0.000 for a number that is not 0."""
        finding, digits = self.facts.find(run, "reward", statistic), self._own_reward
        vanishes = finding is not None and finding.value and abs(finding.value) < 0.5 * 10**-digits
        return self.facts.value(finding, None if vanishes else digits)

    def share(self, subject: str, metric: str) -> Markup:
        return self.facts.value(self.facts.find(subject, metric, "final", "share"), 2)

    def changed_by_exclusions(self) -> Iterator[tuple[str, Markup, str]]:
        """(id, number, number with every run) of the numbers that the excluded runs would change."""
        changed = (finding for finding in self.experiment.findings.values() if finding.with_all is not None)
        for finding in islice(changed, MOST_CHANGED):
            digits = numbers.column_decimals((value, None, None) for value in (finding.value, finding.with_all))
            with_all = numbers.number(finding.with_all, finding.unit, decimals=digits, signed=is_signed(finding))
            yield finding.id, self.facts.value(finding, digits), with_all


def movement(facts: Facts, subject: str, metric: str, decimals: int | None) -> tuple[Markup, Markup, Markup]:
    initial, final, change = facts.moved(subject, metric)
    return facts.value(initial, decimals), facts.value(final, decimals), facts.change(change, decimals)


def steps_done(facts: Facts, run: RunFiles, of: str = "of") -> Markup:
    """`60 of 60`, as a link to its finding where there is one."""
    finding = facts.find(run.ref.name, "steps", "done")
    if finding and finding.k is not None:
        return facts.counted(finding, of)
    done = run.health.steps_done if run.health else run.outcome.steps_done if run.outcome else None
    return escape(f"{numbers.NONE if done is None else done} {of} {run.ref.target_steps}")


def nonfinite(run: RunFiles) -> str:
    """`persistent from 21`, `transient, first at 50`; of an imported summary what its single values say."""
    detections = {detection.detector: detection for detection in (run.health.detections if run.health else ())}
    detection = detections.get("nonfinite")
    signals = [signal for signal in _signals(detections.get("summary", detection)) if "class" in signal.evidence]
    if not signals:
        return _nothing(detection)
    lasting = [signal for signal in signals if signal.evidence["class"] == "persistent"]
    onset = min((signal.onset for signal in lasting or signals if signal.onset is not None), default=None)
    kind, since = ("persistent", " from") if lasting else ("transient", ", first at")
    return kind + (f"{since} {onset}" if onset is not None else "")


def collapse(run: RunFiles) -> str:
    """`step 21`: the first step of the first streak without a signal."""
    detection = next((d for d in (run.health.detections if run.health else ()) if d.detector == "collapse"), None)
    onset = min((signal.onset for signal in _signals(detection) if signal.onset is not None), default=None)
    return _nothing(detection) if onset is None else f"step {onset}"


def _signals(detection: Detection | None) -> tuple[Signal, ...]:
    return detection.signals if detection else ()


def _nothing(detection: Detection | None) -> str:
    """Of a detector without a signal to report."""
    if detection is None:
        return numbers.NONE
    return "none" if detection.state == "looked" else detection.state.replace("_", " ")


def no_curves(experiment: ExperimentFiles) -> str:
    """Why there are no curves; empty when at least one run has a step to draw."""
    runs = experiment.runs
    if runs and all(run.imported and run.imported.summary for run in runs):
        return "No curve was drawn: only summaries were imported, which hold final values and no series."
    if runs and not any(_logged(run) for run in runs):
        which = "the one run did not log" if len(runs) == 1 else f"none of {plural(len(runs), 'run')} logged"
        return f"No curve was drawn: {which} a step. The reasons are under Attempts."
    return "" if experiment.card.curves else "No curve was drawn: the spec asks for none."


def _logged(run: RunFiles) -> bool:
    if run.imported:
        return run.imported.first_step is not None
    return run.outcome is not None and (run.outcome.finished or run.outcome.steps_done > 0)
