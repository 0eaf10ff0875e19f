"""A card and its source -> what an import finds: the same each time, so that `octavo verify` can ask again."""

from __future__ import annotations

from pathlib import Path

from stages.contracts.attempt import Started
from stages.contracts.import_card import ImportCard, Imported
from stages.train.imports.declared import declared
from stages.train.imports.files import Found, imported
from stages.train.imports.log import Log, Unreadable
from stages.train.imports.mapping import Mapped, mapped
from stages.train.imports.readers import read_log
from stages.train.imports.summary import read as read_summary
from stages.train.imports.summary_values import nonfinite_from, steps, values


def found_in(card: ImportCard, started: Started) -> Found:
    """What the source says of the run. Raises Unreadable."""
    path = Path(card.source.path)
    if card.read.format == "summary":
        return _summary(card, started, path)
    log = read_log(path, card.read)
    log.notes += declared(log, card)
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


def nothing(card: ImportCard, started: Started, error: str) -> Found:
    """What is known of a run whose source cannot be used."""
    none = Mapped([], 0, (), 1, (), (f"nothing was imported: {error}",))
    return Found(imported(card, started, none, True, card.source), [], 0, error)
