"""Stage: import the history of one run that octavo did not train.

    python -m stages.train.collect runs/<experiment>/<run>

Reads import.card.json and the source that it names; writes history, completions (none), outcome and imported.json, as training
does. The attempt in the ledger is the import. Exit 0: imported, or not readable and recorded as such. Exit 1: nothing was recorded.

    python -m stages.train.collect --into <folder> runs/<experiment>/<run>...

Imports runs again, beside what was imported, for `octavo verify`; this is no stage and writes into the folder only.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from stages.contracts.artifact import ArtifactError, read
from stages.contracts.attempt import Outcome, read_attempts
from stages.contracts.files import file_digest, make_folder
from stages.contracts.import_card import ImportCard
from stages.contracts.layout import RunFolder
from stages.contracts.stage import card_id, main, open_card, print_text
from stages.train import interrupts
from stages.train.attempts import begin, end, exit_code, lock
from stages.train.imports.files import imported, read_tries, write_files
from stages.train.refusals import refusal

MODULE = "stages.train.collect"


def collect(folder: Path) -> int:
    """Import one run. Of several tries to train it the one that came furthest counts; all are in the ledger."""
    run = RunFolder(folder)
    card = open_card(ImportCard, run.import_card, [MODULE])
    for source in card.sources:
        if not Path(source.path).exists():
            raise refusal("S288.missing", path=source.path)
        if file_digest(Path(source.path)) != source.sha256:
            raise refusal("S288.changed", path=source.path)
    interrupts.install_handlers()
    with lock(run):
        begun = time.monotonic()
        for tried in read_tries(card):  # the latest attempt is the one that made the files
            log = tried.source.path if card.others else None
            started = begin(run, card_id(card), devices=(), sandbox="", resumed_from=None, log=log)
            outcome = write_files(run, card, started, tried)
            end(run, started, outcome, time.monotonic() - begun)
    if tried.failure:
        print_text(f"\n{run.root}: the import failed ({tried.failure}): {outcome.error}", is_error=True)
        return exit_code(tried.failure)
    record, steps = imported(card, started, tried), f"{outcome.steps_done} of {card.target_steps} steps"
    print_text(f"{card.experiment} {run.name}: {record.rows} rows of {record.source.path}, {steps}")
    for note in record.notes:
        print_text(f"  note: {note}")
    return 0


def collect_again(folder: Path, runs: Sequence[Path]) -> None:
    """Each run whose source is here and is the one that its card pins gets a folder of its name, with the files that its import would
    write now. Prints a line a run: `same`, when the source is that one, or `absent`, `changed` or `unread`, when nothing was written,
    and its name. Never raises for what a source holds."""
    for root in runs:
        print(_again(RunFolder(root), RunFolder(folder / root.name)), root.name, flush=True)


def _again(run: RunFolder, copy: RunFolder) -> str:
    try:
        card, outcome = read(ImportCard, run.import_card), read(Outcome, run.outcome)
        started = next((entry.started for entry in read_attempts(run.attempts) if entry.started.attempt == outcome.attempt), None)
    except (ArtifactError, OSError):
        return "unread"
    if started is None or outcome.card_id != card_id(card) or outcome.failure not in (None, "data"):
        return "unread"  # another difference says why, or the import was interrupted
    if not all(Path(source.path).exists() for source in card.sources):
        return "absent"
    if any(file_digest(Path(source.path)) != source.sha256 for source in card.sources):
        return "changed"
    make_folder(copy.root)
    write_files(copy, card, started, read_tries(card)[-1])
    return "same"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--into"]:
        collect_again(Path(sys.argv[2]), [Path(name) for name in sys.argv[3:]])
    else:
        main(collect, "python -m stages.train.collect runs/<experiment>/<run>")
