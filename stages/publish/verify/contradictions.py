"""Files of one experiment that name each other: ledger, outcome, history, evaluation and lineage must tell one story."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stages.contracts.algorithms import AnyTrainCard
from stages.contracts.artifact import ArtifactError, file_digest, read
from stages.contracts.attempt import Attempt, Outcome, read_attempts
from stages.contracts.import_card import ImportCard
from stages.contracts.layout import ExperimentFolder, RunFolder
from stages.contracts.lineage import Lineage
from stages.contracts.page_card import PageCard
from stages.contracts.stage import card_id
from stages.contracts.verification import Difference


def contradictions(experiment: ExperimentFolder) -> tuple[list[Difference], dict[str, int]]:
    """(what does not fit, how much was looked at). A missing file is no contradiction: locks and stages miss it."""
    found: list[Difference] = []
    runs = 0
    try:
        for ref in read(PageCard, experiment.page_card).runs:
            found += _run(experiment.run(ref.name))
            runs += 1
        lineage, files = _lineage(experiment)
        found += lineage
    except ArtifactError as error:
        found.append(Difference(code="S495", path=error.path, what=error.what, fix=error.fix))
        files = 0
    return found, {"runs": runs, "files of the lineage": files}


def _run(run: RunFolder) -> Iterator[Difference]:
    if not run.outcome.exists():
        return
    outcome = read(Outcome, run.outcome)
    made = read(AnyTrainCard, run.card) if run.card.exists() else read(ImportCard, run.import_card) if run.import_card.exists() else None
    card = card_id(made) if made else outcome.card_id
    if outcome.card_id != card:
        path = run.card if run.card.exists() else run.import_card
        yield _contradicts(path, "card", f"the run was made from another card than {path.name}", outcome.card_id, card)
    attempts = {attempt.started.attempt: attempt for attempt in read_attempts(run.attempts)}
    yield from _ledger(run, outcome, attempts.get(outcome.attempt))
    for path in (run.history, run.completions, run.evaluation):
        yield from _table(path, outcome)


def _ledger(run: RunFolder, outcome: Outcome, attempt: Attempt | None) -> Iterator[Difference]:
    name = outcome.attempt
    if attempt is None:
        yield _contradicts(run.attempts, name, f"the ledger lacks attempt {name}, which made the run's files", name, "no such attempt")
        return
    if attempt.started.card_id != outcome.card_id:
        yield _contradicts(
            run.attempts, f"{name}.card_id", "ledger and outcome name different cards", outcome.card_id, attempt.started.card_id
        )
    end = attempt.ended
    if end is None:
        yield _contradicts(run.attempts, name, "the ledger has no end of the attempt that made the run's files", "an end", "none")
        return
    state = "finished" if outcome.finished else "unknown" if outcome.unknown else "failed"
    for field, mine, theirs in (
        ("outcome", state, end.outcome),
        ("last_step", outcome.steps_done, end.last_step),
        ("failure", outcome.failure, end.failure),
        ("error", outcome.error, end.error),
    ):
        if mine != theirs:
            yield _contradicts(run.attempts, f"{name}.{field}", f"ledger and outcome differ in {field}", f"{mine}", f"{theirs}")


def _table(path: Path, outcome: Outcome) -> Iterator[Difference]:
    """A table's own metadata say which card and attempt wrote it."""
    if not path.is_file():
        return
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (pa.ArrowInvalid, OSError):
        yield _contradicts(path, "", "it is no Parquet file", "Parquet", "other bytes")
        return
    known = {key.decode(): value.decode(errors="replace") for key, value in metadata.items()}
    for key, expected in (("octavo.card_id", outcome.card_id), ("octavo.attempt", outcome.attempt)):
        if path.name == "evaluation.parquet" and key == "octavo.card_id":
            continue  # its card is that of the evaluation
        if key in known and known[key] != expected:
            other = f"it says that another {key[7:].removesuffix('_id')} made it than the outcome says"
            yield _contradicts(path, key, other, expected, known[key])


def _lineage(experiment: ExperimentFolder) -> tuple[list[Difference], int]:
    """Files that are not those the page was written from."""
    path = experiment.page / "lineage.json"
    if not path.exists():
        return [], 0
    files = [node for node in read(Lineage, path).nodes if node.path and node.sha256]
    found = []
    for node in files:
        place = Path(node.path or "")
        now = file_digest(place) if place.exists() else None
        if now and now != node.sha256:
            expected = (node.sha256 or "")[:16]
            found.append(
                _contradicts(place, "", "it is not the file that the page's lineage names", f"sha256 {expected}", f"sha256 {now[:16]}")
            )
    return found, len(files)


def _contradicts(path: Path, cell: str, what: str, expected: str, found: str) -> Difference:
    name = path.as_posix()
    return Difference(
        code="S495",
        path=name,
        cell=cell,
        what=what,
        expected=expected,
        found=found,
        fix=f"git diff -- {name}, or dvc checkout {name} when DVC keeps it; dvc repro makes anew what rests on it",
    )
