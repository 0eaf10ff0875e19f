"""A card and its source -> what an import leaves behind: history, completions (none), outcome and imported.json, as training writes them.

The same each time, so that `octavo verify` can import again and compare.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stages.contracts.artifact import now, write
from stages.contracts.attempt import FailureClass, Outcome, Started
from stages.contracts.import_card import ImportCard, Imported, ReadCard, SourceCard, ending
from stages.contracts.layout import RunFolder
from stages.train.imports.binary import read_tensorboard, read_wandb_file
from stages.train.imports.log import Log, Unreadable, sentence
from stages.train.imports.mapping import Mapped, map_log, nothing
from stages.train.imports.readers import read_csv, read_jsonl, read_snapshot, read_text, read_trainer_state
from stages.train.imports.summary import nonfinite_from, read_summary, step_count, summary_values
from stages.train.recorder import write_completions, write_history

_READERS = {
    "trainer_state": read_trainer_state,
    "wandb": read_snapshot,
    "wandb_file": read_wandb_file,
    "tensorboard": read_tensorboard,
    "jsonl": read_jsonl,
    "csv": read_csv,
}


@dataclass(frozen=True)
class ReadRun:
    """What a source says of a run."""

    imported: Imported
    history: list[dict[str, object]] = field(default_factory=list)
    steps_done: int = 0
    finished: str = ""
    """What the source says of a run that ended well, be it before its target."""
    failed: str = ""
    """What the source says of a run that did not end well."""
    running: str = ""
    """What the source says of a run that may go on."""


def read_log(path: Path, read: ReadCard) -> Log:
    """Read a log of any format but `summary`. Raises Unreadable, also for one without a row, or OSError for a file that cannot be read."""
    index = read.epoch or read.step
    if read.format == "text":
        log = read_text(path, read.pattern or "", index or "step")
    else:
        log = _READERS[read.format](path, index) if index else _READERS[read.format](path)
    if log.table.empty:
        raise Unreadable("no_row", path=path, cut=f" ({log.cut})" if log.cut else "")
    return log


def read_run(card: ImportCard, started: Started) -> ReadRun:
    """What the source says of the run. Raises Unreadable."""
    path, target = Path(card.source.path), card.target_steps
    if card.read.format == "summary":
        summary = read_summary(path, card.read.where)
        done = step_count(summary, card.read.steps_done) or 0
        values = {"summary": summary_values(summary, card.read), "nonfinite_from": nonfinite_from(summary, card.read)}
        record = Mapped(record={**nothing().record, "last_step": done or None, **values})
        ends = _state(summary.get(card.read.state), card) if card.read.state else {}
        finished, failed, running = (ends.get(kind, "") for kind in ("finished", "failed", "running"))
        is_end_known = not running and (done >= target or bool(finished or failed))
        imported = import_record(card, started, record, is_end_known)
        return ReadRun(imported, steps_done=done, finished=finished, failed=failed, running=running)
    log = read_log(path, card.read)
    if card.read.state:
        logged = log.logged(card.read.state).dropna()
        for kind, words in _state(logged.iloc[-1] if len(logged) else None, card).items():
            setattr(log, kind, words)
    log.notes += _config_notes(log, card)
    history = map_log(log, card.read, target, started.attempt)
    if not history.rows:
        raise Unreadable("no_mapped_row", path=path)
    is_end_known = not log.running and (log.steps_done is not None or bool(log.finished or log.failed) or history.last >= target)
    done = max(history.last, log.steps_done or 0)
    is_short = log.steps_done is not None and done < target
    failed = log.failed or (f"its own state says {done} of {target} steps" if is_short else "")
    imported = import_record(card, started, history, is_end_known)
    return ReadRun(imported, history.rows, done, finished=log.finished, failed=failed, running=log.running)


def _state(word: object, card: ImportCard) -> dict[str, str]:
    """What a word of the source says of a run's end, by a field of ReadRun; nothing for a word that is not known."""
    kind = ending(word)
    return {} if kind == "unknown" else {kind: f"`{card.read.state}` says `{str(word)[:40]}`"}


def furthest_last(card: ImportCard) -> list[ImportCard]:
    """One card a log of the run, each with that log as its source. Last the one that counts: with the most steps; of equals one that
    finished, then the later one of the spec. Logs that cannot be read come first."""
    each = [card.model_copy(update={"source": source}) for source in card.sources]
    return sorted(each, key=_progress) if card.others else each


def _progress(card: ImportCard) -> tuple[int, bool]:
    nobody = {"attempt": "", "number": 1, "at": now(), "card_id": "", "commit": None, "host": "", "devices": (), "versions": {}}
    try:
        run = read_run(card, Started.model_validate({**nobody, "sandbox": "", "resumed_from": None}))
    except (Unreadable, OSError):
        return -1, False
    return run.steps_done, outcome_of(card, run).finished


def unusable(card: ImportCard, started: Started, error: str) -> ReadRun:
    """What is recorded of a run whose source cannot be used."""
    return ReadRun(import_record(card, started, nothing(sentence("nothing", error=error)), True), failed=error)


def _config_notes(log: Log, card: ImportCard) -> Iterator[str]:
    """The spec against the run's own config at W&B: a sentence for what agrees and for a seed that differs. Raises Unreadable for a
    setting that differs or is not there: a run that was trained otherwise is not the run that the spec speaks of."""
    for name, value in card.read.config.items():
        if name not in log.settings:
            near = difflib.get_close_matches(name, list(log.settings), n=1, cutoff=0.6)
            raise Unreadable("no_setting", name=name, meant=f"; did you mean `{near[0]}`?" if near else "")
        setting = log.settings[name]
        if isinstance(setting, bool) != isinstance(value, bool) or setting != value:  # 1 and 1.0 are equal; true and 1 are not
            raise Unreadable("other_setting", name=name, logged=_shown(setting), declared=_shown(value))
    if card.read.config:
        yield sentence("settings_agree", settings=", ".join(f"{name} {_shown(value)}" for name, value in card.read.config.items()))
    seed = log.settings.get("seed")
    if isinstance(seed, int) and not isinstance(seed, bool) and seed != card.seed:
        yield sentence("other_seed", logged=seed, seed=card.seed)


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:.6g}" if isinstance(value, float) else str(value)[:40]


def import_record(card: ImportCard, started: Started, history: Mapped, is_end_known: bool, source: SourceCard | None = None) -> Imported:
    """The record of what was read. `source`: where it is not the card's."""
    identity = {"card_id": started.card_id, "attempt": started.attempt}
    steps, record = "known" if is_end_known else "unknown", history.record
    if card.others:
        counts = sentence("furthest", count=len(card.sources), path=card.source.path)
        record = {**record, "notes": (*record.get("notes", ()), counts)}
    return Imported(**identity, source=source or card.source, read=card.read, steps=steps, **record)


def outcome_of(card: ImportCard, run: ReadRun, failure: FailureClass | None = None) -> Outcome:
    """How the run stands."""
    is_end_known = run.imported.steps == "known"
    still = f"still running: {run.running}, at step {run.steps_done}" if run.running else f"log ends at {run.steps_done}"
    return Outcome(
        card_id=run.imported.card_id,
        attempt=run.imported.attempt,
        finished=is_end_known and not run.failed and (bool(run.finished) or run.steps_done >= card.target_steps),
        steps_done=run.steps_done,
        target_steps=card.target_steps,
        failure=failure,
        error=run.failed or None,
        unknown="" if is_end_known else still,
    )


def write_files(folder: RunFolder, run: ReadRun, outcome: Outcome) -> None:
    """Write all of them."""
    identity = {"card_id": outcome.card_id, "attempt": outcome.attempt}
    write_history(folder.history, [{"tokens": None, "seconds": None, **row} for row in run.history], **identity)
    write_completions(folder.completions, [], [], **identity)
    write(folder.imported, run.imported)
    write(folder.outcome, outcome)
