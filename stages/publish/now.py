"""Of a page that is written while runs go on: how far it all is, what is due next, and what the stop rules do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from stages.contracts.progress import Progress, RunProgress
from stages.publish.experiment import ExperimentFiles
from stages.publish.numbers import listed, plural
from stages.publish.text import TEXTS


def counted(progress: Progress) -> str:
    """`2 of 12 runs have ended, 1 running and 9 waiting`."""
    going = Counter(run.state for run in progress.runs if run.goes_on)
    parts = [f"{count} {TEXTS['going'][state]}" for state, count in going.items()]
    ended = f"{len(progress.runs) - going.total()} of {plural(len(progress.runs), 'run')} ended"
    return f"{ended}; {listed(parts)}" if parts else ended


def going(progress: Progress) -> list[RunProgress]:
    """Runs with a row of their own: all that have begun and not ended."""
    return [run for run in progress.runs if run.goes_on and run.state != "waiting"]


def waiting(progress: Progress) -> list[str]:
    return [run.run for run in progress.runs if run.state == "waiting"]


def lines(experiment: ExperimentFiles) -> Iterator[tuple[str, str]]:
    """(kind, what can be said of it now) for expectations and stop rules."""
    scores = experiment.conclusions.expectations
    states = Counter(score.state for score in scores)
    if scores:
        counts = listed([f"{states[state]} {words.lower()}" for state, words in TEXTS["scores"].items() if states[state]])
        places = [run.due for score in scores for run in score.runs if run.due is not None]
        yield "Expectations", counts + (f"; the next is due at step {min(places)}" if places else "")
    results = experiment.conclusions.rules
    if results:
        held = [f"{result.rule} in {result.run} ({result.state.replace('_', ' ')})" for result in results if result.first]
        yield "Stop rules", listed(held) if held else "none has held so far"
