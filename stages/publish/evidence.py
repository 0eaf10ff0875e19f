"""The evidence below the result: its sections in their order, what each holds in one line, and which of them begin open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from stages.contracts.page_card import PageSection
from stages.publish import imported
from stages.publish.anomalies import Anomaly, looked
from stages.publish.claims import ClaimView
from stages.publish.experiment import ExperimentFiles
from stages.publish.methods import judged_page, setting_groups
from stages.publish.numbers import listed, plural


class Line(NamedTuple):
    """What a section holds, in a few words, and whether something in it is wrong."""

    says: str
    wrong: bool = False


class Part(NamedTuple):
    name: PageSection
    anchor: str
    title: str
    template: str
    line: Line
    open: bool


def parts(experiment: ExperimentFiles, claims: Sequence[ClaimView], seen: Sequence[Anomaly], texts: int) -> list[Part]:
    """Sections that have something to show. Those that the spec's `page.order` names come first; without `page.fold` a section is open
    where something in it is wrong; of an experiment without a run that counts the first screen says all. `texts`: completions that can be
    read."""
    card, layout = experiment.card, experiment.card.layout
    read = any(run.imported for run in experiment.runs)
    rewarded = not all(condition.supervised for condition in card.conditions)
    program = "Program" if imported.commands(experiment) else "Imported runs"
    titles = {"reward": program if read else "Reward"} | _TITLES
    lines: dict[PageSection, Callable[[], Line | None]] = {
        "claims": lambda: _claims(claims),
        "conditions": lambda: _conditions(experiment),
        "seeds": lambda: _seeds(experiment),
        "curves": lambda: _curves(experiment),
        "reward": lambda: _logs(experiment) if read else _reward(experiment) if rewarded else None,
        "completions": lambda: (
            Line(f"{plural(texts, 'text')} to read and search" if texts else "none were kept") if texts or not read else None
        ),
        "anomalies": lambda: _anomalies(experiment, seen),
        "attempts": lambda: _attempts(experiment),
        "questions": lambda: Line(plural(len(card.questions), "question")) if card.questions else None,
        "expectations": lambda: _expectations(experiment),
        "plans": lambda: _plans(experiment),
        "settings": lambda: None if read else _settings(experiment),
        "lineage": lambda: Line("from the spec to this page; every number has its way back"),
        "methods": lambda: _methods(experiment),
    }
    shown = []
    for name in dict.fromkeys([*layout.order, *lines]):
        if (line := lines[name]()) is not None:
            is_open = line.wrong and experiment.included > 0 if layout.fold is None else name not in layout.fold
            template = "imports.html.j2" if name == "reward" and read else f"{name}.html.j2"
            shown.append(Part(name, titles[name].lower().replace(" ", "-"), titles[name], template, line, is_open))
    return shown


_TITLES = {
    "claims": "Claims",
    "conditions": "Conditions",
    "seeds": "Seeds",
    "curves": "Curves",
    "completions": "Completions",
    "anomalies": "Anomalies",
    "attempts": "Attempts",
    "questions": "Questions and answers",
    "expectations": "Expectations and stop rules",
    "plans": "Actions and contingency plans",
    "settings": "Hyperparameters",
    "lineage": "Lineage",
    "methods": "Methods",
}


def _claims(claims: Sequence[ClaimView]) -> Line | None:
    late = sum(bool(claim.dated.late) for claim in claims)
    if late:
        return Line(f"{late} of {plural(len(claims), 'rule')} changed after the data", wrong=True)
    return Line(f"{plural(len(claims), 'rule')}, their dates, seeds in and out") if claims else None


def _conditions(experiment: ExperimentFiles) -> Line | None:
    if not experiment.findings:
        return None
    scores = f", evaluated on {listed(list(experiment.card.evaluation))}" if experiment.card.evaluation else ""
    return Line(plural(len(experiment.card.conditions), "condition") + scores)


def _seeds(experiment: ExperimentFiles) -> Line:
    count = len(experiment.runs)
    return Line(
        f"{plural(count, 'run')}, {experiment.included} of them count",
        wrong=any(not run.included for run in experiment.runs if run.state != "waiting"),
    )


def _curves(experiment: ExperimentFiles) -> Line:
    drawn = [drawing.figure.name for drawing in experiment.drawings if drawing.figure.name.startswith("curves-")]
    if not drawn:
        return Line("none drawn")
    return Line(f"{plural(len(drawn), 'metric')} over {max((run.ref.target_steps for run in experiment.runs), default=0)} steps")


def _reward(experiment: ExperimentFiles) -> Line:
    rewards = {condition.reward: condition.gates for condition in experiment.card.conditions if not condition.supervised}
    gates = dict.fromkeys(gate for names in rewards.values() for gate in names)
    counted = [plural(len(rewards), "reward"), *([f"gates {listed(list(gates))}"] if gates else [])]
    results = experiment.preflight.results if experiment.preflight else ()
    refused = [result.condition for result in results if result.verdict == "refuse"]
    return Line(", ".join([*counted, *([f"preflight refused {listed(refused)}"] if refused else [])]), wrong=bool(refused))


def _logs(experiment: ExperimentFiles) -> Line:
    return Line(f"{plural(sum(run.imported is not None for run in experiment.runs), 'log')}, and what was read from them")


def _anomalies(experiment: ExperimentFiles, seen: Sequence[Anomaly]) -> Line:
    counts = [(sum(anomaly.severity == severity for anomaly in seen), severity) for severity in ("severe", "warning")]
    runs = {run for anomaly in seen if anomaly.severity != "info" for run, _ in anomaly.signals}
    if runs:
        words = [f"{count} {severity}" if severity == "severe" else plural(count, severity) for count, severity in counts if count]
        return Line(f"{listed(words)} in {plural(len(runs), 'run')}", wrong=bool(counts[0][0]))
    detectors = plural(len(looked(experiment)), "detector")
    return Line(f"{detectors} looked and reported no warning" if looked(experiment) else "no detector could look")


def _attempts(experiment: ExperimentFiles) -> Line:
    attempts = [attempt for run in experiment.runs for attempt in run.attempts]
    finished = sum(run.state == "finished" for run in experiment.runs)
    failed = any(run.state in ("failed", "missing") for run in experiment.runs)
    return Line(f"{finished} of {plural(len(experiment.runs), 'run')} finished, in {plural(len(attempts), 'attempt')}", wrong=failed)


def _expectations(experiment: ExperimentFiles) -> Line | None:
    scores, rules = experiment.conclusions.expectations, experiment.conclusions.rules
    missed, stopped = sum(score.state == "missed" for score in scores), sum(rule.state == "stopped" for rule in rules)
    words = []
    if scores:
        words.append(f"{missed} of {plural(len(scores), 'expectation')} missed" if missed else _met([score.state for score in scores]))
    if rules:
        words.append(f"{plural(stopped, 'run')} stopped by a rule" if stopped else "no rule stopped a run")
    return Line("; ".join(words), wrong=bool(missed)) if words else None


def _met(states: Sequence[str]) -> str:
    return f"{states.count('met')} of {plural(len(states), 'expectation')} met"


def _plans(experiment: ExperimentFiles) -> Line | None:
    counts = ((experiment.card.actions, "action"), (experiment.card.contingency, "contingency plan"))
    words = [plural(len(plans), noun) for plans, noun in counts if plans]
    return Line(listed(words)) if words else None


def _settings(experiment: ExperimentFiles) -> Line:
    rows = [row for group in setting_groups(experiment).values() for row in group]
    differing = dict.fromkeys(row.key for row in rows if row.only)
    words = f"conditions differ in {_few(differing)}" if differing else "conditions differ in the reward only"
    several = [words] if len(experiment.card.conditions) > 1 else []
    return Line("; ".join([f"{plural(len(rows), 'value')}, {sum(row.is_default for row in rows)} of them defaults", *several]))


def _methods(experiment: ExperimentFiles) -> Line:
    judged = len(judged_page(experiment))
    return Line("intervals, commands, environment, citation" + (f"; {plural(judged, 'code change')} judged equal" if judged else ""))


def _few(names: Iterable[str], most: int = 3) -> str:
    every = list(names)
    return listed(every[:most] + ([f"{len(every) - most} more"] if len(every) > most else []))
