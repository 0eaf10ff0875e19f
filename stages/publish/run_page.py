"""One page a run, when the spec asks for them (`page: {runs: true}`): numbers, curves, health, attempts, completions, card.

Run pages are outside navigation and search. A run is shown against the mean of every condition, on the axes of the experiment's page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from markupsafe import Markup

from stages.publish import anomalies, attempts, numbers
from stages.publish.causes import clipped_at, explain
from stages.publish.completions import browse, printed_reward
from stages.publish.conditions import steps_done
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.facts import Facts
from stages.publish.figures import Picture, inlined, picture
from stages.publish.methods import GROUPS, flat, setting_key
from stages.publish.passports import passport, passports_json, records
from stages.publish.text import render

_RUN = re.compile(r'<g data-run="([^" :]*)')
"""Draw writes a line of text for each run's curve and marks."""


def leaf(run: str) -> str:
    """The file name of a run's page; run names are slugs."""
    return f"run-{run}.html"


def run_pages(experiment: ExperimentFiles) -> dict[str, str]:
    """File name -> HTML of each run's page; nothing when the spec does not ask for them."""
    if not experiment.card.run_pages:
        return {}
    return {leaf(run.ref.name): _page(experiment, index) for index, run in enumerate(experiment.runs)}


def _page(experiment: ExperimentFiles, index: int) -> str:
    run, names = experiment.runs[index], [run.ref.name for run in experiment.runs]
    facts, name = Facts(experiment.findings, page=""), run.ref.name
    detections = run.health.detections if run.health else ()
    curves = [metric for metric in experiment.card.curves if any(facts.moved(name, metric))]
    values = {
        "experiment": experiment,
        "card": experiment.card,
        "facts": facts,
        "run": run,
        "colour": [c.name for c in experiment.card.conditions].index(run.ref.condition),
        "before": names[index - 1] if index else None,
        "after": names[index + 1] if index + 1 < len(names) else None,
        "leaf": leaf,
        "done": steps_done(facts, run),
        "moved": {metric: facts.movement(name, metric, facts.moved_digits([name], metric)[name]) for metric in curves},
        "scores": [s for s in experiment.card.evaluation if facts.find(name, f"evaluation.{s}.pass_share", "final", "share")],
        "pictures": list(_curves(experiment, name)),
        "signals": list(chain.from_iterable(detection.signals for detection in detections)),
        "explain": lambda signal: explain([signal], clipped_at(run.card)),
        "anomalies": anomalies,
        "looked": sum(detection.state == "looked" for detection in detections),
        "attempts": attempts,
        "completions": browse(experiment.condition(run.ref.condition), run),
        "printed_reward": printed_reward,
        "settings": {group: list(_settings(experiment, run, group)) for group in GROUPS} if run.card else {},
        "made": run.card or run.import_card,
        "passports": lambda: _passports(experiment, facts, name),
    }
    return render("run.html.j2", **values)


def _passports(experiment: ExperimentFiles, facts: Facts, name: str) -> Markup:
    """Passports of the run's numbers as JSON, with the record of the run."""
    used = facts.used.values()
    shared = {owner: record for owner, record in records(experiment, used).items() if owner == name or record.files}
    return Markup(passports_json(experiment, (passport(experiment, finding) for finding in used), shared))


def _curves(experiment: ExperimentFiles, run: str) -> Iterator[Picture]:
    """The experiment's curves with the lines and marks of one run and every condition's mean."""
    others = {ref.name for ref in experiment.card.runs} - {run}
    drawings = {drawing.figure.name: drawing for drawing in experiment.drawings}
    for name in (f"curves-{metric}" for metric in experiment.card.curves):
        if name in drawings:
            lines = inlined(drawings[name].svg).splitlines()
            kept = [line for line in lines if not ((owner := _RUN.search(line)) and owner[1] in others)]
            yield picture(drawings[name], Markup("\n".join(kept)))


def _settings(experiment: ExperimentFiles, run: RunFiles, group: str) -> Iterator[tuple[str, str, str]]:
    """(name, value, place in the spec) of a part of the card."""
    for pointer, value in flat(run.card, group).items() if run.card else ():
        yield setting_key(pointer, group), numbers.setting(value), str(experiment.origin(run.ref, pointer) or "")
