"""`octavo trace`: the passport of a number, a figure, a verdict or a run in a terminal, with its files held against the disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from stages.contracts.artifact import read
from stages.contracts.files import file_digest
from stages.contracts.finding import Source
from stages.contracts.lineage import Lineage
from stages.contracts.stage import card_id
from stages.publish.claims import claim_views
from stages.publish.experiment import Drawing, ExperimentFiles, RunFiles, load
from stages.publish.facts import Facts, did_you_mean
from stages.publish.methods import flat, judged_page, setting_key
from stages.publish.numbers import code_words, setting
from stages.publish.passports import OTHER_FILES, Passport, figure_passport, passport, recompute, run_rows, sources_by_run, verdict_passport
from stages.publish.text import reveal_hidden


def trace(folder: Path, what: str) -> str:
    """Text for a terminal about a finding id, a claim id, a run, a figure, or `page`, of the experiment in `folder`.

    Raises KeyError with the nearest known names when `what` is none of them, ArtifactError when the experiment has no files.
    """
    experiment = load(folder, concluded=False)
    drawings = {drawing.figure.name: drawing for drawing in experiment.drawings}
    name = what.partition("/")[2] if what.startswith(("verdict/", "figure/")) else what
    if what == "page":
        lines = _page(experiment)
    elif what in experiment.by_name:
        lines = _run(experiment, experiment.by_name[what])
    elif what in experiment.findings:
        lines = _finding(experiment, what)
    elif name in experiment.verdicts:
        lines = _claim(experiment, name)
    elif name in drawings:
        lines = _figure(experiment, drawings[name])
    else:
        raise KeyError(did_you_mean(what, ["page", *experiment.by_name, *experiment.verdicts, *drawings, *experiment.findings]))
    return reveal_hidden("\n".join(lines)) + "\n"


def _finding(experiment: ExperimentFiles, name: str) -> Iterator[str]:
    finding = experiment.findings[name]
    yield from _passport(passport(experiment, finding))
    runs = [run.ref.name for run in experiment.runs_of_subject(finding.subject)]
    yield from _records(experiment, runs or [seed.run for seed in finding.seeds], finding.sources)
    yield from _analysis(experiment)


def _claim(experiment: ExperimentFiles, name: str) -> Iterator[str]:
    views = {view.id: view for view in claim_views(experiment, Facts(experiment.findings))}
    if name in views:
        yield from _passport(verdict_passport(experiment, views[name]))
    finding = experiment.verdicts[name].finding
    if finding and finding in experiment.findings:
        yield ""
        yield from _finding(experiment, finding)


def _figure(experiment: ExperimentFiles, drawing: Drawing) -> Iterator[str]:
    sources = drawing.figure.sources
    yield from _passport(figure_passport(experiment, drawing))
    yield from _table("its files", [_file(path.as_posix(), file_digest(path)) for path in (drawing.svg, drawing.csv) if path.exists()])
    runs = [run.ref.name for run in experiment.runs if any(source.path.startswith(f"{run.folder.root}/") for source in sources)]
    yield from _records(experiment, runs, sources)


def _run(experiment: ExperimentFiles, run: RunFiles) -> Iterator[str]:
    yield f"{run.ref.name}   condition {run.ref.condition}, seed {run.ref.seed}"
    done = f", {run.outcome.steps_done} of {run.outcome.target_steps} steps" if run.outcome else ""
    yield f"  {run.state}{done}"
    if run.outcome and run.outcome.error:
        yield f"  {(run.outcome.failure or '').replace('_', ' ')}: {' '.join(run.outcome.error.split())}"
    if run.health:
        yield "  counts in findings" if run.included else f"  left out: {'; '.join(run.health.reasons)}"
    yield from _table("the run", run_rows(experiment, run))
    recorded = {source.path: source.sha256 for finding in experiment.findings.values() for source in finding.sources}
    paths = (run.folder.history, run.folder.completions, run.folder.evaluation, run.folder.outcome, run.folder.health)
    files = [_file(path.as_posix(), recorded.get(path.as_posix())) for path in paths]
    yield from _table("files, against what the findings were computed from", [*files, *_inputs(run)])
    settings = {pointer: setting(value) for pointer, value in flat(run.card, "train").items()} if run.card else {}
    width = max(map(len, settings.values()), default=0)
    places = {pointer: place.position if (place := experiment.origin(run.ref, pointer)) else "not traced" for pointer in settings}
    rows = [(setting_key(pointer, "train"), f"{text:<{width}}   {places[pointer]}") for pointer, text in settings.items()]
    yield from _table("settings", rows)
    reads = run.import_card is not None and run.import_card.command is None
    stage = f"{experiment.folder.pipeline}:{'import' if reads else 'train'}-{run.ref.name}"
    yield from ("", "read again" if reads else "train again", f"  dvc repro {stage}")


def _page(experiment: ExperimentFiles) -> Iterator[str]:
    folder = experiment.folder
    yield f"{folder.page / 'index.md'}   {experiment.card.title}"
    if not (folder.page / "lineage.json").exists():
        yield "  the page has not been built: dvc repro " + folder.pipeline.as_posix()
        return
    verdicts = [(claim, f"{verdict.verdict}   {verdict.finding or 'no finding'}") for claim, verdict in experiment.verdicts.items()]
    yield from _table("claims", verdicts)
    lines = [(", ".join(sorted(line.digests)), f"{line.who}, {line.at}: {line.why}") for line in judged_page(experiment)]
    yield from _table("code judged equal", lines)
    files = read(Lineage, folder.page / "lineage.json").files
    changed = [
        (state, f"{text}, made by {file.made_by}") for file in files for state, text in [_file(file.path, file.sha256)] if state != "same"
    ]
    yield from _table("files that changed since the page was built", changed or [("none", f"{len(files)} files are the same")])
    yield from _table("runs", [(run.ref.name, f"{run.state}, {'counts' if run.included else 'left out'}") for run in experiment.runs])
    yield from _table("spec", [(experiment.card.spec, "")])
    yield from ("", "build again", f"  dvc repro {folder.pipeline}:page")


def _passport(entry: Passport) -> Iterator[str]:
    yield entry.id
    yield "  " + "   ".join(part for part in (entry.printed, entry.unit) if part)
    yield f"  {entry.says}"
    yield from _table("what it is", entry.rows)
    yield from _table("numbers", entry.numbers)
    seeds = [(seed.run, seed.printed + ("" if seed.included else f"   left out: {seed.why}")) for seed in entry.seeds]
    yield from _table("seeds", seeds)
    yield from _table("spec", [(place, "") for place in entry.spec])


def _records(experiment: ExperimentFiles, runs: Iterable[str], sources: Sequence[Source]) -> Iterator[str]:
    """Attempts, card, code and files of the runs; the files of no run last."""
    owned = sources_by_run(experiment, sources)
    for name in dict.fromkeys((*runs, *(name for name in owned if name != OTHER_FILES))):
        run = experiment.by_name[name]
        yield from _table(name, [*run_rows(experiment, run), *(_file(s.path, s.sha256) for s in owned.get(name, ())), *_inputs(run)])
    yield from _table(OTHER_FILES, [_file(source.path, source.sha256) for source in owned.get(OTHER_FILES, ())])


def _inputs(run: RunFiles) -> Iterator[tuple[str, str]]:
    """The data or the log of a run against the disk, and the card where the run was made from another one."""
    if run.card and run.card.data.path and run.card.data.sha256:
        yield _file(run.card.data.path, run.card.data.sha256)
    if run.import_card and run.import_card.command is None:
        yield from (_file(source.path, source.sha256) for source in run.import_card.sources)
    card = run.card or run.import_card
    if card and run.outcome and card_id(card) != run.outcome.card_id:
        yield "card now", f"{card_id(card)}, not the one that the files were made from"


def _analysis(experiment: ExperimentFiles) -> Iterator[str]:
    if experiment.conclude:
        yield from _table("analysis", [("card", card_id(experiment.conclude)), ("code", code_words(experiment.conclude.code))])
    yield from ("", "recompute", f"  {recompute(experiment)}")


def _file(path: str, recorded: str | None) -> tuple[str, str]:
    """(same, CHANGED, missing or here; path and digest)."""
    now = file_digest(Path(path)) if Path(path).exists() else None
    if now is None:
        return "missing", f"{path}   sha256 {(recorded or 'never recorded')[:16]}"
    if recorded is None:
        return "here", f"{path}   sha256 {now[:16]}, not used by a finding"
    return ("same", f"{path}   sha256 {now[:16]}") if now == recorded else ("CHANGED", f"{path}   sha256 {now[:16]}, was {recorded[:16]}")


def _table(title: str, rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    listed = list(rows)
    if listed:
        width = max(len(row[0]) for row in listed)
        yield from ("", title)
        yield from (f"  {row[0]:<{width}}   {row[1]}".rstrip() for row in listed)
