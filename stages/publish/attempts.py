"""Attempts: every one that began, how it ended, and how often runs finish. A start without an end was killed."""

from __future__ import annotations

import pandas as pd
from markupsafe import Markup

from stages.contracts.attempt import Attempt, Started, tries
from stages.contracts.wilson import wilson
from stages.publish.experiment import ExperimentFiles
from stages.publish.facts import Facts
from stages.publish.numbers import duration, fixed


def rates(experiment: ExperimentFiles, facts: Facts) -> list[tuple[str, Markup, str]]:
    """(condition, `11 of 14` attempts that finished, Wilson 95% interval of the share), the whole experiment last. The number links to its
    finding where that counted the same ledger."""
    groups = [(c.name, c.name, experiment.of_condition(c.name)) for c in experiment.card.conditions]
    rows = []
    for name, subject, runs in (*groups, ("all conditions", "experiment", experiment.runs)):
        states = [attempt.state for run in runs for attempt in tries(run.attempts, only_read=run.only_read) if attempt.state != "unknown"]
        finished, count = states.count("finished"), len(states)
        finding = facts.find(subject, "attempts", "finished")
        linked = finding and (finding.k, finding.n) == (finished, count)
        if count:
            number = facts.counted(finding) if linked else Markup("{} of {}").format(finished, count)
            rows.append((name, number, "[{}, {}]".format(*(fixed(bound, 2) for bound in wilson(finished, count, 0.95)))))
    return rows


def state(experiment: ExperimentFiles, attempt: Attempt) -> str:
    """How an attempt ended; of one that goes on `running`."""
    runs = experiment.card.progress.runs if experiment.card.progress and attempt.state == "unknown" else ()
    return "running" if any(run.began == attempt.started.at and run.goes_on for run in runs) else attempt.state


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
