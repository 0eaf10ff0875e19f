"""Score the stored completions of a run again with today's gates, and say what changes. Reads only; no stage of a pipeline.

The gates, their order, the curriculum's phase and the keys of seeded gates are as they were in training, step by step, so equal gates
give equal rewards. `octavo rescore` prints the report.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Literal

import pandas as pd
from pydantic import ConfigDict

from stages.contracts.artifact import Artifact, ArtifactError, Frozen
from stages.contracts.history import COMPLETIONS_COLUMNS, COMPLETIONS_SCHEMA, PROMPT_COLUMN, gate_columns
from stages.contracts.layout import RunFolder
from stages.contracts.model import DatasetRef
from stages.contracts.plugin import Answer
from stages.contracts.reward import Reward
from stages.train.data import Row, read_rows
from stages.train.refusals import refusal
from stages.train.rewards.compose import Composed, compose, sandbox
from stages.train.scoring import completion_rows

NO_ROW = "its prompt is no longer in the data"
TOLERANCE = 1e-9
"""Rewards that differ by less are equal."""

Completion = dict[str, Any]
"""A row of completions.parquet."""


class ScoredCard(Frozen):
    """What scoring needs of a train card, of whatever algorithm and age: keys that it does not know are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    experiment: str
    condition: str
    seed: int
    data: DatasetRef
    reward: Reward
    train: dict[str, Any]


class Rescoring(Artifact):
    """The report."""

    SCHEMA: ClassVar[str] = "octavo.rescoring/1"

    run: str
    scored_with: Literal["card", "spec"]
    """card: the reward that the run was trained on; spec: the one that the spec declares now."""
    reward: str
    card_id: str
    """Card of the attempt that wrote the completions."""
    sandbox: str
    seconds: float
    completions: int
    steps: int
    higher: int
    """Completions whose reward rose. Both rewards known, as for `lower`."""
    lower: int
    newly_unknown: int
    newly_known: int
    changed: int
    """Completions whose reward is another one: the four above."""
    unknown_before: int
    unknown_after: int
    without_row: int
    """Completions whose prompt is no longer in the data: unknown today."""
    mean_before: float | None
    mean_after: float | None
    gates: tuple[dict[str, Any], ...]
    """`gate`; `before` and `after`: counts of `passed`, `failed`, `unknown` and `not_reached` (`before` is null where no column of it is
    stored); `changed`: completions that it judges differently; of those `gained` (it passes them now) and `lost` (it passed them)."""
    curve: tuple[dict[str, Any], ...]
    """One entry a step; of a step that was made twice, the attempt that counts. `step`, `completions`, `groups` (of two completions or
    more) and, then and now (`_before`, `_after`): `reward` (mean of the known, null when there is none), `unknown`,
    `zero_signal` (groups whose known rewards are all equal)."""
    changes: tuple[dict[str, Any], ...]
    """Completions whose reward, or what a gate says of them, is another one today: `attempt`, `step`, `prompt_id`, `group`, `place` among
    the step's completions (from 0), `reward_before`, `reward_after`, `gates` that say something else (`gate`, `before`, `score_before`,
    `after`, `score_after`, and `reason` of today), `text`. Prompt, reasons and text are untrusted."""


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
        raise refusal("S298", path=path, state="is missing")
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
        raise refusal("S298", path=path, state="holds none")
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
    scores = iter(completion_rows(composed.score(answers, progress), answers))
    gone: Completion = {"reward": None}
    for gate in card.reward.gates:
        gone |= dict(zip(gate_columns(gate.name), ("unknown", None, NO_ROW), strict=True))
    kept = [column for column in (*COMPLETIONS_COLUMNS, PROMPT_COLUMN) if column != "reward" and column in batch[0]]
    return [{**(next(scores) if row["prompt_id"] in rows else gone), **{column: row[column] for column in kept}} for row in batch]


def compare(stored: Sequence[Completion], scored: Sequence[Completion], reward: Reward, **rest: Any) -> Rescoring:
    """The report of rows then and now, in one order. `rest`: its fields that no row holds."""
    gates = {gate.name: gate_columns(gate.name) for gate in reward.gates}
    columns = [column for gate in gates.values() for column in gate]
    floats = dict.fromkeys(["reward", *(score for _, score, _ in gates.values())], float)
    before, after = pd.DataFrame(stored), pd.DataFrame(scored).astype(floats)
    before = before.reindex(columns=[*dict.fromkeys([*before, *columns])]).astype(floats)
    old, new = before["reward"], after["reward"]
    is_other = pd.DataFrame(
        {
            gate: before[status].notna() & ((before[status] != after[status]) | _differ(before[score], after[score]))
            for gate, (status, score, _) in gates.items()
        }
    )
    changed = before.index[is_other.any(axis=1) | _differ(old, new)]
    places = before.groupby(["attempt", "step"], sort=False).cumcount()
    return Rescoring(
        reward=reward.name,
        completions=len(stored),
        steps=before["step"].nunique(),
        higher=int((new > old + TOLERANCE).sum()),
        lower=int((new < old - TOLERANCE).sum()),
        newly_unknown=int((old.notna() & new.isna()).sum()),
        newly_known=int((old.isna() & new.notna()).sum()),
        changed=int(_differ(old, new).sum()),
        unknown_before=int(old.isna().sum()),
        unknown_after=int(new.isna().sum()),
        mean_before=_number(old.mean()),
        mean_after=_number(new.mean()),
        gates=tuple(_gate(gate, before[status], after[status], is_other[gate]) for gate, (status, _, _) in gates.items()),
        curve=_curve(before.assign(new=new)),
        changes=tuple(
            _change(int(places[row]), stored[row], scored[row], [gate for gate in gates if is_other.at[row, gate]]) for row in changed
        ),
        **rest,
    )


def _differ(old: pd.Series, new: pd.Series) -> pd.Series:
    return (old.isna() != new.isna()) | ((old - new).abs() > TOLERANCE)


def _number(value: float) -> float | None:
    return None if pd.isna(value) else float(value)


def _gate(gate: str, before: pd.Series, after: pd.Series, is_other: pd.Series) -> dict[str, Any]:
    was_judged, passed, passes = bool(before.notna().any()), before == "pass", after == "pass"
    names = {"pass": "passed", "fail": "failed", "unknown": "unknown", "not_reached": "not_reached"}
    then, now = (column.value_counts().reindex(list(names), fill_value=0).rename(names).to_dict() for column in (before, after))
    gained = int((passes & ~passed).sum()) if was_judged else 0
    changed = {"changed": int(is_other.sum()), "gained": gained, "lost": int((passed & ~passes).sum())}
    return {"gate": gate, "before": then if was_judged else None, "after": now, **changed}


def _curve(rows: pd.DataFrame) -> tuple[dict[str, Any], ...]:
    """By step. A later attempt replaces, from its first step on, all that came before it."""
    first = rows.groupby("attempt", sort=False)["step"].min()
    end = first[::-1].cummin()[::-1].shift(-1, fill_value=rows["step"].max() + 1)
    rows = rows[rows["step"] < rows["attempt"].map(end)]
    groups = rows.groupby(["step", "group"])[["reward", "new"]]
    is_silent = ~(groups.max() > groups.min())[groups.size() > 1]  # a completion that is alone in its group is compared with none
    steps = rows.assign(unknown=rows["reward"].isna(), newly=rows["new"].isna()).groupby("step")
    sums, silent = steps[["unknown", "newly"]].sum(), is_silent.groupby("step").agg(["sum", "size"])
    table = pd.DataFrame({"completions": steps.size(), "unknown_before": sums["unknown"], "unknown_after": sums["newly"]})
    table[["zero_signal_before", "zero_signal_after"]] = silent.xs("sum", axis=1, level=1).reindex(table.index, fill_value=0)
    table["groups"] = silent["reward", "size"].reindex(table.index, fill_value=0)
    means = steps[["reward", "new"]].mean()
    return tuple(
        {"step": step, **counts, "reward_before": _number(means.at[step, "reward"]), "reward_after": _number(means.at[step, "new"])}
        for step, counts in table.astype(int).to_dict("index").items()
    )


def _change(place: int, then: Completion, now: Completion, gates: Sequence[str]) -> dict[str, Any]:
    """A completion that changed. `place`: among the step's completions; `gates`: those that say something else."""
    verdicts = []
    for gate in gates:
        status, score, reason = gate_columns(gate)
        scores = {"score_before": then[score], "score_after": now[score]}
        verdicts.append({"gate": gate, "before": then[status], "after": now[status], **scores, "reason": now[reason] or ""})
    shared = {key: then[key] for key in ("attempt", "step", "prompt_id", "group", "text")}
    return {**shared, "place": place, "reward_before": then["reward"], "reward_after": now["reward"], "gates": verdicts}
