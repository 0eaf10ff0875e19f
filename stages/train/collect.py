"""Stage: import the history of one run that octavo did not train.

    python -m stages.train.collect runs/<experiment>/<run>

Reads import.card.json and the source that it names; writes history, completions (none), outcome and imported.json, as training
does. The attempt in the ledger is the import. Exit 0: imported, or not readable and recorded as such. Exit 1: nothing was recorded.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Literal

from stages.contracts.artifact import file_digest
from stages.contracts.attempt import FailureClass, Started
from stages.contracts.diagnostic import StageError
from stages.contracts.import_card import ImportCard
from stages.contracts.layout import RunFolder
from stages.contracts.stage import card_id, main, open_card
from stages.train import interrupts
from stages.train.attempts import Stopped, begin, end, lock
from stages.train.failures import classify
from stages.train.imports.files import outcome_of, read_run, unusable, write_files
from stages.train.imports.log import Unreadable

MODULE = "stages.train.collect"


def collect(folder: Path) -> int:
    """Import one run."""
    run = RunFolder(folder)
    card = open_card(ImportCard, run.import_card, [MODULE])
    _unchanged(card)
    interrupts.install_handlers()
    with lock(run):
        started = begin(run, card_id(card), devices=(), sandbox="", resumed_from=None)
        begun = time.monotonic()
        try:
            source = read_run(card, started)
            if file_digest(Path(card.source.path)) != card.source.sha256:
                raise Unreadable(
                    f"{card.source.path} changed while it was read, so a program still writes it; "
                    "when it has ended: octavo compile && dvc repro"
                )
        except (Exception, KeyboardInterrupt) as caught:
            failure, error = classify(Stopped("data", str(caught)) if isinstance(caught, Unreadable) else caught)
            return _failed(run, card, started, failure, error, time.monotonic() - begun)
        outcome = outcome_of(card, source)
        write_files(run, source, outcome)
        state: Literal["finished", "unknown", "failed"] = "finished" if outcome.finished else "unknown" if outcome.unknown else "failed"
        taken = time.monotonic() - begun
        end(run, started, failure=None, error=outcome.error, last_step=outcome.steps_done, seconds=taken, outcome=state)
    print(
        f"{card.experiment} {run.name}: {source.imported.rows} rows of {card.source.path}, "
        f"{outcome.steps_done} of {card.target_steps} steps"
    )
    for note in source.imported.notes:
        print(f"  note: {note}")
    return 0


def _unchanged(card: ImportCard) -> None:
    path = Path(card.source.path)
    if not path.exists():
        raise StageError(
            "S288",
            f"the source {path} is missing",
            why="a run is imported from it, and its card pins its content",
            fix=f"fetch it (dvc pull {path}), or correct the spec and octavo compile",
            pointer="/source/path",
        )
    if file_digest(path) != card.source.sha256:
        raise StageError(
            "S288",
            f"the source {path} has changed since the card was compiled",
            why="numbers of a page must come from the content that its card pins",
            fix="octavo compile && dvc repro",
            pointer="/source/sha256",
        )


def _failed(run: RunFolder, card: ImportCard, started: Started, failure: FailureClass, error: str, seconds: float) -> int:
    """Leave the hole that a page shows: no rows, and why."""
    source = unusable(card, started, error)
    write_files(run, source, outcome_of(card, source, failure))
    end(run, started, failure=failure, error=error, last_step=0, seconds=seconds)
    print(f"\n{run.root}: the import failed ({failure}): {error}", file=sys.stderr)
    return {"interrupted": 130, "disk": 1}.get(failure, 0)


if __name__ == "__main__":
    main(collect, "python -m stages.train.collect runs/<experiment>/<run>")
