"""`page/lineage.json`: every file behind a page, with its digest and what made it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from stages.contracts.artifact import file_digest
from stages.contracts.finding import Source
from stages.contracts.lineage import COMPILED, INPUT, Lineage, MadeFile
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.passports import commits

_File = tuple[Path, str | None, str]
"""Path, digest where one was recorded, and what made it."""


def lineage(experiment: ExperimentFiles, sources: Iterable[Source]) -> Lineage:
    """The files of all runs, of the analysis, and those that the shown numbers and figures were computed from (`sources`). A file that is
    not here and whose digest was never recorded is left out. Paths are relative to the project."""
    recorded = {source.path: source for source in sources}
    files: dict[str, MadeFile] = {}
    for path, sha256, by in [*_analysis(experiment), *(entry for run in experiment.runs for entry in _run(run))]:
        name = path.as_posix()
        pin = recorded[name].sha256 if name in recorded else sha256
        if digest := pin or (file_digest(path) if path.is_file() else None):
            files.setdefault(name, MadeFile(path=name, sha256=digest, made_by=by))
    for name, source in recorded.items():
        by = f"attempt {source.attempt}" if source.attempt else "a stage"
        files.setdefault(name, MadeFile(path=name, sha256=source.sha256, made_by=by))
    commit = commits(experiment.runs)
    return Lineage(
        experiment=experiment.folder.name,
        commit=commit[0] if len(commit) == 1 else None,
        files=tuple(files[name] for name in sorted(files)),
    )


def _analysis(experiment: ExperimentFiles) -> Iterator[_File]:
    folder = experiment.folder
    for card in (folder.screen_card, folder.conclude_card, folder.draw_card):
        yield card, None, COMPILED
    yield folder.findings, None, "stage conclude"
    yield folder.preflight, None, "stage preflight"
    for drawing in experiment.drawings:
        yield drawing.svg, None, "stage draw"
        yield drawing.csv, None, "stage draw"


def _run(run: RunFiles) -> Iterator[_File]:
    folder = run.folder
    yield folder.import_card if run.import_card else folder.card, None, COMPILED
    if run.import_card and run.import_card.source.sha256:
        yield Path(run.import_card.source.path), run.import_card.source.sha256, INPUT
    if run.card and run.card.data.path and run.card.data.sha256:
        yield Path(run.card.data.path), run.card.data.sha256, INPUT
    by = f"attempt {run.outcome.attempt}" if run.outcome else "an attempt"
    for path in (folder.history, folder.completions, folder.imported, folder.outcome):
        yield path, None, by
    yield folder.health, None, "stage screen"
