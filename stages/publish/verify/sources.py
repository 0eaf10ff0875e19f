"""Imported runs beside their sources: each is read again, as its stage would, and what comes of it is held against what was recorded."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stages.contracts.artifact import ArtifactError, read
from stages.contracts.import_card import ImportCard
from stages.contracts.layout import ExperimentFolder, RunFolder
from stages.contracts.stage import ROOT
from stages.contracts.verification import Difference
from stages.publish.numbers import listed
from stages.publish.verify.parts import MOST, parts

MODULE = "stages.train.recollect"
_FEW = 3
_ABSENT = "source absent, so not read again"


@dataclass
class Sources:
    """`read`: how many runs were read again."""

    read: int = 0
    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def sources(experiment: ExperimentFolder, due: Set[str]) -> Sources:
    """Every imported run whose import is not due. Sources that changed are told of by the locks."""
    made = Sources()
    runs = [run for run in _imported(experiment) if f"import-{run.name}" not in due]
    if not runs:
        return made
    with tempfile.TemporaryDirectory(prefix="octavo-verify-") as name:
        states = _again(Path(name), runs, made)
        for run in runs:
            if states.get(run.name) == "same":
                made.read += 1
                made.differences += _differences(experiment, run, RunFolder(Path(name) / run.name))
    absent = [run for run in runs if states.get(run.name) == "absent"]
    if absent:
        paths = [read(ImportCard, run.import_card).source.path for run in absent[:_FEW]]
        more = ", ..." if len(absent) > _FEW else ""
        made.notes.append(f"{_ABSENT}: {len(absent)} of {len(runs)} imported runs ({listed(paths)}{more}); fetch it with dvc pull or git")
    return made


def _imported(experiment: ExperimentFolder) -> Iterator[RunFolder]:
    """Runs that were imported; not those that a command trains, whose log nobody keeps."""
    for path in sorted(experiment.root.glob(f"*/{RunFolder(experiment.root).import_card.name}")):
        run = RunFolder(path.parent)
        try:
            if run.outcome.is_file() and read(ImportCard, path).command is None:
                yield run
        except ArtifactError:
            continue  # cards are held against the spec


def _again(folder: Path, runs: Sequence[RunFolder], made: Sources) -> dict[str, str]:
    """Run -> what became of it."""
    command = [sys.executable, "-m", MODULE, str(folder), *(run.root.as_posix() for run in runs)]
    path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH")) if part)
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)
    if ran.returncode:
        words = " ".join(ran.stderr.split())[-300:] or f"exit code {ran.returncode}"
        what = f"sources could not be read again: {words}"
        made.differences.append(
            Difference(
                code="S496", path=runs[0].root.parent.as_posix(), what=what, fix=f"python -m {MODULE} $(mktemp -d) {' '.join(command[4:])}"
            )
        )
    return {run: state for state, _, run in (line.partition(" ") for line in ran.stdout.splitlines())}


def _differences(experiment: ExperimentFolder, run: RunFolder, made: RunFolder) -> Iterator[Difference]:
    fix = f"dvc checkout {run.root.as_posix()}, or import it again: dvc repro --force --single-item {experiment.pipeline}:import-{run.name}"
    for here, expected in ((run.imported, made.imported), (run.outcome, made.outcome)):
        found = here.read_bytes() if here.is_file() else b""
        for part in parts(here.as_posix(), expected.read_bytes(), found):
            yield part.difference("S496", here.as_posix(), "what the source gives", fix)
    yield from islice(_rows(run.history, made.history, fix), MOST)


def _rows(here: Path, expected: Path, fix: str) -> Iterator[Difference]:
    """Cells of a history that the source does not give."""
    try:
        found = _cells(here)
    except (pa.ArrowException, OSError, KeyError):
        return  # locks and metadata tell of a table that is none
    wanted = _cells(expected)
    for key in [*wanted, *(key for key in found if key not in wanted)]:
        if wanted.get(key) != found.get(key):
            _, step, metric = key
            cell, old, new = f"{metric} at step {step}", _shown(wanted.get(key)), _shown(found.get(key))
            what = f"{cell}: {new} is not what the source gives"
            yield Difference(code="S496", path=here.as_posix(), cell=cell, what=what, expected=old, found=new, fix=fix)


def _cells(path: Path) -> dict[tuple[str, int, str], tuple[Any, str]]:
    table = pq.read_table(path)
    columns = [table.column(name).to_pylist() for name in ("attempt", "step", "metric", "value", "state")]
    return {(attempt, step, metric): (value, state) for attempt, step, metric, value, state in zip(*columns, strict=True)}


def _shown(cell: tuple[Any, str] | None) -> str:
    if cell is None:
        return "nothing"
    return cell[1] if cell[0] is None else f"{cell[0]!r}"
