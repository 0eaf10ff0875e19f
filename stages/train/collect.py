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
from stages.contracts.import_card import ImportCard, Imported
from stages.contracts.layout import RunFolder
from stages.contracts.stage import card_id, main, open_card
from stages.train import interrupts
from stages.train.attempts import Stopped, begin, end, lock
from stages.train.failures import classify
from stages.train.imports.files import Found, imported, outcome_of, write_files
from stages.train.imports.log import Log, Unreadable
from stages.train.imports.mapping import Mapped, mapped
from stages.train.imports.readers import read_log
from stages.train.imports.summary import read as read_summary
from stages.train.imports.summary_values import nonfinite_from, steps, values

MODULE = "stages.train.collect"


def collect(folder: Path) -> int:
    """Import one run."""
    run = RunFolder(folder)
    card = open_card(ImportCard, run.import_card, [MODULE])
    _unchanged(card)
    interrupts.heed()
    with lock(run):
        started = begin(run, card_id(card), devices=(), sandbox="", resumed_from=None)
        begun = time.monotonic()
        try:
            found = _read(card, started)
            if file_digest(Path(card.source.path)) != card.source.sha256:
                raise Unreadable(
                    f"{card.source.path} changed while it was read, so a program still writes it; "
                    "when it has ended: octavo compile && dvc repro"
                )
        except (Exception, KeyboardInterrupt) as caught:
            failure, error = classify(Stopped("data", str(caught)) if isinstance(caught, Unreadable) else caught)
            return _failed(run, card, started, failure, error, time.monotonic() - begun)
        outcome = outcome_of(card, found)
        write_files(run, found, outcome)
        state: Literal["finished", "unknown", "failed"] = "finished" if outcome.finished else "unknown" if outcome.unknown else "failed"
        taken = time.monotonic() - begun
        end(run, started, failure=None, error=outcome.error, last_step=outcome.steps_done, seconds=taken, outcome=state)
    print(
        f"{card.experiment} {run.name}: {found.imported.rows} rows of {card.source.path}, {outcome.steps_done} of {card.target_steps} steps"
    )
    for note in found.imported.notes:
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


def _read(card: ImportCard, started: Started) -> Found:
    path = Path(card.source.path)
    if card.read.format == "summary":
        return _summary(card, started, path)
    log = read_log(path, card.read)
    history = mapped(log, card.read, card.target_steps, started.attempt)
    if not history.rows:
        raise Unreadable(f"{path} holds no row of any metric that the spec maps")
    known = not log.running and (log.steps_done is not None or bool(log.failed) or history.last >= card.target_steps)
    done = max(history.last, log.steps_done or 0)
    return Found(
        imported(card, started, history, known, card.source),
        history.rows,
        done,
        log.failed or _unfinished(log, done, card.target_steps),
        log.running,
    )


def _unfinished(log: Log, done: int, target: int) -> str:
    """What a trainer's own state says when it is not at the end."""
    return f"its own state says {done} of {target} steps" if log.steps_done is not None and done < target else ""


def _summary(card: ImportCard, started: Started, path: Path) -> Found:
    content = read_summary(path, card.read.where)
    done = (steps(content, card.read.steps_done) if card.read.steps_done else None) or 0
    record = Imported(
        card_id=started.card_id,
        attempt=started.attempt,
        source=card.source,
        read=card.read,
        rows=0,
        first_step=None,
        last_step=done or None,
        stride=1,
        steps="known" if done >= card.target_steps else "unknown",
        summary=values(content, card.read),
        nonfinite_from=nonfinite_from(content, card.read),
    )
    return Found(record, [], done, "")


def _failed(run: RunFolder, card: ImportCard, started: Started, failure: FailureClass, error: str, seconds: float) -> int:
    """Leave the hole that a page shows: no rows, and why."""
    nothing = Mapped([], 0, (), 1, (), (f"nothing was imported: {error}",))
    found = Found(imported(card, started, nothing, True, card.source), [], 0, error)
    write_files(run, found, outcome_of(card, found, failure))
    end(run, started, failure=failure, error=error, last_step=0, seconds=seconds)
    print(f"\n{run.root}: the import failed ({failure}): {error}", file=sys.stderr)
    return {"interrupted": 130, "disk": 1}.get(failure, 0)


if __name__ == "__main__":
    main(collect, "python -m stages.train.collect runs/<experiment>/<run>")
