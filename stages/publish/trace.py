"""The way back from a number, a figure, a run or a page: to seeds, attempts, files, cards, code, the line of the spec, and data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stages.contracts.algorithms import AnyTrainCard
from stages.contracts.artifact import file_digest, read
from stages.contracts.finding import Finding
from stages.contracts.import_card import ImportCard
from stages.contracts.lineage import Lineage
from stages.contracts.stage import card_id
from stages.publish import imported, judged, numbers
from stages.publish.attempts import changes
from stages.publish.experiment import Drawing, ExperimentFiles, RunFiles, load
from stages.publish.facts import did_you_mean, interval_text
from stages.publish.numbers import setting
from stages.publish.passports import recompute, spec_places
from stages.publish.settings import flat
from stages.publish.text import reveal_hidden


def trace(folder: Path, what: str) -> str:
    """Text for a terminal about a finding id, a claim id, a run, a figure, or `page`, of the experiment in `folder`.

    Raises KeyError with the nearest known names when `what` is none of them, ArtifactError when the experiment has no files.
    """
    experiment = load(folder, concluded=False)
    if what == "page":
        lines = _page(experiment)
    elif what in experiment.by_name:
        lines = _run(experiment, experiment.by_name[what])
    elif what in experiment.findings:
        lines = _finding(experiment, experiment.findings[what])
    elif (claim := what.removeprefix("verdict/")) in experiment.verdicts:
        lines = _claim(experiment, claim)
    elif (name := what.removeprefix("figure/")) in (figures := {drawing.figure.name: drawing for drawing in experiment.drawings}):
        lines = _figure(experiment, figures[name])
    else:
        raise KeyError(did_you_mean(what, ["page", *experiment.by_name, *experiment.verdicts, *figures, *experiment.findings]))
    return reveal_hidden("\n".join(lines)) + "\n"


def _finding(experiment: ExperimentFiles, finding: Finding) -> Iterator[str]:
    yield finding.id
    level = f"   {numbers.percent(finding.level)} interval" if finding.level is not None and finding.low is not None else ""
    yield f"  {interval_text(finding)}   {finding.unit}{level}"
    yield f"  {finding.says}"
    if finding.reason:
        yield f"  no value: {finding.reason}"
    counted = f"{finding.k} of {finding.n}" if finding.k is not None else str(finding.n) if finding.n is not None else ""
    with_all = numbers.number(finding.with_all, finding.unit) if finding.with_all is not None else ""
    pairs = [("how", finding.method), ("window", finding.window), ("n", counted), ("with excluded runs", with_all)]
    yield from _table("value", [pair for pair in pairs if pair[1]])
    runs = experiment.runs_of_subject(finding.subject)
    if finding.seeds or runs:
        yield from ("", "runs and their attempts")
        seeds = {seed.run: seed for seed in finding.seeds}
        for run in runs:
            seed = seeds.get(run.ref.name)
            value = numbers.number(seed.value, finding.unit) if seed else ""
            counts = "" if seed is None else "counts" if seed.included else f"left out: {seed.why}"
            yield "  " + "   ".join(part for part in (run.ref.name, value, counts) if part)
            yield from _attempts(run)
    yield from _imported(runs, finding.metric)
    yield from _table("files, against what is on disk now", [_file(source.path, source.sha256) for source in finding.sources])
    yield from _behind(experiment, runs)
    yield from _table("spec", [(place.split(" ", 1)[0], place.split(" ", 1)[1]) for place in spec_places(experiment, finding)])
    yield from _data(runs)
    yield from ("", "recompute", f"  {recompute(experiment)}")


def _claim(experiment: ExperimentFiles, claim: str) -> Iterator[str]:
    verdict = experiment.verdicts[claim]
    says = next((words.says for words in experiment.card.claims if words.id == claim), "")
    yield f"claim {claim}: {verdict.verdict}"
    yield f"  {says}"
    yield f"  {verdict.why}"
    place = experiment.origins.claims.get(claim)
    yield from _table("spec", [(place.position, "the rule")] if place else [])
    if verdict.finding and verdict.finding in experiment.findings:
        yield ""
        yield from _finding(experiment, experiment.findings[verdict.finding])


def _run(experiment: ExperimentFiles, run: RunFiles) -> Iterator[str]:
    yield f"{run.ref.name}   condition {run.ref.condition}, seed {run.ref.seed}"
    done = f", {run.outcome.steps_done} of {run.outcome.target_steps} steps" if run.outcome else ""
    yield f"  {run.state}{done}"
    if run.outcome and run.outcome.error:
        yield f"  {(run.outcome.failure or '').replace('_', ' ')}: {' '.join(run.outcome.error.split())}"
    if run.health:
        yield "  counts in findings" if run.included else f"  left out: {'; '.join(run.health.reasons)}"
    yield from ("", "attempts")
    yield from _attempts(run) if run.attempts else ["    none"]
    yield from _imported((run,), "")
    known = {source.path: source.sha256 for finding in experiment.findings.values() for source in finding.sources}
    paths = [run.folder.history, run.folder.completions, run.folder.evaluation, run.folder.outcome, run.folder.health]
    yield from _table("files, against what the findings were computed from", [_file(p.as_posix(), known.get(p.as_posix())) for p in paths])
    yield from _behind(experiment, (run,))
    if run.card:
        yield from _table("settings", list(_settings(experiment, run, run.card)))
    place = experiment.origins.conditions.get(run.ref.condition)
    yield from _table("spec", [(place.position, f"condition {run.ref.condition}")] if place else [])
    yield from _data((run,))
    reads = run.import_card is not None and run.import_card.command is None
    stage = f"{experiment.folder.pipeline}:{'import' if reads else 'train'}-{run.ref.name}"
    yield from ("", "read again" if reads else "train again", f"  dvc repro {stage}")


def _figure(experiment: ExperimentFiles, drawing: Drawing) -> Iterator[str]:
    figure = drawing.figure
    yield f"figure {figure.name}   {figure.title}"
    yield f"  {figure.alternative}"
    numbers_drawn = [(interval_text(found), found.id) for id_ in figure.findings if (found := experiment.findings.get(id_))]
    yield from _table("findings that it draws", numbers_drawn)
    yield from _table("its files", [_file(path.as_posix(), file_digest(path)) for path in (drawing.svg, drawing.csv) if path.exists()])
    yield from _table("made from, against what is on disk now", [_file(source.path, source.sha256) for source in figure.sources])
    runs = tuple(run for run in experiment.runs if any(source.path.startswith(f"{run.folder.root}/") for source in figure.sources))
    for run in runs:
        yield from ("", run.ref.name)
        yield from _attempts(run)
    yield from _behind(experiment, runs)
    yield from ("", "draw again", f"  dvc repro --force --single-item {experiment.folder.pipeline}:draw")


def _page(experiment: ExperimentFiles) -> Iterator[str]:
    folder = experiment.folder
    yield f"{folder.page / 'index.md'}   {experiment.card.title}"
    if not (folder.page / "lineage.json").exists():
        yield "  the page has not been built: dvc repro " + folder.pipeline.as_posix()
        return
    lineage = read(Lineage, folder.page / "lineage.json")
    kinds: dict[str, int] = {}
    for node in lineage.nodes:
        kinds[node.kind] = kinds.get(node.kind, 0) + 1
    yield "  " + ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    verdicts = [(claim, f"{verdict.verdict}   {verdict.finding or 'no finding'}") for claim, verdict in experiment.verdicts.items()]
    yield from _table("claims", verdicts)
    yield from _table(
        "code judged equal",
        [(judged.units(line), f"{line.who}, {line.at}: {line.why}") for line in judged.behind_page(experiment)],
    )
    files = [_file(node.path, node.sha256) for node in lineage.nodes if node.kind in ("file", "card", "data") and node.path]
    changed = [line for line in files if line[0] != "same"]
    yield from _table("files that changed since the page was built", changed or [("none", f"{len(files)} files are the same")])
    runs = [(run.ref.name, f"{run.state}, {'counts' if run.included else 'left out'}") for run in experiment.runs]
    yield from _table("runs", runs)
    yield from _table("spec", [(experiment.card.spec, "")])
    yield from ("", "build again", f"  dvc repro {folder.pipeline}:page")


def _attempts(run: RunFiles) -> Iterator[str]:
    for attempt in run.attempts:
        start, end = attempt.started, attempt.ended
        how = f"{attempt.state} at step {end.last_step} after {numbers.duration(end.seconds)}" if end else "killed: no end was written"
        if end and end.stopped:
            how += f", stopped by {end.stopped.rule}"
        why = f" ({end.failure.replace('_', ' ')})" if end and end.failure else ""
        origin = ("the start" if start.resumed_from is None else f"step {start.resumed_from}") + changes(start)
        mark = "made the files" if run.outcome and run.outcome.attempt == start.attempt else ""
        parts = (start.attempt, f"{how}{why}", f"from {origin}", start.at, f"commit {start.commit or 'none'}", mark)
        yield "    " + "   ".join(part for part in parts if part)


def _file(path: str, recorded: str | None) -> tuple[str, str]:
    """(same, CHANGED, missing or not recorded; path and digest)."""
    now = file_digest(Path(path)) if Path(path).exists() else None
    if now is None:
        return "missing", f"{path}   sha256 {(recorded or 'never recorded')[:16]}"
    if recorded is None:
        return "here", f"{path}   sha256 {now[:16]}, not used by a finding"
    if now == recorded:
        return "same", f"{path}   sha256 {now[:16]}"
    return "CHANGED", f"{path}   sha256 {now[:16]}, was {recorded[:16]}"


def _behind(experiment: ExperimentFiles, runs: tuple[RunFiles, ...]) -> Iterator[str]:
    found: dict[tuple[str, str], None] = {}
    for run in runs:
        card = run.card or run.import_card
        if card:
            made = run.outcome.card_id if run.outcome else ""
            now = card_id(card)
            note = "" if made in ("", now) else f", the files were made from card {made}"
            found[(f"{'train' if run.card else 'import'} {run.ref.name}", f"card {now}   code {judged.versions(card.code)}{note}")] = None
            for line in judged.behind_run(experiment, run):
                found[(f"  {run.ref.name}", judged.line(line))] = None
    if experiment.conclude:
        found[("conclude", f"card {card_id(experiment.conclude)}   code {judged.versions(experiment.conclude.code)}")] = None
    yield from _table("cards and code", list(found))


def _imported(runs: tuple[RunFiles, ...], metric: str) -> Iterator[str]:
    """The files that runs were imported from, whether they are still the same, and what of them became the metric."""
    read = [(run, run.import_card) for run in runs if run.import_card]
    yield from _table("imported from, against what is on disk now", [_source(run, card) for run, card in read])
    mappings = {text: None for _, card in read if (text := imported.mapped(card, metric))}
    yield from _table("read as", [(metric, text) for text in mappings])


def _source(run: RunFiles, card: ImportCard) -> tuple[str, str]:
    if card.command is not None:
        return run.ref.name, imported.source(run)
    state, _ = _file(card.source.path, card.source.sha256)
    return f"{state}   {run.ref.name}", imported.source(run)


def _settings(experiment: ExperimentFiles, run: RunFiles, card: AnyTrainCard) -> Iterator[tuple[str, str]]:
    values = {pointer: setting(value) for pointer, value in flat(card, "train").items()}
    width = max(len(text) for text in values.values())
    for pointer, text in values.items():
        origin = experiment.origin(run.ref, pointer)
        yield pointer.removeprefix("/train/").replace("/", "."), f"{text:<{width}}   {origin.position if origin else 'not traced'}"


def _data(runs: tuple[RunFiles, ...]) -> Iterator[str]:
    found: dict[tuple[str, str], None] = {}
    for run in runs:
        if run.card:
            data = run.card.data
            found[("hub", f"{data.name}   {data.pin}") if data.hub else _file(data.name, data.sha256)] = None
            found[("model", f"{run.card.model.base}   revision {run.card.model.revision}")] = None
    yield from _table("data and model", list(found))


def _table(title: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    if rows:
        width = max(len(name) for name, _ in rows)
        yield from ("", title)
        yield from (f"  {name:<{width}}   {text}".rstrip() for name, text in rows)
