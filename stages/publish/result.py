"""The first screen of a page: what answers each claim, the leading figures, and what happened in each condition.

`result.html.j2` holds the sentences. All numbers of a metric have the same digits on the screen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from stages.contracts.claim import ClaimRule
from stages.contracts.finding import Finding
from stages.contracts.history import metric_title
from stages.publish.experiment import ExperimentFiles
from stages.publish.facts import Facts
from stages.publish.figures import Picture
from stages.publish.numbers import plural
from stages.publish.tables import graded

_PASS_SHARE = re.compile(r"evaluation\.(.+)\.pass_share")
_MOST_METRICS = 3
"""In the table of the first screen; the table of conditions has all."""
_HEADS = {"reward": "own reward, first \u2192 last", "zero_signal_share": "groups without signal, last"}


def kicker(experiment: ExperimentFiles) -> list[str]:
    """`quickstart`, `GRPO`, `4 conditions × 3 seeds`, `9 of 12 runs count`: what kind of experiment it is."""
    card, runs = experiment.card, experiment.runs
    algorithms = dict.fromkeys(run.card.train.algorithm.upper() for run in runs if run.card)
    parts = [experiment.folder.name, *([f"profile {card.profile}"] if card.profile else []), *algorithms]
    parts += ["imported"] if experiment.logs else []
    parts.append(f"{plural(len(card.conditions), 'condition')} × {plural(len({run.ref.seed for run in runs}), 'seed')}")
    return [*parts, f"{experiment.included} of {plural(len(runs), 'run')} {'counts' if len(runs) == 1 else 'count'}"]


class Level(NamedTuple):
    """Where one side of a claim is at the end."""

    condition: str
    """Empty of the untrained model."""
    number: Finding


def levels(experiment: ExperimentFiles, rule: ClaimRule) -> list[Level]:
    """Of the claim's sides, and of the untrained model where it was measured; those that have a value."""
    ids = [(side, f"{side}/{rule.metric}/{rule.statistic}") for side in rule.sides]
    ids += [("", f"untrained/{rule.metric}/final")] if rule.statistic == "final" else []
    return [Level(name, number) for name, id_ in ids if (number := experiment.findings.get(id_)) and number.value is not None]


def uncounted(experiment: ExperimentFiles, condition: str, metric: str) -> list[Finding]:
    """The lowest and the highest value that runs of a condition show of which none counts; [] without values, one where all are equal."""
    ids = (f"{run.ref.name}/{metric}/final" for run in experiment.of_condition(condition))
    values = {number.value: number for id_ in ids if (number := experiment.findings.get(id_)) and number.value is not None}
    return [values[value] for value in dict.fromkeys((min(values), max(values)))] if values else []


def null_controls(experiment: ExperimentFiles) -> set[str]:
    return {condition.name for condition in experiment.card.conditions if condition.role == "null_control"}


def score_of(metric: str) -> str:
    """`tests` of `evaluation.tests.pass_share`; empty of any other metric."""
    match = _PASS_SHARE.fullmatch(metric)
    return match[1] if match else ""


def leading_metrics(experiment: ExperimentFiles) -> list[str]:
    """Metrics of the first screen: those of the claims, else of the shared evaluation."""
    rules = experiment.conclude.claims if experiment.conclude else ()
    claimed = [rule.metric for rule in rules if rule.statistic == "final"]
    measures = {name: "score" if graded(experiment, name) else "pass_share" for name in experiment.card.evaluation}
    evaluated = [f"evaluation.{name}.{measure}" for name, measure in measures.items()]
    return list(dict.fromkeys(claimed or evaluated))[:_MOST_METRICS]


Sections = Mapping[str, Sequence[Picture]]


def split_leading(experiment: ExperimentFiles, drawn: Sections) -> tuple[list[Picture], Sections]:
    """The figures of the first screen, and the others by section. The author chooses them; else it is that of the first leading metric, of
    the shared evaluation, or the first curve."""
    available = {picture.figure.name: picture for section in drawn.values() for picture in section}
    metrics = leading_metrics(experiment)
    usual = [f"curves-{name}" for name in experiment.card.curves if experiment.card.progress]  # nothing is evaluated before the end
    usual += [_figure_of(metric) for metric in metrics]
    usual += [f"evaluation-{name}" for name in experiment.card.evaluation] + [f"curves-{name}" for name in experiment.card.curves]
    names = experiment.card.layout.lead or tuple(name for name in usual if name in available)[:1]
    rest = {title: [picture for picture in section if picture.figure.name not in names] for title, section in drawn.items()}
    return [available[name] for name in names if name in available], rest


def _figure_of(metric: str) -> str:
    """Name of the figure of a metric."""
    if score := score_of(metric):
        return f"evaluation-{score}"
    parts = metric.split(".")
    return f"evaluation-{parts[1]}-score" if parts[0] == "evaluation" and parts[-1] == "score" else f"curves-{metric}"


class Row(NamedTuple):
    """A condition, or the untrained model."""

    name: str
    colour: int | None
    """Number of its colour; None of the untrained model."""
    note: str
    cells: list[Markup]


def _is_measured(experiment: ExperimentFiles, facts: Facts, metric: str) -> bool:
    """Whether a condition or a run has a value: runs that do not count have one all the same, and PPO has no groups."""
    names = [condition.name for condition in experiment.card.conditions] + [run.name for run in experiment.card.runs]
    return any(number.value is not None for name in names if (number := facts.find(name, metric, "final")))


def condition_table(experiment: ExperimentFiles, facts: Facts) -> tuple[list[str], list[Row]]:
    """Heads and rows of what happened in each condition: runs that count, the leading metrics, its own reward, groups without a signal."""
    conditions = experiment.card.conditions
    if not experiment.findings:
        return [], []
    metrics = [metric for metric in leading_metrics(experiment) if _is_measured(experiment, facts, metric)]
    more = [metric for metric in _HEADS if metric not in metrics and _is_measured(experiment, facts, metric)]
    heads = [f"passes {score_of(metric)}" if score_of(metric) else metric_title(metric) for metric in metrics]
    heads = ["runs that count", *heads, *(_HEADS[metric] for metric in more)]
    rows = []
    if any(facts.find("untrained", metric, "final") for metric in metrics):
        cells = [Markup(), *(_cell(experiment, facts, "untrained", metric) for metric in metrics), *(Markup() for _ in more)]
        rows.append(Row("untrained", None, "", cells))
    for colour, condition in enumerate(conditions):
        cells = [facts.counted(facts.find(condition.name, "runs", "included"))]
        cells += [_cell(experiment, facts, condition.name, metric) for metric in metrics]
        for metric in more:
            first, last, _ = facts.movement(condition.name, metric)
            end = facts.find(condition.name, metric, "final")
            if end is None or end.value is None:
                cells.append(_cell(experiment, facts, condition.name, metric))
            elif metric == "reward":
                cells.append(Markup('{} <span class="to">\u2192</span> {}').format(first, last))
            else:
                cells.append(facts.value(end))
        rows.append(Row(condition.name, colour, "null control" if condition.role == "null_control" else "", cells))
    return heads, rows


def _cell(experiment: ExperimentFiles, facts: Facts, subject: str, metric: str) -> Markup:
    """The number with its interval; of a condition without a run that counts what its runs show."""
    number = facts.find(subject, metric, "final")
    if subject == "untrained" or (number is not None and number.value is not None):
        return facts.interval(number)
    ends = [facts.value(shown) for shown in uncounted(experiment, subject, metric)]
    return facts.value(number) + (Markup("<br><small>seen: {}</small>").format(Markup(" to ").join(ends)) if ends else Markup())
