"""A card and its source -> what an import leaves behind: history, completions (none), outcome and imported.json, as training writes them.

The same each time, so that `octavo verify` can import again and compare.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stages.contracts.artifact import write
from stages.contracts.attempt import FailureClass, Outcome, Started
from stages.contracts.import_card import ImportCard, Imported, ReadCard, SourceCard
from stages.contracts.layout import RunFolder
from stages.train.imports.log import FEW, Log, Unreadable
from stages.train.imports.mapping import Mapped, map_log
from stages.train.imports.readers import read_csv, read_jsonl, read_snapshot, read_text, read_trainer_state
from stages.train.imports.summary import nonfinite_from, read_summary, step_count, summary_values
from stages.train.imports.tensorboard import read_tensorboard
from stages.train.imports.wandb_file import read_wandb_file
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
        raise Unreadable(f"{path} holds no row" + (f" ({log.cut})" if log.cut else ""))
    return log


def read_run(card: ImportCard, started: Started) -> ReadRun:
    """What the source says of the run. Raises Unreadable."""
    path = Path(card.source.path)
    if card.read.format == "summary":
        return _read_summary(card, started, path)
    log = read_log(path, card.read)
    log.notes += _config_notes(log, card)
    history = map_log(log, card.read, card.target_steps, started.attempt)
    if not history.rows:
        raise Unreadable(f"{path} holds no row of any metric that the spec maps")
    is_end_known = not log.running and (log.steps_done is not None or bool(log.failed) or history.last >= card.target_steps)
    done = max(history.last, log.steps_done or 0)
    is_short = log.steps_done is not None and done < card.target_steps
    failed = log.failed or (f"its own state says {done} of {card.target_steps} steps" if is_short else "")
    return ReadRun(import_record(card, started, history, is_end_known), history.rows, done, failed, log.running)


def _read_summary(card: ImportCard, started: Started, path: Path) -> ReadRun:
    summary = read_summary(path, card.read.where)
    done = step_count(summary, card.read.steps_done) or 0
    values = {
        "last_step": done or None,
        "summary": summary_values(summary, card.read),
        "nonfinite_from": nonfinite_from(summary, card.read),
    }
    return ReadRun(import_record(card, started, Mapped(), done >= card.target_steps).model_copy(update=values), steps_done=done)


def unusable(card: ImportCard, started: Started, error: str) -> ReadRun:
    """What is recorded of a run whose source cannot be used."""
    return ReadRun(import_record(card, started, Mapped(notes=(f"nothing was imported: {error}",)), True), failed=error)


def _config_notes(log: Log, card: ImportCard) -> Iterator[str]:
    """The spec against the run's own config at W&B: a sentence for what agrees and for a seed that differs. Raises Unreadable for a
    setting that differs or is not there: a run that was trained otherwise is not the run that the spec speaks of."""
    for name, value in card.read.config.items():
        if name not in log.settings:
            near = difflib.get_close_matches(name, list(log.settings), n=1, cutoff=0.6)
            meant = f"; did you mean `{near[0]}`?" if near else ""
            raise Unreadable(f"W&B's config of the run has no number `{name}`{meant}")
        setting = log.settings[name]
        if isinstance(setting, bool) != isinstance(value, bool) or setting != value:  # 1 and 1.0 are equal; true and 1 are not
            raise Unreadable(
                f"W&B's config of the run says `{name}` {_shown(setting)}, and the spec says {_shown(value)}: it was trained otherwise"
            )
    if card.read.config:
        settings = ", ".join(f"{name} {_shown(value)}" for name, value in card.read.config.items())
        yield f"the run's config at W&B has what the spec declares: {settings}"
    seed = log.settings.get("seed")
    if isinstance(seed, int) and not isinstance(seed, bool) and seed != card.seed:
        yield f"the run's config at W&B says `seed` {seed}, and the spec says {card.seed}"


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:.6g}" if isinstance(value, float) else str(value)[:40]


def import_record(card: ImportCard, started: Started, history: Mapped, is_end_known: bool, source: SourceCard | None = None) -> Imported:
    """The record of what was read. `source`: where it is not the card's."""
    return Imported(
        card_id=started.card_id,
        attempt=started.attempt,
        source=source or card.source,
        read=card.read,
        rows=history.logged,
        first_step=history.steps[0] if history.steps else None,
        last_step=history.steps[-1] if history.steps else None,
        stride=history.stride,
        gaps=history.gaps[:FEW],
        gap_count=len(history.gaps),
        steps="known" if is_end_known else "unknown",
        notes=history.notes,
        held=history.held,
    )


def outcome_of(card: ImportCard, run: ReadRun, failure: FailureClass | None = None) -> Outcome:
    """How the run stands."""
    is_end_known = run.imported.steps == "known"
    still = f"still running: {run.running}, at step {run.steps_done}" if run.running else f"log ends at {run.steps_done}"
    return Outcome(
        card_id=run.imported.card_id,
        attempt=run.imported.attempt,
        finished=is_end_known and not run.failed and run.steps_done >= card.target_steps,
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
