"""Tables of conditions, of seeds and of the ranges of metrics: which columns they have, and their cells. Each number is a finding.

The spec chooses columns with `page: {tables: ...}`; otherwise they are the usual ones that have a value. Rewards of different conditions
are never ranked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from markupsafe import Markup

from stages.contracts.finding import Expected, Finding
from stages.contracts.health import Detection
from stages.contracts.history import METRICS, metric, metric_title, range_words
from stages.contracts.page_card import FIVE_POINTS, POINTS, column_statistic
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.facts import Facts
from stages.publish.imported import at_the_end
from stages.publish.text import escape

_OWN = {
    "ppo": ("objective.kl", "loss.value", "value.explained_variance", "policy.clipfrac", "entropy"),
    "sft": ("mean_token_accuracy", "entropy"),
}
"""Metrics that say most of runs of an algorithm, beside those that all have."""
_SPREAD = ("reward_std", "zero_signal_share", "truncated", "loss")
_USUAL = {
    "conditions": (
        ("runs", "steps"),
        ("reward first", "reward", "reward change", *_SPREAD),
        ("collapsed", "nonfinite", "seconds", "hours"),
    ),
    "seeds": (("state", "steps"), ("reward first", "reward", *_SPREAD, "grad_norm", "kl"), ("collapsed", "nonfinite", "attempts")),
}
"""Before the shared evaluation, after it, and after what is the algorithm's own."""
_HEADS = {
    "runs": "runs in",
    "seconds": "s a step",
    "hours": "h a run",
    "nonfinite": "not finite",
    "reward_std": "spread",
    "zero_signal_share": "zero signal",
    "truncated": "truncated",
    "grad_norm": "grad norm",
    "kl": "KL",
}
_DETECTORS = {"collapsed": ("collapse",), "nonfinite": ("nonfinite", "summary")}
REFERENCE = "../../reference/metrics.html"
Cell = Callable[[str], Markup]
"""From a condition or a run to what stands in its row."""


class Column(NamedTuple):
    """A column; columns of a group that stand side by side have one head over them."""

    head: Markup
    group: str
    cell: Cell
    find: Callable[[str], Finding | None]
    untrained: bool = False
    """Whether the untrained model has a cell too."""
    style: str = ""
    """`g` of the first column of a group."""


def graded(experiment: ExperimentFiles, score: str) -> bool:
    """Whether a score of the shared evaluation gives partial credit: then its mean is not its pass share."""
    for subject in ("untrained", *(condition.name for condition in experiment.card.conditions), *experiment.by_name):
        mean, passed = (experiment.findings.get(f"{subject}/evaluation.{score}.{measure}/final") for measure in ("score", "pass_share"))
        if mean and passed and None not in (mean.value, passed.value) and abs((mean.value or 0.0) - (passed.value or 0.0)) > 1e-9:
            return True
    return False


def columns(experiment: ExperimentFiles, facts: Facts, table: str) -> list[Column]:
    """Of `conditions` or `seeds`: those of the spec, or the usual ones that have a value in any row."""
    chosen = getattr(experiment.card.layout.tables, table)
    rows = [row.name for row in (experiment.card.conditions if table == "conditions" else experiment.card.runs)]
    named = [(name, _column(experiment, facts, table, name)) for name in chosen or _usual(experiment, table)]
    made = [column for name, column in named if chosen or _has_value(experiment, name, column, rows)]
    before = ["", *(column.group for column in made)]
    return [column._replace(style="g" if column.group != group else "") for column, group in zip(made, before, strict=False)]


def _has_value(experiment: ExperimentFiles, name: str, column: Column, rows: Sequence[str]) -> bool:
    """Whether a column says anything: that a detector looked and saw nothing does too."""
    if name in _DETECTORS:
        detections = [(run, detection) for run in experiment.runs for kind in _DETECTORS[name] if (detection := run.detection(kind))]
        by_seed = rows == [run.ref.name for run in experiment.runs]  # where a cell says why; a condition's count of no run says nothing
        return any(detection.state == "looked" or (by_seed and _is_hidden(run, detection)) for run, detection in detections)
    findings = [column.find(row) for row in (["untrained", *rows] if column.untrained else rows)]
    return any(finding is not None and finding.value is not None for finding in findings)


def _usual(experiment: ExperimentFiles, table: str) -> list[str]:
    first, then, last = _USUAL[table]
    measures = {score: ("score", "pass_share") if graded(experiment, score) else ("pass_share",) for score in experiment.card.evaluation}
    evaluated = [f"evaluation.{score}.{measure}" for score, own in measures.items() for measure in own]
    algorithms = dict.fromkeys(run.card.train.algorithm for run in experiment.runs if run.card)
    own = [name for algorithm in algorithms for name in _OWN.get(algorithm, ())]
    return list(dict.fromkeys([*first, *evaluated, *then, *own, *last]))


def shows_points(experiment: ExperimentFiles, table: str) -> bool:
    """Whether a table has a column of five points of training."""
    return any(column_statistic(column)[1] == POINTS for column in getattr(experiment.card.layout.tables, table))


def groups(made: Sequence[Column]) -> list[tuple[str, int]]:
    """Heads over the columns, each with how many columns it spans."""
    spans: list[tuple[str, int]] = []
    for column in made:
        if spans and column.group and spans[-1][0] == column.group:
            spans[-1] = (column.group, spans[-1][1] + 1)
        else:
            spans.append((column.group, 1))
    return spans


def _column(experiment: ExperimentFiles, facts: Facts, table: str, name: str) -> Column:
    by_seed = table == "seeds"
    if name in _NAMED:
        write = _cells_of_seeds(experiment, facts) if by_seed else _cells_of_conditions(facts)
        cell: Cell = write.get(name, lambda row: facts.value(_first(facts, row, name)))
        return Column(escape(_HEADS.get(name, name)), "", cell, lambda row: _first(facts, row, name))
    of, statistic = column_statistic(name)
    evaluated = of.startswith("evaluation.")
    words = {"initial": "first", "change": "change", POINTS: "at 0, 25, 50, 75, 100%"}.get(statistic, "")
    if evaluated:
        _, score, measure = of.split(".")
        partial = any(graded(experiment, own) for own in experiment.card.evaluation)
        title = score if not partial else f"{score} {'score' if measure == 'score' else 'passes'}"
        group = "Shared evaluation" if partial else "Shared evaluation, share that passes"
    else:
        title, group = _HEADS.get(of, metric_title(of)), at_the_end(experiment)
        title, group = (words or "last", "Own reward") if of == "reward" else (f"{title} {words}".strip(), group)

    def find_metric(row: str) -> Finding | None:
        if evaluated and statistic == "initial":  # where all runs began
            return facts.find("untrained", of, "final")
        return facts.find(row, of, "final" if statistic == POINTS else statistic)

    def cell_metric(row: str) -> Markup:
        finding = find_metric(row)
        if statistic == POINTS:
            return Markup(" → ").join(facts.value(facts.find(row, of, point)) for point in FIVE_POINTS)
        if statistic == "change":
            return facts.value(finding) + facts.apart(finding)
        return facts.interval(finding) if evaluated and not by_seed else facts.value(finding)

    return Column(linked(of, title), group, cell_metric, find_metric, evaluated and statistic == "final")


_NAMED = {
    "runs": ("runs/included",),
    "state": ("steps/done",),
    "steps": ("steps/mean", "steps/done"),
    "seconds": ("step_seconds/mean",),
    "hours": ("hours/full-run",),
    "collapsed": ("detector.collapse/runs", "detector.collapse/onset"),
    "nonfinite": ("detector.nonfinite/runs", "detector.summary/runs", "detector.nonfinite/onset", "detector.summary/onset"),
    "attempts": ("attempts/finished", "steps/done"),
}
"""Column that is no metric -> its findings, of a condition or of a run."""


def _first(facts: Facts, row: str, name: str) -> Finding | None:
    """The first finding of a column that a row has: one with a value, else one that counted something, else any."""
    own = [finding for id_ in _NAMED[name] if (finding := facts.find(row, *id_.split("/"))) is not None]
    return next(iter(sorted(own, key=lambda finding: (finding.value is None, finding.n == 0))), None)


def _cells_of_conditions(facts: Facts) -> dict[str, Cell]:
    def counted(name: str) -> Cell:
        return lambda row: facts.counted(_first(facts, row, name))

    return {name: counted(name) for name in ("runs", "collapsed", "nonfinite", "attempts")}


def _cells_of_seeds(experiment: ExperimentFiles, facts: Facts) -> dict[str, Cell]:
    def detected(name: str) -> Cell:
        return lambda row: _onset(experiment.by_name[row], facts, _DETECTORS[name])

    return {
        "state": lambda row: _state(experiment.by_name[row]),
        "steps": lambda row: steps_done(facts, experiment.by_name[row], "/"),
        "collapsed": detected("collapsed"),
        "nonfinite": detected("nonfinite"),
        "attempts": lambda row: escape(len(experiment.by_name[row].attempts)),
    }


def linked(name: str, title: str) -> Markup:
    """A metric's title as a link to what it means; of a metric that octavo does not know the title alone."""
    if metric(name) is None:
        return escape(title)
    measure = name.rpartition(".")[2]
    anchor = name.replace(".", "-") if name in METRICS else f"{'penalty' if name.startswith('penalty.') else 'gate'}-{measure}"
    return Markup('<a class="quiet" href="{}#{}">{}</a>').format(Markup(REFERENCE), escape(anchor), escape(title))


def steps_done(facts: Facts, run: RunFiles, of: str = "of") -> Markup:
    """`60 of 60`, as a link to its finding where there is one."""
    finding = facts.find(run.ref.name, "steps", "done")
    if finding and finding.k is not None:
        return facts.counted(finding, of)
    done = run.health.steps_done if run.health else run.outcome.steps_done if run.outcome else None
    return escape(f"{numbers.NONE if done is None else done} {of} {run.ref.target_steps}")


def _state(run: RunFiles) -> Markup:
    stopped = run.outcome is not None and run.outcome.stopped is not None
    word = "stopped" if stopped else run.state if run.included or run.state != "finished" else "left"
    return Markup('<span class="state {}">{}</span>').format(word, "left out" if word == "left" else word)


def _onset(run: RunFiles, facts: Facts, kinds: Sequence[str]) -> Markup:
    """`step 21`, `persistent, step 21`, `none`, or that the detector could not look; the step is a finding."""
    detection = next((own for kind in reversed(kinds) if (own := run.detection(kind)) is not None), None)
    if detection is None:
        return escape(numbers.NONE)
    onset = facts.find(run.ref.name, f"detector.{detection.detector}", "onset")
    word = _class(detection)
    if onset is not None and onset.value is not None:
        return Markup("{}step {}").format(f"{word}, " if word else "", facts.value(onset))
    if _is_hidden(run, detection):
        return escape("unknown between logged steps")
    return escape(word or ("none" if detection.state == "looked" else detection.state.replace("_", " ")))


def _is_hidden(run: RunFiles, detection: Detection) -> bool:
    """Whether the steps between the rows of a run hide what single ones of them may have had."""
    return detection.detector == "nonfinite" and detection.state != "looked" and run.health is not None and run.health.stride > 1


def _class(detection: Detection) -> str:
    """Whether a metric stays without finite values to the end; empty of other detectors."""
    classes = {signal.evidence["class"] for signal in detection.signals if "class" in signal.evidence}
    return "persistent" if "persistent" in classes else "transient" if classes else ""


_ERROR = re.compile(r"(?P<condition>[^/]+)/gate\.(?P<gate>[^/]+)\.error-\d+/final")
_REASON = " with the reason: "


class Seen(NamedTuple):
    """A metric in one condition: where its values lie, where they should, and what that comes to."""

    condition: str
    lowest: Finding | None
    highest: Finding | None
    outside: Finding | None
    expected: Sequence[Expected]

    @property
    def assessment(self) -> str:
        """`inside`, `outside`, `not observable`, or empty without a range to hold it against. The author's expectations come before the
        healthy range."""
        states = {score.state for score in self.expected}
        if states:
            return "outside" if "missed" in states else "inside" if "met" in states else "not observable"
        if self.lowest is None:
            return "not observable"
        return "" if self.outside is None else "outside" if self.outside.k else "inside"


def ranges(experiment: ExperimentFiles) -> Iterator[tuple[str, list[Seen]]]:
    """Each metric that has a range to be held against, or an expectation, with what is seen of it in each condition."""
    card, scores = experiment.card, experiment.conclusions.expectations
    measured = [finding.metric for finding in experiment.findings.values() if finding.statistic in ("lowest", "highest")]
    for name in dict.fromkeys([*measured, *(score.metric for score in scores)]):
        seen = []
        for condition in (own.name for own in card.conditions):
            lowest, highest, outside = (experiment.findings.get(f"{condition}/{name}/{end}") for end in ("lowest", "highest", "outside"))
            own = [score for score in scores if (score.metric, score.condition) == (name, condition)]
            seen.append(Seen(condition, lowest, highest, outside, own))
        known = [row for row in seen if row.lowest or row.expected or healthy(name)]
        if any(row.lowest or row.expected for row in known):
            yield name, known


def error_classes(experiment: ExperimentFiles, condition: str) -> list[tuple[str, str, Finding | None, Finding]]:
    """Gate, class of its reason, and how many completions failed with it in the first and in the last window."""
    rows = []
    for id_, finding in experiment.findings.items():
        match = _ERROR.fullmatch(id_)
        if match and match["condition"] == condition:
            says = finding.says.partition(_REASON)[2].rpartition("; final window of training")[0]
            rows.append((match["gate"], says, experiment.findings.get(id_.replace("/final", "/initial")), finding))
    return rows


def healthy(name: str) -> str:
    """The range in which a step of the metric is healthy; empty without one."""
    known = metric(name)
    return "" if known is None or known.healthy == (None, None) else range_words(known.healthy)
