"""Score the stored completions of a run again with today's gates, and say what changes. Reads only; no stage of a pipeline.

The gates, their order, the curriculum's phase and the keys of seeded gates are as they were in training, step by step, so equal gates
give equal rewards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal

from stages.contracts.artifact import ArtifactError
from stages.contracts.diagnostic import StageError
from stages.contracts.history import COMPLETIONS_COLUMNS, COMPLETIONS_SCHEMA, gate_columns
from stages.contracts.layout import RunFolder
from stages.contracts.plugin import Answer
from stages.train.data import Row, read_rows
from stages.train.rescoring import Completion, Rescoring, ScoredCard, compare
from stages.train.rewards.compose import Composed, compose, sandbox
from stages.train.scoring import completion_rows

NO_ROW = "its prompt is no longer in the data"


def rescore(
    run: RunFolder, card: ScoredCard, scored_with: Literal["card", "spec"], progress: Callable[[int, int], None]
) -> tuple[Rescoring, list[Completion]]:
    """The report, and the rows of a new completions.parquet. `progress` gets (completions scored so far, all of them). Raises StageError
    S298 when there are no completions, S201 and S202 for the data, S220 when no sandbox holds; ArtifactError for a file that is none
    of ours."""
    stored, metadata = read_completions(run.completions)
    tier = sandbox(card.reward.gates)
    rows = {row["id"]: row for row in read_rows(card.data)}
    composed, begun = compose(card.reward), time.monotonic()
    scored: list[Completion] = []
    for _, batch in groupby(stored, key=lambda row: (row["attempt"], row["step"])):
        scored += _scored_again(card, composed, list(batch), rows)
        progress(len(scored), len(stored))
    report = compare(
        stored,
        scored,
        card.reward,
        run=run.root.as_posix(),
        scored_with=scored_with,
        card_id=metadata.get("octavo.card_id", ""),
        sandbox=tier,
        seconds=round(time.monotonic() - begun, 3),
        without_row=sum(row["prompt_id"] not in rows for row in stored),
    )
    return report, scored


def read_completions(path: Path) -> tuple[list[Completion], dict[str, str]]:
    """All rows of a completions.parquet, in the order they were made, and its metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise _no_completions(path, "is missing")
    try:
        table = pq.read_table(path, use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise ArtifactError(path, f"not a Parquet file: {error}", why="it was cut or overwritten", fix=f"dvc checkout {path}") from None
    metadata = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    missing = sorted(set(COMPLETIONS_COLUMNS) - set(table.column_names))
    if metadata.get("octavo.schema") != COMPLETIONS_SCHEMA or missing:
        what = f"schema is {metadata.get('octavo.schema')!r}, columns missing: {', '.join(missing) or 'none'}"
        raise ArtifactError(path, what, why=f"completions are {COMPLETIONS_SCHEMA}", fix=f"dvc checkout {path}")
    if not table.num_rows:
        raise _no_completions(path, "holds none")
    return table.to_pylist(), metadata


def _scored_again(card: ScoredCard, composed: Composed, batch: Sequence[Completion], rows: Mapping[str, Row]) -> list[Completion]:
    """One batch with today's rewards. A completion whose prompt is gone is unknown and never reaches a gate."""
    step, steps = batch[0]["step"], card.train.get("max_steps")
    answers = [
        Answer(row["text"], rows[name], row["truncated"], f"{card.seed}:{step}:{name}:{place}", tokens=row["tokens"])
        for place, row in enumerate(batch)
        if (name := row["prompt_id"]) in rows
    ]
    progress = (step - 1) / steps if card.reward.curriculum and steps else 0.0
    scores = iter(completion_rows(composed.score(answers, progress), answers, [0] * len(answers), 1))
    gone: Completion = {"reward": None}
    for gate in card.reward.gates:
        gone |= dict(zip(gate_columns(gate.name), ("unknown", None, NO_ROW), strict=True))
    kept = [column for column in COMPLETIONS_COLUMNS if column != "reward"]
    return [{**(next(scores) if row["prompt_id"] in rows else gone), **{column: row[column] for column in kept}} for row in batch]


def _no_completions(path: Path, what: str) -> StageError:
    return StageError(
        "S298",
        f"no completions to score again: {path} {what}",
        why="a run keeps the completions that it was trained on; one that never trained, or was imported without them, has none",
        fix=f"dvc pull {path}, or dvc repro",
    )
