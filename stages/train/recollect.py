"""Imports runs again, beside what was imported: `octavo verify` holds the one against the other. No stage; writes into a folder of its own.

    python -m stages.train.recollect <folder> runs/<experiment>/<run>...

A run whose source is here and is the one that its card pins gets a folder of its name, with the files that its import would write now.
Prints a line a run: `same`, when the source is that one, or `absent`, `changed` or `unread`, when nothing was written, and its name.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from stages.contracts.artifact import ArtifactError, file_digest, read
from stages.contracts.attempt import Outcome, Started, read_attempts
from stages.contracts.import_card import ImportCard
from stages.contracts.layout import RunFolder
from stages.contracts.stage import card_id
from stages.train.imports.files import outcome_of, read_run, unusable, write_files
from stages.train.imports.log import Unreadable


def recollect(folder: Path, runs: Sequence[Path]) -> None:
    """All of them. Never raises for what a source holds."""
    for root in runs:
        print(_again(RunFolder(root), RunFolder(folder / root.name)), root.name, flush=True)


def _again(run: RunFolder, made: RunFolder) -> str:
    try:
        card, outcome = read(ImportCard, run.import_card), read(Outcome, run.outcome)
        started = next((one.started for one in read_attempts(run.attempts) if one.started.attempt == outcome.attempt), None)
    except (ArtifactError, OSError):
        return "unread"
    if started is None or outcome.card_id != card_id(card) or outcome.failure not in (None, "data"):
        return "unread"  # another difference says why, or the import was interrupted
    path = Path(card.source.path)
    if not path.exists():
        return "absent"
    if file_digest(path) != card.source.sha256:
        return "changed"
    made.root.mkdir(parents=True)
    _write(card, started, made)
    return "same"


def _write(card: ImportCard, started: Started, made: RunFolder) -> None:
    try:
        source = read_run(card, started)
    except Unreadable as error:
        source = unusable(card, started, str(error))
        write_files(made, source, outcome_of(card, source, "data"))
        return
    write_files(made, source, outcome_of(card, source))


if __name__ == "__main__":
    recollect(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
