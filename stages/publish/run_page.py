"""One page a run, when the spec asks for them (`page: {runs: true}`): numbers, curves, health, attempts, completions, card.

Run pages are outside navigation and search. A run is shown against the mean of every condition, on the axes of the experiment's page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from markupsafe import Markup

from stages.publish import anomalies, attempts, completions, methods
from stages.publish.causes import clipped_at, explain
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.facts import Facts
from stages.publish.figures import Picture, inlined, picture
from stages.publish.passports import passport, passports_json, records
from stages.publish.stored_texts import StoredTexts
from stages.publish.tables import steps_done
from stages.publish.text import render

_RUN = re.compile(r'<g data-run="([^" :]*)')
"""Draw writes a line of text for each run's curve and marks."""


def run_pages(experiment: ExperimentFiles, stored: Iterable[StoredTexts] = ()) -> dict[str, str]:
    """File name -> HTML of each run's page; nothing when the spec does not ask for them. `stored`: the runs' texts to search."""
    if not experiment.card.run_pages:
        return {}
    texts = {own.name: [own] for own in stored}
    return {f"run-{run.ref.name}.html": _page(experiment, run, texts.get(run.ref.name, [])) for run in experiment.runs}


def _page(experiment: ExperimentFiles, run: RunFiles, stored: list[StoredTexts]) -> str:
    facts = Facts(experiment.findings, "", experiment.digits)
    return render(
        "run.html.j2",
        anomalies=anomalies,
        attempts=attempts,
        methods=methods,
        experiment=experiment,
        card=experiment.card,
        facts=facts,
        run=run,
        done=steps_done(facts, run),
        pictures=list(_curves(experiment, run.ref.name)),
        explain=lambda signal: explain([signal], clipped_at(run.card)),
        completions=completions,
        browser=completions.browse(experiment.condition(run.ref.condition), run),
        stored=stored,
        passports=lambda: _passports(experiment, facts, run.ref.name),
    )


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
