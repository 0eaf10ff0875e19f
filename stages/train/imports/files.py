"""A card and its sources -> what an import leaves behind: history, completions (none), outcome and imported.json, as training writes them.

The same each time, so that `octavo verify` can import again and compare.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stages.contracts.artifact import write
from stages.contracts.attempt import FailureClass, Outcome, Started
from stages.contracts.files import file_digest
from stages.contracts.import_card import ImportCard, Imported, ReadCard, SourceCard, ending
from stages.contracts.layout import RunFolder
from stages.train.attempts import classify
from stages.train.imports.binary import read_tensorboard, read_wandb_file
from stages.train.imports.console import read_console
from stages.train.imports.log import STEPS, WANDB_STEP, Log, Unreadable, joined, sentence
from stages.train.imports.mapping import Mapped, map_log, nothing, places
from stages.train.imports.readers import read_csv, read_jsonl, read_parquet, read_snapshot, read_text, read_trainer_state
from stages.train.imports.rows import chosen
from stages.train.imports.summary import nonfinite_from, read_summary, step_count, summary_values
from stages.train.recorder import write_completions, write_history

_READERS = {
    "trainer_state": read_trainer_state,
    "wandb": read_snapshot,
    "wandb_file": read_wandb_file,
    "tensorboard": read_tensorboard,
    "jsonl": read_jsonl,
    "csv": read_csv,
    "parquet": read_parquet,
}
_OF_WANDB = tuple(name for name in STEPS if "/" in name)
"""A plain `step` at W&B may be anybody's."""


@dataclass(frozen=True)
class ReadRun:
    """What a source says of a run, before an attempt has a name."""

    source: SourceCard
    history: Mapped
    """Of series the rows, each with the part of the attempt that it is of (`-part2`)."""
    is_end_known: bool = True
    steps_done: int = 0
    at_least: bool = False
    """Whether the steps done are those of a checkpoint, after which the run may have gone on."""
    finished: str = ""
    """What the source says of a run that ended well, be it before its target."""
    failed: str = ""
    """What the source says of a run that did not end well."""
    running: str = ""
    """What the source says of a run that may go on."""
    failure: FailureClass | None = None
    """Of a source that could not be used."""


def read_log(path: Path, read: ReadCard) -> Log:
    """Read a log of any format but `summary`. Raises Unreadable, also for one without a row, or OSError for a file that cannot be read."""
    index = read.epoch or read.step
    if read.format == "text":
        log = read_text(path, read.pattern or "", index or "step")
    elif read.format == "console":
        log = read_console(path, {name for column in read.columns for name in column.names}, index)
    else:
        log = _READERS[read.format](path, index) if index else _READERS[read.format](path)
    if index is None and log.index not in log.table:
        known = _OF_WANDB if log.index == WANDB_STEP else STEPS
        log.index = next((name for name in known if name in log.table), log.index)
    if log.table.empty:
        raise Unreadable("no_row", path=path, cut=f" ({log.cut})" if log.cut else "")
    return chosen(log, read.where)


def read_tries(card: ImportCard, is_pinned: bool = True) -> list[ReadRun]:
    """Each try to train the run, its files read once. Last the one that counts: with the most steps; of equals one that finished, then the
    later one of the spec. A log that begins where the one before it had already been goes on with that one: both are one try.
    Sources that cannot be used come first, each with its failure; so does one that has another content than its card pins."""
    tries: list[ReadRun] = []
    waiting: list[tuple[SourceCard, Log]] = []
    for source in card.sources:
        try:
            if card.read.format == "summary":
                tries.append(_read_summary(card, source))
                continue
            log = read_log(Path(source.path), card.read)
            if waiting and not _goes_on(waiting, log, card.read):
                tries.append(_mapped_try(card, waiting))
                waiting = []
            waiting.append((source, log))
        except Exception as caught:
            failure, error = classify(caught)
            tries.append(unusable(source, error, failure))
    tries += [_mapped_try(card, waiting)] if waiting else []
    for at, run in enumerate(tries):
        if is_pinned and run.failure is None and file_digest(Path(run.source.path)) != run.source.sha256:
            tries[at] = unusable(run.source, sentence("still_written", path=run.source.path))
    return sorted(tries, key=lambda run: (-1 if run.failure else run.steps_done, _is_finished(run, card)))


def _goes_on(before: Sequence[tuple[SourceCard, Log]], log: Log, read: ReadCard) -> bool:
    """Whether a log begins behind the first steps of those before it, and comes further than the last of them."""
    first, last, own = places(before[0][1], read), places(before[-1][1], read), places(log, read)
    return before[0][1].index == log.index and bool(first and last and own) and own[0] > first[:2][-1] and own[-1] > last[-1]


def _mapped_try(card: ImportCard, logs: Sequence[tuple[SourceCard, Log]]) -> ReadRun:
    """A try of one log, or of several that go on with each other."""
    (source, log), paths = logs[-1], [source.path for source, _ in logs]
    try:
        if len(logs) > 1:
            log = joined([log for _, log in logs])
            log.notes.append(sentence("goes_on", paths=", ".join(paths)))
        return replace(read_run(card, log), source=source)
    except Exception as caught:
        failure, error = classify(caught)
        return unusable(source, error, failure)


def read_run(card: ImportCard, log: Log) -> ReadRun:
    """What a log says of the run. Raises Unreadable."""
    if card.read.state:
        logged = log.logged(card.read.state).dropna()
        for kind, words in _state(logged.iloc[-1] if len(logged) else None, card).items():
            setattr(log, kind, words)
    log.is_one_run = card.command is not None
    log.notes += _config_notes(log, card)
    history = map_log(log, card.read, card.target_steps, "")
    if not history.rows:
        raise Unreadable("no_mapped_row", path=card.source.path, columns=", ".join(sorted(log.columns)[:12]) or "none")
    done = max(history.last, log.steps_done or 0)
    is_end_known = not log.running and (bool(log.finished or log.failed) or done >= card.target_steps)
    at_least = log.steps_done is not None
    return ReadRun(card.source, history, is_end_known, done, at_least, finished=log.finished, failed=log.failed, running=log.running)


def _read_summary(card: ImportCard, source: SourceCard) -> ReadRun:
    """What the summary of a run says. Raises Unreadable."""
    summary = read_summary(Path(source.path), card.read.where)
    done = step_count(summary, card.read.steps_done) or 0
    values = {"summary": summary_values(summary, card.read), "nonfinite_from": nonfinite_from(summary, card.read)}
    history = Mapped(record={**nothing().record, "last_step": done or None, **values})
    ends = _state(summary.get(card.read.state), card) if card.read.state else {}
    is_end_known = "running" not in ends and (done >= card.target_steps or bool(ends))
    return replace(ReadRun(source, history, is_end_known, done), **ends)  # type: ignore[arg-type]  # its keys are fields of texts


def _state(word: object, card: ImportCard) -> dict[str, str]:
    """What a word of the source says of a run's end, by a field of ReadRun; nothing for a word that is not known."""
    kind = ending(word)
    return {} if kind == "unknown" else {kind: f"`{card.read.state}` says `{str(word)[:40]}`"}


def unusable(source: SourceCard, error: str, failure: FailureClass = "data") -> ReadRun:
    """What is recorded of a run whose source cannot be used."""
    return ReadRun(source, nothing(sentence("nothing", error=error)), failed=error, failure=failure)


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


def imported(card: ImportCard, started: Started, run: ReadRun) -> Imported:
    """The record of what was read."""
    steps, record = "known" if run.is_end_known else "unknown", run.history.record
    if card.others:
        counts = sentence("furthest", count=len(card.sources), path=run.source.path)
        record = {**record, "notes": (*record.get("notes", ()), counts)}
    named = {column.metric: column for column in run.history.columns}
    read = card.read.model_copy(update={"columns": tuple(named.get(column.metric, column) for column in card.read.columns)})
    return Imported(card_id=started.card_id, attempt=started.attempt, source=run.source, read=read, steps=steps, **record)


def _is_finished(run: ReadRun, card: ImportCard) -> bool:
    return run.is_end_known and not run.failed and (bool(run.finished) or run.steps_done >= card.target_steps)


def outcome_of(card: ImportCard, started: Started, run: ReadRun) -> Outcome:
    """How the run stands."""
    still = f"log ends at {run.steps_done}"
    if run.running:
        still = f"still running: {run.running}, at step {run.steps_done}"
    elif run.at_least:
        still = f"at least {run.steps_done} steps done, as the state of a checkpoint says"
    return Outcome(
        card_id=started.card_id,
        attempt=started.attempt,
        finished=_is_finished(run, card),
        steps_done=run.steps_done,
        target_steps=card.target_steps,
        failure=run.failure,
        error=run.failed or None,
        unknown="" if run.is_end_known else still,
    )


def write_files(folder: RunFolder, card: ImportCard, started: Started, run: ReadRun) -> Outcome:
    """Write all of them; how the run stands."""
    identity, outcome = {"card_id": started.card_id, "attempt": started.attempt}, outcome_of(card, started, run)
    rows = [{"tokens": None, "seconds": None, **row, "attempt": started.attempt + row["attempt"]} for row in run.history.rows]
    write_history(folder.history, rows, **identity)
    write_completions(folder.completions, [], [], **identity)
    write(folder.imported, imported(card, started, run))
    write(folder.outcome, outcome)
    return outcome
