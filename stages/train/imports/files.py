"""What an import leaves behind: history, completions (none), outcome and imported.json, the files that training writes."""

from __future__ import annotations

from dataclasses import dataclass

from stages.contracts.artifact import write
from stages.contracts.attempt import FailureClass, Outcome, Started
from stages.contracts.import_card import ImportCard, Imported, SourceCard
from stages.contracts.layout import RunFolder
from stages.train.imports.mapping import FEW, Mapped
from stages.train.recorder import write_completions, write_history


@dataclass(frozen=True)
class Found:
    """What a source said."""

    imported: Imported
    history: list[dict[str, object]]
    steps_done: int
    failed: str
    """What the source says of a run that did not end well."""
    running: str = ""
    """What the source says of a run that may go on."""


def imported(card: ImportCard, started: Started, history: Mapped, known: bool, source: SourceCard) -> Imported:
    """The record of what was read."""
    return Imported(
        card_id=started.card_id,
        attempt=started.attempt,
        source=source,
        read=card.read,
        rows=history.logged,
        first_step=history.steps[0] if history.steps else None,
        last_step=history.steps[-1] if history.steps else None,
        stride=history.stride,
        gaps=history.gaps[:FEW],
        gap_count=len(history.gaps),
        steps="known" if known else "unknown",
        notes=history.notes,
        held=history.held,
    )


def outcome_of(card: ImportCard, found: Found, failure: FailureClass | None = None) -> Outcome:
    """How the run stands."""
    known = found.imported.steps == "known"
    return Outcome(
        card_id=found.imported.card_id,
        attempt=found.imported.attempt,
        finished=known and not found.failed and found.steps_done >= card.target_steps,
        steps_done=found.steps_done,
        target_steps=card.target_steps,
        failure=failure,
        error=found.failed or None,
        unknown="" if known else f"still running: {found.running}, at step {found.steps_done}" if found.running else _ends(found),
    )


def _ends(found: Found) -> str:
    return f"log ends at {found.steps_done}"


def write_files(run: RunFolder, found: Found, outcome: Outcome) -> None:
    """Write all of them."""
    identity = {"card_id": outcome.card_id, "attempt": outcome.attempt}
    shared = {"tokens": None, "seconds": None}
    write_history(run.history, [{**shared, **row} for row in found.history], **identity)
    write_completions(run.completions, [], [], **identity)
    write(run.imported, found.imported)
    write(run.outcome, outcome)
