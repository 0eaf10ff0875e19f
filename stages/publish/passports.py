"""Passports: for each number on a page, what it is, which runs and attempts made it, from which files, and how to recompute it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from stages.contracts.figure import Figure
from stages.contracts.finding import Finding, SeedValue, Source
from stages.publish import imported, judged, numbers
from stages.publish.exclusions import why
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.facts import interval_text
from stages.publish.rules import asked_by
from stages.publish.text import slug


@dataclass(frozen=True)
class SeedLine:
    anchor: str
    run: str
    value: str
    included: bool
    why: str


@dataclass(frozen=True)
class FileLine:
    name: str
    path: str
    sha256: str
    attempt: str


@dataclass(frozen=True)
class Behind:
    """Files that a number was computed from, and the runs (anchor, name) that have them; no runs when the seeds name them."""

    files: str
    runs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Passport:
    """What is particular to one number; what it shares with others is in the records of its runs."""

    anchor: str
    id: str
    value: str
    unit: str
    says: str
    facts: tuple[tuple[str, str], ...]
    """Name and text of what describes the number, a line each."""
    seeds: tuple[SeedLine, ...]
    behind: tuple[Behind, ...]
    spec: tuple[str, ...]
    draws: tuple[tuple[str, str, str], ...] = ()
    """Of a figure and a verdict: anchor, id and value of the numbers in it; no anchor where the page does not show the number."""
    links: tuple[tuple[str, str], ...] = ()
    """Name and address of files beside the page."""


@dataclass(frozen=True)
class Record:
    """Attempts, card, code and files of a run, written once for all numbers that rest on it."""

    anchor: str
    name: str
    pins: tuple[tuple[str, str], ...]
    files: tuple[FileLine, ...]


_NO_RUN = "other files"


def passport(experiment: ExperimentFiles, finding: Finding) -> Passport:
    """A finding's passport."""
    level = f"{numbers.percent(finding.level)} interval" if finding.level is not None and finding.low is not None else ""
    counted = f"{finding.k} of {finding.n}" if finding.k is not None else f"n {finding.n}" if finding.n is not None else ""
    lines = [("reason", finding.reason), ("how", "; ".join(part for part in (finding.method, level, counted, finding.window) if part))]
    if finding.detectable:
        lines.append(("would have shown", f"a change from ±{numbers.number(finding.detectable, finding.unit)} on, four times of five"))
    if finding.with_all is not None:
        lines.append(("with excluded runs", numbers.number(finding.with_all, finding.unit)))
    lines.append(("code judged equal", judged.short(judged.behind_finding(experiment, finding))))
    imports = [run.import_card for run in experiment.runs_of_subject(finding.subject) if run.import_card]
    lines += [("read from", text) for text in dict.fromkeys(imported.mapped(card, finding.metric) for card in imports)]
    digits = numbers.column_decimals(((seed.value, None, None) for seed in finding.seeds), most=4)

    def value(seed: SeedValue) -> str:
        return numbers.number(seed.value, finding.unit, decimals=digits)

    return Passport(
        anchor=slug(finding.id),
        id=finding.id,
        value=interval_text(finding),
        unit=finding.unit,
        says=finding.says,
        facts=tuple((name, text) for name, text in lines if text),
        seeds=tuple(SeedLine(_anchor(seed.run), seed.run, value(seed), seed.included, why(experiment, seed)) for seed in finding.seeds),
        behind=behind(experiment, finding.sources, [run.ref.name for run in experiment.runs_of_subject(finding.subject)], finding.seeds),
        spec=(*_claims(experiment, finding), *asked_by(experiment, finding)),
    )


def behind(
    experiment: ExperimentFiles, sources: Iterable[Source], runs: Iterable[str], named: Iterable[SeedValue] = ()
) -> tuple[Behind, ...]:
    """Files by the runs that have them; `runs` come first, and runs that the seeds name already are not named again."""
    files: dict[str, list[str]] = {run: [] for run in runs}
    for source in sources:
        run, name = _owner(experiment, source)
        files.setdefault(run, []).append(name)
    groups: dict[str, list[str]] = {}
    for run, names in files.items():
        groups.setdefault(", ".join(names), []).append(run)
    seeds = {seed.run for seed in named}
    return tuple(
        Behind(names, () if set(of) == seeds else tuple((_anchor(run), run) for run in of)) for names, of in groups.items() if names
    )


def _owner(experiment: ExperimentFiles, source: Source) -> tuple[str, str]:
    """(run or `other files`, the file's name within it)."""
    folder = f"{experiment.folder.root.as_posix()}/"
    run, _, name = source.path.removeprefix(folder).partition("/")
    return (run, name) if source.path.startswith(folder) and run in experiment.by_name else (_NO_RUN, source.path)


def _anchor(run: str) -> str:
    return "behind-" + run.replace(" ", "-")


def records(experiment: ExperimentFiles, used: Iterable[Finding | Figure]) -> tuple[Record, ...]:
    """What the passports of `used` refer to, in the order of runs."""
    files: dict[str, dict[str, FileLine]] = {run.ref.name: {} for run in experiment.runs}
    for door in used:
        for source in door.sources:
            run, name = _owner(experiment, source)
            files.setdefault(run, {})[name] = FileLine(name, source.path, source.sha256, source.attempt or "")
    made = [
        Record(_anchor(run.ref.name), run.ref.name, _pins(experiment, run), tuple(files[run.ref.name].values())) for run in experiment.runs
    ]
    if _NO_RUN in files:
        made.append(Record(_anchor(_NO_RUN), _NO_RUN, (), tuple(files[_NO_RUN].values())))
    return tuple(made)


def _pins(experiment: ExperimentFiles, run: RunFiles) -> tuple[tuple[str, str], ...]:
    place = experiment.origins.conditions.get(run.ref.condition)
    pins = (
        ("attempts", ", ".join(f"{attempt.started.attempt} {attempt.state}" for attempt in run.attempts) or "none"),
        ("card", run.outcome.card_id if run.outcome else ""),
        ("code", judged.versions(made.code) if (made := run.card or run.import_card) else ""),
        ("commit", ", ".join(commits((run,)))),
        ("read from", imported.source(run)),
        ("spec", f"{place} condition {run.ref.condition}" if place else ""),
        *(("code judged equal", judged.line(line)) for line in judged.behind_run(experiment, run)),
    )
    return tuple((name, text) for name, text in pins if text)


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
    places = [*_claims(experiment, finding), *asked_by(experiment, finding)]
    for name in dict.fromkeys(run.ref.condition for run in experiment.runs_of_subject(finding.subject)):
        if name in experiment.origins.conditions:
            places.append(f"{experiment.origins.conditions[name]} condition {name}")
    return tuple(places)


def _claims(experiment: ExperimentFiles, finding: Finding) -> tuple[str, ...]:
    return tuple(
        f"{experiment.origins.claims[verdict.claim]} claim {verdict.claim}"
        for verdict in experiment.conclusions.verdicts
        if verdict.finding == finding.id and verdict.claim in experiment.origins.claims
    )


def recompute(experiment: ExperimentFiles) -> str:
    """The command that computes the experiment's findings again from its files."""
    return f"dvc repro --force --single-item {experiment.folder.pipeline}:conclude"


def passport_json(experiment: ExperimentFiles, finding: Finding) -> dict[str, Any]:
    """A passport for machines: the finding itself, with the ledger, cards, code and spec places around it."""
    runs = experiment.runs_of_subject(finding.subject)
    judgements = [line.model_dump(mode="json") for line in judged.behind_finding(experiment, finding)]
    return {
        "finding": finding.model_dump(mode="json"),
        "printed": interval_text(finding),
        "runs": {
            run.ref.name: {
                "attempts": [{"attempt": a.started.attempt, "state": a.state, "commit": a.started.commit} for a in run.attempts],
                "card_id": run.outcome.card_id if run.outcome else None,
                "code": made.code if (made := run.card or run.import_card) else None,
                **imported.for_programs(run, finding.metric),
            }
            for run in runs
        },
        "analysis_card": experiment.conclusions.card_id,
        "spec": list(spec_places(experiment, finding)),
        "command": recompute(experiment),
        **({"judged": judgements} if judgements else {}),
    }
