"""Runs that have not ended, as the files that an ended run leaves: the analysis reads both alike (`octavo page --now`).

This is done in a scratch copy of the project, and no lock is tried: what trains is never disturbed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from stages.contracts.algorithms import AnyTrainCard
from stages.contracts.analysis_card import RunRef
from stages.contracts.artifact import now, read, write
from stages.contracts.attempt import Attempt, Ended, Outcome, Started
from stages.contracts.files import file_digest, make_folder, read_bytes, write_files
from stages.contracts.import_card import ImportCard, SourceCard
from stages.contracts.layout import RunFolder
from stages.contracts.progress import RunProgress, RunState
from stages.contracts.stage import card_id
from stages.train.attempts import append, begin, checkpoints, end, holder, under
from stages.train.imports.files import ReadRun, read_log, read_tries
from stages.train.imports.files import write_files as write_imported
from stages.train.imports.log import Unreadable
from stages.train.imports.mapping import map_log, nothing
from stages.train.recorder import Journal, write_completions, write_history

_BY_LINE = {"csv", "jsonl", "text", "console"}
"""Formats of logs whose last line may be half written."""
_PACE_STEPS = 20
"""The last steps, of which the pace is taken."""


def watched(run: RunFolder) -> Iterator[Path]:
    """Files that change while a run goes on, whether they are there or not."""
    card = _card(run)
    scratch = checkpoints(card_id(card))
    yield from (run.attempts, run.outcome, run.history, run.evaluation)
    if isinstance(card, ImportCard):
        yield scratch / "out" / card.command.log if card.command else Path(card.source.path)
    else:
        yield scratch / "history.jsonl"


def write_so_far(ref: RunRef, run: RunFolder) -> RunProgress:
    """How far a run is. Of one that has not ended, its history, completions and outcome so far are written into its folder; what lies there
    of an earlier card or attempt is removed. Raises ArtifactError and OSError for files that are missing or broken at this moment."""
    card = _card(run)
    identity = card_id(card)
    attempts, outcome = under(run, identity), read(Outcome, run.outcome) if run.outcome.exists() else None
    if outcome is not None and outcome.card_id != identity:
        outcome = None
    newest = attempts[-1] if attempts else None
    if newest and newest.ended is None and not (outcome and outcome.attempt == newest.started.attempt):
        return _unfinished(ref, run, card, newest.started)
    if isinstance(card, ImportCard) and card.only_read and (outcome is None or outcome.unknown or _has_changed(card.source)):
        return _log_now(ref, run, card)
    if outcome is None:
        for path in (run.outcome, run.history, run.completions, run.imported, run.evaluation, run.adapter):
            _remove(path)
        return RunProgress(run=ref.name, state="waiting", step=0, target=ref.target_steps)
    return _ended(ref, outcome, newest)


def _card(run: RunFolder) -> AnyTrainCard | ImportCard:
    return read(AnyTrainCard, run.card) if run.card.exists() else read(ImportCard, run.import_card)


def _ended(ref: RunRef, outcome: Outcome, attempt: Attempt | None) -> RunProgress:
    pace = None
    if attempt and attempt.ended and (steps := attempt.ended.last_step - (attempt.started.resumed_from or 0)) > 0:
        pace = attempt.ended.seconds / steps
    began = attempt.started.at if attempt else None
    return RunProgress(
        run=ref.name, state="ended", step=outcome.steps_done, target=ref.target_steps, began=began, step_seconds=pace or None
    )


def _unfinished(ref: RunRef, run: RunFolder, card: AnyTrainCard | ImportCard, started: Started) -> RunProgress:
    """Of an attempt without an end: a process that trains, or one that has gone."""
    states: dict[str | None, RunState] = {"here": "running", "elsewhere": "elsewhere", None: "interrupted"}
    state = states[holder(run)]
    for path in (run.evaluation, run.adapter):  # of an earlier attempt
        _remove(path)
    if isinstance(card, ImportCard):
        step, newest, pace = _program_so_far(run, card, started)
    else:
        step, newest, pace = _journal_so_far(run, card, started)
    words = f"{'interrupted' if state == 'interrupted' else 'running'}, at step {step} of {ref.target_steps}"
    identity = {"card_id": started.card_id, "attempt": started.attempt}
    write(run.outcome, Outcome(**identity, finished=False, steps_done=step, target_steps=ref.target_steps, unknown=words))
    if state != "interrupted":  # the ledger's copy says that the end is not known: a start without an end is one that was killed
        took = (datetime.now(UTC) - datetime.fromisoformat(started.at)).total_seconds()
        append(run.attempts, Ended(attempt=started.attempt, at=now(), outcome="unknown", last_step=step, seconds=round(max(took, 0.0), 1)))
    progress = {"run": ref.name, "state": state, "step": step, "target": ref.target_steps}
    return RunProgress(**progress, began=started.at, newest=newest, step_seconds=pace)


def _journal_so_far(run: RunFolder, card: AnyTrainCard, started: Started) -> tuple[int, str | None, float | None]:
    """Write what the recorder's journal holds; (steps done, when the newest was written, seconds of one of the last steps)."""
    folder, identity = checkpoints(started.card_id), {"card_id": started.card_id, "attempt": started.attempt}
    if not folder.is_dir():  # the attempt has just begun
        write_history(run.history, [], **identity)
        write_completions(run.completions, [], [], **identity)
        return started.resumed_from or 0, None, None
    journal = Journal(folder)
    rows = journal.history_rows()
    write_history(run.history, rows, **identity)
    gates = [gate.name for gate in card.reward.gates] if card.reward is not None else []
    write_completions(run.completions, journal.completion_rows(), gates, **identity)
    seconds = {row["step"]: row["seconds"] for row in rows if row["attempt"] == started.attempt}
    last = sorted(seconds)[-_PACE_STEPS:]
    pace = (seconds[last[-1]] - seconds[last[0]]) / (last[-1] - last[0]) if len(last) > 1 else None
    step = max(seconds, default=started.resumed_from or 0)
    return step, _written(journal.history) if seconds else None, pace


def _program_so_far(run: RunFolder, card: ImportCard, started: Started) -> tuple[int, str | None, float | None]:
    """The same of the log that an author's own program writes."""
    command = card.command
    assert command is not None  # attempts of other imports end at once
    log = checkpoints(started.card_id) / "out" / command.log
    history = nothing()
    try:
        if log.exists():
            written = read_log(_whole_lines(log, card, run), card.read)
            written.is_one_run = True
            history = map_log(written, card.read, card.target_steps, "")
    except Unreadable as error:
        history = nothing(str(error))
    source = SourceCard(path=log.as_posix(), sha256=file_digest(log) if log.exists() else "")
    write_imported(run, card, started, ReadRun(source, history, is_end_known=False, steps_done=history.last))
    if not history.last:
        return 0, None, None
    took = log.stat().st_mtime - datetime.fromisoformat(started.at).timestamp()
    return history.last, _written(log), max(took, 0.0) / history.last or None


def _log_now(ref: RunRef, run: RunFolder, card: ImportCard) -> RunProgress:
    """An imported log as it is at this moment, whatever its card pins: one more reading, in the copy of the ledger."""
    copies = {_whole_lines(Path(source.path), card, run, number).as_posix(): source for number, source in enumerate(card.sources)}
    first, *others = [source.model_copy(update={"path": path}) for path, source in copies.items()]
    result = read_tries(card.model_copy(update={"source": first, "others": tuple(others)}), is_pinned=False)[-1]
    path = Path(copies[result.source.path].path)
    log = path.as_posix() if card.others else None
    started = begin(run, card_id(card), devices=(), sandbox="", resumed_from=None, log=log)
    pinned = SourceCard(path=path.as_posix(), sha256=file_digest(path) if path.exists() else "")
    outcome = write_imported(run, card, started, replace(result, source=pinned))
    end(run, started, outcome, 0.0)
    newest = _written(path) if path.exists() else None
    state: RunState = "growing" if outcome.unknown else "ended"
    return RunProgress(run=ref.name, state=state, step=outcome.steps_done, target=ref.target_steps, newest=newest)


def _whole_lines(log: Path, card: ImportCard, run: RunFolder, number: int = 0) -> Path:
    """The log; of one that grows line by line a copy that ends with its last whole line: half a line may hold half a number."""
    if card.read.format not in _BY_LINE or not log.is_file():
        return log
    content = read_bytes(log)
    path = run.root / f"log{number or ''}-{log.name}"
    make_folder(run.root)
    write_files({path: content[: content.rfind(b"\n") + 1]})
    return path


def _has_changed(source: SourceCard) -> bool:
    path = Path(source.path)
    return path.exists() and file_digest(path) != source.sha256


def _written(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
