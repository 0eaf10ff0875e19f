"""Attempts: every one that began, how it ended, and how often runs finish. A start without an end was killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from stages.contracts.attempt import Attempt, Ended, Started, tries
from stages.contracts.wilson import wilson
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.facts import Facts


@dataclass(frozen=True)
class AttemptRow:
    run: str
    number: int
    attempt: str
    began: str
    state: str
    failure: str
    last_step: str
    took: str
    resumed: str
    host: str
    error: str


@dataclass(frozen=True)
class Completion:
    """How many attempts finished, with a Wilson 95% interval."""

    subject: str
    finished: int
    attempts: int
    low: float
    high: float
    number: Markup
    """`11 of 14` as a link to its finding where that counted the same ledger, else as plain text."""
    imported: bool = False
    """The runs were read from logs: how often each was tried before is not known."""

    @property
    def words(self) -> str:
        return f"{self.finished} of {numbers.plural(self.attempts, 'attempt')} finished"

    @property
    def told(self) -> str:
        """What follows the number in a sentence."""
        if self.imported:
            return "imported runs finished, as their logs say; tries that were not imported are unknown."
        return f"attempts finished; Wilson 95% interval of the share {self.bounds}."

    @property
    def bounds(self) -> str:
        return f"[{numbers.fixed(self.low, 2)}, {numbers.fixed(self.high, 2)}]"


def attempt_rows(experiment: ExperimentFiles) -> tuple[AttemptRow, ...]:
    """All attempts in the order of runs, then of their starts."""
    return tuple(_row(run.ref.name, attempt) for run in experiment.runs for attempt in run.attempts)


def _row(run: str, attempt: Attempt) -> AttemptRow:
    start, end = attempt.started, attempt.ended
    return AttemptRow(
        run=run,
        number=start.number,
        attempt=start.attempt,
        began=start.at.replace("T", " ").removesuffix("Z").removesuffix("+00:00"),
        state="stopped" if end and end.stopped else attempt.state,
        failure=_why(end) if end else "no end was written",
        last_step=str(end.last_step) if end else numbers.NONE,
        took=numbers.duration(end.seconds) if end else numbers.NONE,
        resumed=("the start" if start.resumed_from is None else f"step {start.resumed_from}") + changes(start),
        host=start.host,
        error=(end.error or (end.stopped.says if end.stopped else "")) if end else "",
    )


def changes(start: Started) -> str:
    """What an attempt changed after the failure before it, to follow where it went on from; nothing mostly."""
    changed = start.changed
    if changed is None:
        return ""
    parts = [f"micro-batch {changed.microbatch}"] if changed.microbatch else []
    parts += [changed.resume.replace("_", " ")] if changed.resume else []
    parts += ["new verifiers"] if changed.restart_verifier else []
    return f"; {', '.join(parts) or 'nothing changed'}, after {changed.failure.replace('_', ' ')}"


def _why(end: Ended) -> str:
    if end.stopped:
        return f"stopped by rule {end.stopped.rule} at step {end.stopped.step}"
    return end.failure or ""


def completions(experiment: ExperimentFiles, facts: Facts) -> tuple[Completion, ...]:
    """Completion rate of each condition with attempts, the whole experiment last."""
    groups = [(c.name, _known(experiment.of_condition(c.name))) for c in experiment.card.conditions]
    groups.append(("experiment", _known(experiment.runs)))
    return tuple(_completion(facts, name, attempts, imported=experiment.imported) for name, attempts in groups if attempts)


def _known(runs: Iterable[RunFiles]) -> list[Attempt]:
    """Attempts of which it is known how they ended; of imported logs that merely end it is not."""
    return [attempt for run in runs for attempt in tries(run.attempts, only_read=run.only_read) if attempt.state != "unknown"]


def _completion(facts: Facts, subject: str, attempts: list[Attempt], *, imported: bool) -> Completion:
    finished = sum(attempt.state == "finished" for attempt in attempts)
    finding = facts.find(subject, "attempts", "finished")
    if finding and (finding.k, finding.n) == (finished, len(attempts)):
        number = facts.counted(finding)
    else:
        number = Markup("{} of {}").format(finished, len(attempts))
    low, high = wilson(finished, len(attempts), 0.95)
    return Completion("all conditions" if subject == "experiment" else subject, finished, len(attempts), low, high, number, imported)


def hours(experiment: ExperimentFiles) -> tuple[tuple[str, int, str], ...]:
    """(outcome, attempts, time) by outcome; a killed attempt's time was never written."""
    counts: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for run in experiment.runs:
        for attempt in run.attempts:
            name = (attempt.ended.failure or attempt.state) if attempt.ended else attempt.state
            counts[name] += 1
            seconds[name] += round(attempt.ended.seconds) if attempt.ended else 0
    return tuple((name, n, numbers.duration(seconds[name]) if seconds[name] else "not known") for name, n in counts.most_common())
