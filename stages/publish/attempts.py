"""Attempts: every one that began, how it ended, and how often runs finish. A start without an end was killed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup

from stages.contracts.attempt import Attempt, Started, tries
from stages.contracts.wilson import wilson
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.facts import Facts
from stages.publish.numbers import duration, fixed


@dataclass(frozen=True)
class Rate:
    """How many attempts finished, with a Wilson 95% interval."""

    subject: str
    finished: int
    attempts: int
    number: Markup
    """`11 of 14`, as a link to its finding where that counted the same ledger."""
    imported: bool
    """The runs were read from logs: earlier tries are not known."""

    @property
    def bounds(self) -> str:
        low, high = wilson(self.finished, self.attempts, 0.95)
        return f"[{fixed(low, 2)}, {fixed(high, 2)}]"

    @property
    def says(self) -> str:
        """What follows the number in a sentence."""
        if self.imported:
            return "imported runs finished, as their logs say; tries that were not imported are unknown."
        return f"attempts finished; Wilson 95% interval of the share {self.bounds}."


def rates(experiment: ExperimentFiles, facts: Facts) -> list[Rate]:
    """Of each condition with attempts, the whole experiment last."""
    groups = [(condition.name, experiment.of_condition(condition.name)) for condition in experiment.card.conditions]
    made = (_rate(experiment, facts, name, list(_ended(runs))) for name, runs in [*groups, ("experiment", experiment.runs)])
    return [rate for rate in made if rate.attempts]


def _ended(runs: Iterable[RunFiles]) -> Iterator[Attempt]:
    """Attempts whose end is known; that of imported logs that merely end is not."""
    for run in runs:
        yield from (attempt for attempt in tries(run.attempts, only_read=run.only_read) if attempt.state != "unknown")


def _rate(experiment: ExperimentFiles, facts: Facts, subject: str, attempts: list[Attempt]) -> Rate:
    finished = sum(attempt.state == "finished" for attempt in attempts)
    finding = facts.find(subject, "attempts", "finished")
    if attempts and finding and (finding.k, finding.n) == (finished, len(attempts)):
        number = facts.counted(finding)
    else:
        number = Markup("{} of {}").format(finished, len(attempts))
    name = "all conditions" if subject == "experiment" else subject
    return Rate(name, finished, len(attempts), number, experiment.imported)


def changes(start: Started) -> str:
    """What an attempt changed after the failure before it, as the end of `step 20`; mostly nothing."""
    changed = start.changed
    if changed is None:
        return ""
    parts = [f"micro-batch {changed.microbatch}"] if changed.microbatch else []
    parts += [changed.resume.replace("_", " ")] if changed.resume else []
    parts += ["new verifiers"] if changed.restart_verifier else []
    return f"; {', '.join(parts) or 'nothing changed'}, after {changed.failure.replace('_', ' ')}"


def hours(experiment: ExperimentFiles) -> list[tuple[str, int, str]]:
    """(outcome, attempts, time), the most frequent outcome first; the time of a killed attempt was never written."""
    attempts = [attempt for run in experiment.runs for attempt in run.attempts]
    rows = [((end.failure if (end := a.ended) else None) or a.state, round(end.seconds) if end else 0) for a in attempts]
    table = pd.DataFrame(rows, columns=["outcome", "seconds"]).groupby("outcome", sort=False)["seconds"].agg(["size", "sum"])
    table = table.sort_values("size", ascending=False, kind="stable")
    return [(outcome, int(count), duration(seconds) if seconds else "not known") for outcome, count, seconds in table.itertuples()]
