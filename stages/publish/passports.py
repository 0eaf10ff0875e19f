"""Passports: for each number on a page, what it is, which runs and attempts made it, from which files, and how to recompute it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stages.contracts.finding import Finding
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.facts import interval_text
from stages.publish.text import slug


@dataclass(frozen=True)
class SeedLine:
    run: str
    seed: int
    value: str
    included: bool
    why: str
    attempts: str


@dataclass(frozen=True)
class FileLine:
    path: str
    sha256: str
    attempt: str


@dataclass(frozen=True)
class Passport:
    anchor: str
    id: str
    value: str
    unit: str
    says: str
    facts: tuple[tuple[str, str], ...]
    """Name and text of what describes the number, a line each."""
    pins: tuple[tuple[str, str], ...]
    """Name and text of the cards, code and commit behind it."""
    seeds: tuple[SeedLine, ...]
    files: tuple[FileLine, ...]
    spec: tuple[str, ...]
    command: str


def passport(experiment: ExperimentFiles, finding: Finding) -> Passport:
    """A finding's passport."""
    runs = experiment.runs_of_subject(finding.subject)
    lines = [("reason", finding.reason), ("statistic", finding.statistic), ("window", finding.window), ("how", finding.method)]
    if finding.level is not None and finding.low is not None:
        lines.append(("level", numbers.percent(finding.level)))
    if finding.k is not None:
        lines.append(("counted", f"{finding.k} of {finding.n}"))
    elif finding.n is not None:
        lines.append(("n", str(finding.n)))
    if finding.with_all is not None:
        lines.append(("with excluded runs", numbers.number(finding.with_all, finding.unit)))
    pins = [("cards", ", ".join(_card_ids(runs))), ("analysis card", experiment.conclusions.card_id)]
    pins += [("code", ", ".join(sorted({run.card.code_hash for run in runs if run.card}))), ("commit", ", ".join(commits(runs)))]
    return Passport(
        anchor=slug(finding.id),
        id=finding.id,
        value=interval_text(finding),
        unit=finding.unit,
        says=finding.says,
        facts=tuple((name, text) for name, text in lines if text),
        pins=tuple((name, text) for name, text in pins if text),
        seeds=tuple(_seed(experiment, finding, index) for index in range(len(finding.seeds))),
        files=tuple(FileLine(source.path, source.sha256, source.attempt or "") for source in finding.sources),
        spec=spec_places(experiment, finding),
        command=recompute(experiment),
    )


def _seed(experiment: ExperimentFiles, finding: Finding, index: int) -> SeedLine:
    seed = finding.seeds[index]
    run = experiment.by_name.get(seed.run)
    states = [attempt.state for attempt in run.attempts] if run else []
    return SeedLine(
        run=seed.run,
        seed=seed.seed,
        value=numbers.number(seed.value, finding.unit),
        included=seed.included,
        why=seed.why,
        attempts=", ".join(states) if states else numbers.NONE,
    )


def _card_ids(runs: tuple[RunFiles, ...]) -> list[str]:
    return sorted({run.outcome.card_id for run in runs if run.outcome})


def commits(runs: tuple[RunFiles, ...]) -> list[str]:
    """Git commits of the attempts that made the runs' files."""
    found: dict[str, None] = {}
    for run in runs:
        for attempt in run.attempts:
            if attempt.started.commit and (run.outcome is None or attempt.started.attempt == run.outcome.attempt):
                found[attempt.started.commit] = None
    return list(found)


def spec_places(experiment: ExperimentFiles, finding: Finding) -> tuple[str, ...]:
    """Where the spec asks for this number: claims that rest on it, and the conditions it is about."""
    places = [
        f"{experiment.origins.claims[verdict.claim]} claim {verdict.claim}"
        for verdict in experiment.conclusions.verdicts
        if verdict.finding == finding.id and verdict.claim in experiment.origins.claims
    ]
    for name in dict.fromkeys(run.ref.condition for run in experiment.runs_of_subject(finding.subject)):
        if name in experiment.origins.conditions:
            places.append(f"{experiment.origins.conditions[name]} condition {name}")
    return tuple(places)


def recompute(experiment: ExperimentFiles) -> str:
    """The command that computes the experiment's findings again from its files."""
    return f"dvc repro --force --single-item {experiment.folder.pipeline}:conclude"


def passport_json(experiment: ExperimentFiles, finding: Finding) -> dict[str, Any]:
    """A passport for machines: the finding itself, with the ledger, cards, code and spec places around it."""
    runs = experiment.runs_of_subject(finding.subject)
    return {
        "finding": finding.model_dump(mode="json"),
        "printed": interval_text(finding),
        "runs": {
            run.ref.name: {
                "attempts": [{"attempt": a.started.attempt, "state": a.state, "commit": a.started.commit} for a in run.attempts],
                "card_id": run.outcome.card_id if run.outcome else None,
                "code_hash": run.card.code_hash if run.card else None,
            }
            for run in runs
        },
        "analysis_card": experiment.conclusions.card_id,
        "spec": list(spec_places(experiment, finding)),
        "command": recompute(experiment),
    }
