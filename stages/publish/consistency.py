"""Files of one experiment that name each other: ledger, outcome, tables and lineage must agree, and imports must repeat."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from stages.contracts.algorithms import AnyTrainCard
from stages.contracts.artifact import ArtifactError, read
from stages.contracts.attempt import Outcome, read_attempts
from stages.contracts.files import PROJECT, FileRefused, file_digest, read_bytes
from stages.contracts.import_card import ImportCard
from stages.contracts.layout import ExperimentFolder, RunFolder
from stages.contracts.lineage import Lineage, MadeFile
from stages.contracts.page_card import PageCard
from stages.contracts.stage import ROOT, card_id
from stages.publish.numbers import listed
from stages.publish.verification import LIMIT, Comparison, Difference

_IMPORT_AGAIN = "stages.train.collect"
_FEW = 3
T = TypeVar("T")


def contradictions(experiment: ExperimentFolder) -> tuple[list[Difference], dict[str, int]]:
    """(files that contradict each other or cannot be read, counts of what was compared). A missing file is no contradiction: locks and
    stages miss it."""
    problems = list[Difference]()
    runs = _read(lambda: read(PageCard, experiment.page_card).runs, problems)
    for ref in runs:
        problems += _read(partial(_run, experiment.run(ref.name)), problems)
    lineage = experiment.page / "lineage.json"
    files = _read(lambda: read(Lineage, lineage).files, problems) if lineage.exists() else []
    for file in files:
        problems += _read(partial(_pinned, file), problems)
    return problems, {"runs": len(runs), "files of the lineage": len(files)}


def _read(files: Callable[[], Iterable[T]], problems: list[Difference]) -> list[T]:
    """What the files give; nothing, and a problem, where one of them cannot be read."""
    try:
        return list(files())
    except ArtifactError as error:
        problems.append(Difference(code="S495", path=error.path, what=error.what, fix=error.fix))
    except FileRefused as error:
        problems.append(Difference(code="S495", path=str(error.filename), what=str(error.strerror), fix=error.fix))
    return []


def _pinned(file: MadeFile) -> Iterator[Difference]:
    path = Path(file.path)
    now = file_digest(path) if path.exists() else file.sha256
    yield from _unequal(path, "", "it is not the file that the page's lineage names", file.sha256[:16], now[:16])


def _run(run: RunFolder) -> Iterator[Difference]:
    if not run.outcome.exists():
        return
    outcome = read(Outcome, run.outcome)
    card = read(AnyTrainCard, run.card) if run.card.exists() else read(ImportCard, run.import_card) if run.import_card.exists() else None
    path = run.card if run.card.exists() else run.import_card
    another = f"the run was made from another card than {path.name}"
    yield from _unequal(path, "card", another, outcome.card_id, card_id(card) if card else outcome.card_id)
    name = outcome.attempt
    attempt = {attempt.started.attempt: attempt for attempt in read_attempts(run.attempts)}.get(name)
    if attempt is None:
        what = f"the ledger lacks attempt {name}, which made the run's files"
        yield from _unequal(run.attempts, name, what, name, "no such attempt")
    elif attempt.ended is None:
        yield from _unequal(run.attempts, name, "the ledger has no end of the attempt that made the run's files", "an end", "none")
    else:
        end, state = attempt.ended, "finished" if outcome.finished else "unknown" if outcome.unknown else "failed"
        for field, mine, theirs in (
            ("card_id", outcome.card_id, attempt.started.card_id),
            ("outcome", state, end.outcome),
            ("last_step", outcome.steps_done, end.last_step),
            ("failure", outcome.failure, end.failure),
            ("error", outcome.error, end.error),
        ):
            yield from _unequal(run.attempts, f"{name}.{field}", f"ledger and outcome differ in {field}", str(mine), str(theirs))
    for table in (run.history, run.completions, run.evaluation):
        yield from _table(table, outcome)


def _table(path: Path, outcome: Outcome) -> Iterator[Difference]:
    """A table's own metadata say which card and attempt wrote it."""
    if not path.is_file():
        return
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (pa.ArrowInvalid, OSError):
        yield from _unequal(path, "", "it is no Parquet file", "Parquet", "other bytes")
        return
    written = {key.decode(): value.decode(errors="replace") for key, value in metadata.items()}
    expected = {"octavo.attempt": outcome.attempt}
    if path.name != "evaluation.parquet":  # its card is that of the evaluation
        expected["octavo.card_id"] = outcome.card_id
    for key, value in expected.items():
        what = f"it says that another {key[7:].removesuffix('_id')} made it than the outcome says"
        yield from _unequal(path, key, what, value, written.get(key, value))


def _unequal(path: Path, cell: str, what: str, expected: str, found: str) -> Iterator[Difference]:
    if expected != found:
        name = path.as_posix()
        fix = f"git diff -- {name}, or dvc checkout {name} when DVC keeps it; dvc repro makes anew what rests on it"
        yield Difference(code="S495", path=name, cell=cell, what=what, expected=expected, found=found, fix=fix)


def imports_again(experiment: ExperimentFolder, due: Set[str]) -> tuple[list[Difference], int, list[str]]:
    """(differences, number of runs, notes): imported runs whose import is not due, read again from their sources as their stage would.
    Locks show sources that changed. Logs of programs that octavo ran are not kept."""
    runs = [run for run in _imported(experiment) if f"import-{run.name}" not in due]
    if not runs:
        return [], 0, []
    with tempfile.TemporaryDirectory(prefix="octavo-verify-") as scratch:
        ran = run_python(["-m", _IMPORT_AGAIN, "--into", scratch, *(run.root.as_posix() for run in runs)])
        states = {run: state for state, _, run in (line.partition(" ") for line in ran.stdout.splitlines())}
        problems = [difference for run in runs if states.get(run.name) == "same" for difference in _imports(experiment, run, Path(scratch))]
    if ran.returncode:
        words = " ".join(ran.stderr.split())[-300:] or f"exit code {ran.returncode}"
        fix = f"python -m {_IMPORT_AGAIN} --into $(mktemp -d) {' '.join(run.root.as_posix() for run in runs)}"
        what = f"sources could not be read again: {words}"
        problems.append(Difference(code="S496", path=experiment.root.as_posix(), what=what, fix=fix))
    absent = [read(ImportCard, run.import_card).source.path for run in runs if states.get(run.name) == "absent"]
    some = listed(absent[:_FEW]) + (", ..." if len(absent) > _FEW else "")
    note = f"source absent, so not read again: {len(absent)} of {len(runs)} imported runs ({some}); fetch it with dvc pull or git"
    return problems, sum(state == "same" for state in states.values()), [note] if absent else []


def _imported(experiment: ExperimentFolder) -> Iterator[RunFolder]:
    for path in sorted(experiment.root.glob(f"*/{RunFolder(experiment.root).import_card.name}")):
        run = RunFolder(path.parent)
        try:
            if run.outcome.is_file() and read(ImportCard, path).command is None:
                yield run
        except ArtifactError:
            continue  # cards are compared with the spec


def _imports(experiment: ExperimentFolder, run: RunFolder, scratch: Path) -> Iterator[Difference]:
    again = f"dvc repro --force --single-item {experiment.pipeline}:import-{run.name}"
    source = Comparison("S496", "what the source gives", f"dvc checkout {run.root.as_posix()}, or import it again: {again}")
    fresh = RunFolder(scratch / run.name)
    for here, expected in ((run.imported, fresh.imported), (run.outcome, fresh.outcome)):
        yield from source.differences(here.as_posix(), read_bytes(expected), read_bytes(here) if here.is_file() else b"")
    yield from islice(_cells(run.history, fresh.history, source.fix), LIMIT)


def _cells(here: Path, expected: Path, fix: str) -> Iterator[Difference]:
    """Cells of a history that the source does not give."""
    try:
        actual = _history(here)
    except (pa.ArrowException, OSError, KeyError):
        return  # locks and metadata tell of a table that is none
    wanted = _history(expected)
    for key in dict.fromkeys((*wanted, *actual)):
        old, new = wanted.get(key, "nothing"), actual.get(key, "nothing")
        if old != new:
            cell = f"{key[2]} at step {key[1]}"
            what = f"{cell}: {new} is not what the source gives"
            yield Difference(code="S496", path=here.as_posix(), cell=cell, what=what, expected=old, found=new, fix=fix)


def _history(path: Path) -> dict[tuple[str, int, str], str]:
    """(attempt, step, metric) -> the value, or the state of a cell without one."""
    columns = pq.read_table(path).select(["attempt", "step", "metric", "value", "state"]).to_pydict().values()
    rows = zip(*columns, strict=True)
    return {(attempt, step, metric): state if value is None else repr(value) for attempt, step, metric, value, state in rows}


def run_python(arguments: Sequence[str], folder: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python on the code of this project, as DVC does; its output is kept, and nothing is raised."""
    path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH")) if part)
    variables = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    variables |= {PROJECT: os.getcwd()} if folder else {}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=variables, capture_output=True, text=True, errors="replace", check=False
    )
