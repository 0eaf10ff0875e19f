"""Passports: what a number, a verdict or a figure is, which runs and files it comes from, and how to compute it again.

`page/passports.js` holds them once. Its first and last line make it a script, because a page from the file system may load scripts and
nothing else; the lines between are JSON for programs. `octavo trace` prints the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any

from stages.contracts.artifact import ArtifactError, Frozen, digest
from stages.contracts.attempt import Attempt
from stages.contracts.figure import Figure
from stages.contracts.files import parse_json, read_text
from stages.contracts.finding import Finding, Source
from stages.publish import imported, numbers
from stages.publish.attempts import changes
from stages.publish.claims import ClaimView
from stages.publish.experiment import Drawing, ExperimentFiles, RunFiles
from stages.publish.facts import interval_text
from stages.publish.figures import files
from stages.publish.methods import judged_finding, judged_run, judged_words
from stages.publish.numbers import code_words
from stages.publish.rules import asked_by
from stages.publish.text import TEXTS, figure_id, script_literal, verdict_id

FILE = "passports.js"
_FIRST, _LAST = "octavo.passports(\n", ")\n"
Rows = tuple[tuple[str, str], ...]
"""Name and text, a line each."""
OTHER_FILES = "other files"
"""The record of files that belong to no run."""


class Seed(Frozen):
    run: str
    printed: str
    value: float | None
    included: bool
    why: str


class Behind(Frozen):
    """Files that a number was computed from, and the runs that have them; no runs when they are those of the seeds."""

    files: str
    runs: tuple[str, ...]


class Passport(Frozen):
    id: str
    printed: str
    says: str
    unit: str = ""
    rows: Rows = ()
    numbers: Rows = ()
    """Of a verdict or a figure: the id and the printed value of each number in it."""
    seeds: tuple[Seed, ...] = ()
    behind: tuple[Behind, ...] = ()
    spec: tuple[str, ...] = ()
    links: Rows = ()
    """Name and address of files beside the page."""
    values: dict[str, Any] = {}
    """For programs: the finding, the verdict with its rule, or the figure, without what stands above."""


class Record(Frozen):
    """Attempts, card, code and files of a run, for all numbers that rest on it."""

    rows: Rows
    files: tuple[Source, ...]


def passport(experiment: ExperimentFiles, finding: Finding) -> Passport:
    """A finding's passport."""
    runs, plain = experiment.runs_of_subject(finding.subject), plain_passport(finding)
    mappings = dict.fromkeys(imported.mapped((run.imported or run.import_card).read, finding.metric) for run in runs if run.import_card)
    decided = [verdict.claim for verdict in experiment.conclusions.verdicts if verdict.finding == finding.id]
    claims = (f"{experiment.origins.claims[claim]} claim {claim}" for claim in decided if claim in experiment.origins.claims)
    rows = _written(
        ("with excluded runs", "" if finding.with_all is None else numbers.number(finding.with_all, finding.unit)),
        ("older code", judged_words(judged_finding(experiment, finding))),
        *(("read from", text) for text in mappings),
    )
    seeds = zip(plain.seeds, finding.seeds, strict=True)
    own = {
        "rows": (*plain.rows, *rows),
        "seeds": tuple(seed.model_copy(update={"why": experiment.why_out(value)}) for seed, value in seeds),
        "behind": _behind(experiment, finding.sources, [run.ref.name for run in runs], {seed.run for seed in finding.seeds}),
        "spec": (*claims, *asked_by(experiment, finding)),
    }
    return plain.model_copy(update=own)


def plain_passport(finding: Finding) -> Passport:
    """What a finding says of itself, with all its files under `other files`: they may be those of two experiments."""
    level = f"{numbers.percent(finding.level)} interval" if finding.level is not None and finding.low is not None else ""
    counted = f"{finding.k} of {finding.n}" if finding.k is not None else f"n {finding.n}" if finding.n is not None else ""
    smallest = f"±{numbers.number(finding.detectable, finding.unit)}, with 80% power" if finding.detectable else ""
    digits = numbers.column_decimals((seed.value for seed in finding.seeds), most=4)
    return Passport(
        id=finding.id,
        printed=interval_text(finding),
        says=finding.says,
        unit=finding.unit,
        rows=_written(
            ("reason", finding.reason),
            ("how", "; ".join(part for part in (finding.method, level, counted, finding.window) if part)),
            ("smallest detectable", smallest),
        ),
        seeds=tuple(
            Seed(
                run=seed.run,
                printed=numbers.number(seed.value, finding.unit, decimals=digits),
                value=seed.value,
                included=seed.included,
                why=seed.why,
            )
            for seed in finding.seeds
        ),
        behind=(Behind(files=", ".join(source.path for source in finding.sources), runs=(OTHER_FILES,)),),
        values=finding.model_dump(mode="json", exclude={"id", "says", "unit", "seeds", "sources"}, exclude_defaults=True),
    )


def verdict_passport(experiment: ExperimentFiles, claim: ClaimView) -> Passport:
    """The rule of a claim and when it was written, the number that decides it, and the seeds and files of that number."""
    verdict = experiment.verdicts.get(claim.id)
    finding = experiment.findings.get(verdict.finding) if verdict and verdict.finding else None
    below = passport(experiment, finding) if finding else None
    rules = [rule for rule in experiment.conclude.claims if rule.id == claim.id] if experiment.conclude else []
    code = [f"code {code_words(experiment.conclude.code)}"] if experiment.conclude else []
    return Passport(
        id=verdict_id(claim.id),
        printed=TEXTS["verdicts"][claim.verdict],
        says=claim.says.replace("`", ""),
        rows=_written(
            ("why", claim.why),
            ("rule", claim.rule_says.replace("`", "")),
            ("rule written", claim.dated.written),
            ("decided by", ", ".join([recompute(experiment), f"analysis card {experiment.conclusions.card_id}", *code])),
        ),
        numbers=_numbers(experiment, [finding.id] if finding else []),
        seeds=below.seeds if below else (),
        behind=below.behind if below else (),
        spec=(f"{claim.place} claim {claim.id}",) if claim.place else (),
        values={
            "verdict": verdict.model_dump(mode="json", exclude_defaults=True) if verdict else None,
            "rule": rules[0].model_dump(mode="json", exclude_defaults=True) if rules else None,
        },
    )


def figure_passport(experiment: ExperimentFiles, drawing: Drawing) -> Passport:
    """What a figure shows, the numbers in it, the files that it was drawn from, and its table."""
    figure = drawing.figure
    digests = {name: digest(content) for name, content in files(drawing).items() if not name.endswith(".json")}
    shown = [(name, f"figures/{path.name}") for name, path in (("table", drawing.csv), ("picture", drawing.svg)) if path.exists()]
    draw = f"dvc repro --force --single-item {experiment.folder.pipeline}:draw"
    return Passport(
        id=figure_id(figure.name),
        printed=figure.title,
        says=figure.alternative,
        rows=_written(("drawn by", draw), ("marked", "; ".join(mark.says for mark in figure.marks))),
        numbers=_numbers(experiment, figure.findings),
        behind=_behind(experiment, figure.sources),
        spec=(experiment.card.spec,),
        links=tuple(shown),
        values={"files": digests},
    )


def _written(*rows: tuple[str, str]) -> Rows:
    return tuple((name, text) for name, text in rows if text)


def _numbers(experiment: ExperimentFiles, ids: Iterable[str]) -> Rows:
    computed = [experiment.findings[id_] for id_ in ids if id_ in experiment.findings]
    return tuple((finding.id, numbers.with_unit(interval_text(finding), finding.unit)) for finding in computed)


def _behind(
    experiment: ExperimentFiles, sources: Iterable[Source], runs: Iterable[str] = (), seeds: Set[str] = frozenset()
) -> tuple[Behind, ...]:
    """Files by the runs that have them; `runs` come first."""
    names: dict[str, list[str]] = {run: [] for run in runs}
    for source in sources:
        run, name = _owner(experiment, source)
        names.setdefault(run, []).append(name)
    groups: dict[str, list[str]] = {}
    for run, its_files in names.items():
        groups.setdefault(", ".join(its_files), []).append(run)
    return tuple(Behind(files=text, runs=() if set(group) == seeds else tuple(group)) for text, group in groups.items() if text)


def _owner(experiment: ExperimentFiles, source: Source) -> tuple[str, str]:
    """(run or `other files`, the file's name within it)."""
    folder = f"{experiment.folder.root.as_posix()}/"
    run, _, name = source.path.removeprefix(folder).partition("/")
    return (run, name) if source.path.startswith(folder) and run in experiment.by_name else (OTHER_FILES, source.path)


def recompute(experiment: ExperimentFiles) -> str:
    """The command that computes the experiment's findings again from its files."""
    return f"dvc repro --force --single-item {experiment.folder.pipeline}:conclude"


def records(experiment: ExperimentFiles, used: Iterable[Finding | Figure]) -> dict[str, Record]:
    """What passports refer to, by run: every run, with those of its files that numbers and figures in use were computed from."""
    owned = sources_by_run(experiment, (source for entry in used for source in entry.sources))
    by_run = {run.ref.name: Record(rows=run_rows(experiment, run), files=owned.get(run.ref.name, ())) for run in experiment.runs}
    return by_run | ({OTHER_FILES: Record(rows=(), files=owned[OTHER_FILES])} if OTHER_FILES in owned else {})


def sources_by_run(experiment: ExperimentFiles, sources: Iterable[Source]) -> dict[str, tuple[Source, ...]]:
    """Each file once; those of no run under `other files`."""
    owned: dict[str, dict[str, Source]] = {}
    for source in sources:
        owned.setdefault(_owner(experiment, source)[0], {})[source.path] = source
    return {run: tuple(files.values()) for run, files in owned.items()}


def run_rows(experiment: ExperimentFiles, run: RunFiles) -> Rows:
    """Attempts, card, code, inputs and place of a run."""
    card, place = run.card or run.import_card, experiment.origins.conditions.get(run.ref.condition)
    return _written(
        *((f"attempt {attempt.started.attempt}", _attempt(run, attempt)) for attempt in run.attempts),
        ("attempts", "" if run.attempts else "none"),
        ("card", run.outcome.card_id if run.outcome else ""),
        ("code", code_words(card.code) if card else ""),
        ("read from", imported.source(run)),
        ("data", f"{run.card.data.name}, {run.card.data.pin}" if run.card else ""),
        ("model", f"{run.card.model.base}, revision {run.card.model.revision}" if run.card else ""),
        ("spec", f"{place} condition {run.ref.condition}" if place else ""),
        *(
            ("older code", f"code of {', '.join(sorted(each.digests))} judged equal in its results by {each.who}, {each.at}: {each.why}")
            for each in judged_run(experiment, run)
        ),
    )


def _attempt(run: RunFiles, attempt: Attempt) -> str:
    start, end = attempt.started, attempt.ended
    ended = f"{attempt.state} at step {end.last_step} after {numbers.duration(end.seconds)}" if end else "killed: no end was written"
    stopped = f"stopped by {end.stopped.rule}" if end and end.stopped else ""
    why = f" ({end.failure.replace('_', ' ')})" if end and end.failure else ""
    origin = ("from the start" if start.resumed_from is None else f"from step {start.resumed_from}") + changes(start)
    mark = "made the files" if run.outcome and run.outcome.attempt == start.attempt else ""
    parts = (
        f"{ended}{why}",
        stopped,
        origin,
        f"began {start.at}",
        f"commit {start.commit or 'none'}",
        f"job {start.job}" if start.job else "",
        mark,
    )
    return ", ".join(part for part in parts if part)


def passports_json(experiment: ExperimentFiles, passports: Iterable[Passport], shared: Mapping[str, Record]) -> str:
    """JSON in ASCII with a passport or a record a line; no text in it can end a script element."""
    head = {"experiment": experiment.folder.name, "recompute": recompute(experiment), "analysis_card": experiment.conclusions.card_id}
    return passports_text(head, passports, shared)


def passports_text(head: Mapping[str, str], passports: Iterable[Passport], shared: Mapping[str, Record]) -> str:
    """The same for any owner of passports; `head` says whose they are and how they are computed again."""
    parts = [f'"{name}": {script_literal(text)}' for name, text in head.items()]
    for name, entries in (("passports", {entry.id: entry for entry in passports}), ("records", shared)):
        lines = [
            f"{script_literal(key)}: {script_literal(entry.model_dump(mode='json', exclude_defaults=True))}"
            for key, entry in entries.items()
        ]
        parts.append(f'"{name}": {{\n' + ",\n".join(lines) + "\n}")
    return "{" + ",\n".join(parts) + "}\n"


def passports_script(text: str) -> str:
    """`passports_json` as a script that a page loads."""
    return _FIRST + text + _LAST


def read_passports(path: Path) -> dict[str, Any]:
    """What `passports_json` wrote. Raises ArtifactError on a file that is missing or broken."""
    try:
        content: dict[str, Any] = parse_json(read_text(path).removeprefix(_FIRST).removesuffix(_LAST))
        return content
    except (OSError, ValueError) as error:
        raise ArtifactError(path, f"no passports: {error}", why="the page stage writes them", fix="dvc repro") from None


def finding_of(passport: Mapping[str, Any]) -> Finding:
    """The finding in a passport that was read, without its seeds and sources."""
    return Finding(id=passport["id"], says=passport["says"], unit=passport.get("unit", ""), **{"value": None, **passport["values"]})
