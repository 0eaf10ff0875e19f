"""A run as pandas frames, read from its Parquet files: what screen, conclude and draw share, and what detectors are given.

Four states of a cell stay apart in one wide frame: a number, NOT_FINITE, NULL, and NaN for what was not logged. Nothing is filled in.
Attempts are merged: a later attempt replaces, from its first step on, all that came before it. A missing file and a file without rows are
both an empty frame, because a failed run leaves little behind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from stages.analyse.cells import NOT_FINITE, NULL, NonFinite, derive, wide_frame
from stages.analyse.groups import NO_COUNTS, paid_to_fall, same_texts, score_table, silent_groups
from stages.contracts.analysis_card import ConditionCard, RunRef, Windows
from stages.contracts.artifact import Artifact, ArtifactError, read
from stages.contracts.history import COMPLETIONS_SCHEMA, GRADIENT_METRICS, HISTORY_COLUMNS, HISTORY_SCHEMA, INFINITIES, SKIPPED
from stages.contracts.layout import RunFolder
from stages.contracts.stops import Expectation, read_length
from stages.rules import stretch, window_length

A = TypeVar("A", bound=Artifact)
_TEXTS = ("attempt", "metric", "state", "text")
SAMPLED = ("reward", "completion_tokens", "entropy", "kl", "grad_norm")
"""Metrics that differ between seeds because sampling does."""
SILENT = "zero_signal_share"
EXAMPLES, EXAMPLE_CHARS, NOTABLE = 3, 400, 0.05
"""Texts are kept of reward values that at least this share of a run's completions has."""


class Window(NamedTuple):
    """Steps first..last, both included."""

    first: int
    last: int

    def __str__(self) -> str:
        return stretch(self.first, self.last)

    @property
    def length(self) -> int:
        return self.last - self.first + 1

    def rows(self, values: pd.Series) -> pd.Series:
        """The part of a series by step that lies inside."""
        return values.loc[self.first : self.last]


POINTS = {f"at-{share}": share for share in (25, 50, 75)}
"""Statistic -> percent of a run's span about which its window lies."""


def window_of(statistic: str, span: int, shares: Windows) -> Window:
    """The window of `initial`, of `final`, or of a point between them: a share of a run's span. A run that stopped early has no values in
    its final window."""
    if statistic == "initial":
        return Window(1, window_length(span, shares.initial))
    length = window_length(span, shares.final)
    first = max(1, span * POINTS[statistic] // 100 - (length - 1) // 2) if statistic in POINTS else span - length + 1
    return Window(first, first + length - 1)


def window_ending(expected: Expectation, target_steps: int, shares: Windows) -> Window:
    """The steps over which an expectation is scored: a part of the run as long as the final window, which ends at its place."""
    last = read_length(expected.at).steps(target_steps)
    return Window(max(1, last - window_length(target_steps, shares.final) + 1), last)


class Resume(NamedTuple):
    """A later attempt's first step, and the last step before it that counts (0: none)."""

    first: int
    before: int
    again: int = 0
    """Steps that the earlier attempt had made too; the later attempt's count."""


@dataclass
class Run:
    """One run: what it logged, its completions, and what a detector may know of the runs beside it."""

    name: str
    condition: str
    role: str
    """treatment, control or null_control."""
    target_steps: int
    """Steps that windows are shares of; of a run that goes on those so far."""
    steps: pd.DataFrame
    """One row a logged step, one column a metric; see the states above."""
    completions: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row a completion: step, group, reward (NaN: unknown), truncated, text, and the status of each gate, as far as they were read."""
    card_id: str | None = None
    """Of the file's metadata; None: there is no file."""
    attempt: str | None = None
    resumes: tuple[Resume, ...] = ()
    notes: tuple[str, ...] = ()
    """What attempts made twice."""
    infinite: frozenset[tuple[str, int]] | None = None
    """Metrics and steps that are Infinity, so that other cells that are not finite are NaN; None: the history does not tell them apart."""
    repeated: int = 0
    """Rows of one attempt that repeat a metric and a step; the last one counts."""
    adapter: Literal["unknown", "changed", "zero"] = "unknown"
    """Of the adapter at the end: zero when all of lora_B is 0, so that it adds nothing to the model."""
    imported: bool = False
    """The run was trained elsewhere: what was not mapped or not exported is absent too."""
    null_finals: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """By metric the final means of the null controls' runs; empty for a null control."""
    twin: str | None = None
    """An earlier run of the same condition that counts and has the same sampled series."""
    elsewhere: str | None = None
    """A run of another condition with the same sampled series."""
    siblings: int = 0
    """Other runs of the same condition."""
    _values: dict[str, pd.Series] = field(default_factory=dict, repr=False)

    @property
    def null_control(self) -> bool:
        return self.role == "null_control"

    @property
    def last_step(self) -> int:
        """0 when nothing was logged."""
        return int(self.steps.index[-1]) if len(self.steps) else 0

    @cached_property
    def stride(self) -> int:
        """Steps from row to row. A row may hold means over them beside the last step's own values, such as the gradient norm of TRL."""
        return usual_distance(self.steps.index)

    @cached_property
    def spacing(self) -> int:
        """The stride, where most rows lie so far apart that a window must be as long to hold one; 1 for rows that lie anyhow."""
        gaps = np.diff(self.steps.index.to_numpy())
        return self.stride if len(gaps) > 1 and (gaps == self.stride).mean() > 0.5 else 1

    def logged(self, metric: str) -> pd.Series:
        """All logged cells of a metric by step, NOT_FINITE and NULL included; empty when it was never logged."""
        return self.steps[metric].dropna() if metric in self.steps else pd.Series(dtype=float)

    def logs(self, metric: str) -> bool:
        return metric in self.steps

    @cached_property
    def _bad(self) -> pd.Series:
        """Whether the gradient was not finite, at the steps that logged something about it."""
        logged = self.steps.reindex(columns=[*GRADIENT_METRICS, SKIPPED]).dropna(how="all")
        skipped = logged[SKIPPED].between(0, NOT_FINITE, inclusive="neither")
        return logged[list(GRADIENT_METRICS)].eq(NOT_FINITE).any(axis=1) | skipped

    @cached_property
    def bad_steps(self) -> pd.Index:
        """Steps whose gradient was not finite: they enter no statistic."""
        return self._bad.index[self._bad]

    @cached_property
    def gradient(self) -> NonFinite | None:
        """How the steps without a finite gradient lie. Persistent from step s ends the valid range at s - 1."""
        return NonFinite.classify(self._bad)

    @property
    def last_gradient(self) -> int:
        """Last step that logged something about its gradient; 0: none did."""
        return int(self._bad.index[-1]) if len(self._bad) else 0

    @property
    def since(self) -> int | None:
        """First step of a gradient that stays not finite to the end of the log."""
        return self.gradient.since if self.gradient else None

    def nonfinite(self, metric: str) -> NonFinite | None:
        """The same of one metric's own cells."""
        return NonFinite.classify(self.logged(metric) == NOT_FINITE)

    def not_finite(self, *metrics: str) -> str:
        """What the cells of metrics that are not finite are: `NaN`, `Infinity`, or both."""
        if self.infinite is None:
            return "NaN or Inf"
        bad = {(name, step) for name in metrics if name in self.steps for step in self.steps.index[self.steps[name] == NOT_FINITE]}
        return " or ".join(word for word, some in (("NaN", bad - self.infinite), ("Infinity", bad & self.infinite)) if some) or "skipped"

    def counting(self, table: pd.DataFrame) -> pd.DataFrame:
        """Rows of a table (or series) by step that may enter statistics."""
        if self.bad_steps.empty:
            return table
        kept = ~table.index.isin(self.bad_steps)
        return table[kept & (table.index < self.since)] if self.since is not None else table[kept]

    @cached_property
    def unscored(self) -> pd.Index:
        """Steps of which the log says that no completion was scored: the reward is null, or its spread where no reward was logged."""
        logged = self.logged("reward" if self.logs("reward") else "reward_std")
        return self.counting(logged[logged == NULL]).index

    def values(self, metric: str) -> pd.Series:
        """Finite values by step that may enter statistics."""
        if metric not in self._values:
            logged = self.logged(metric)
            values = self.counting(logged[np.isfinite(logged)]).astype(float)
            if metric == SILENT:  # where no completion was scored no group has a signal, whatever was logged (TRL logs 0.0)
                values = values.mask(values.index.isin(self.unscored), values.clip(lower=1.0))
                rewards = self.logged(
                    "reward"
                )  # an Infinity or NaN among them is equal to no other, so TRL counts its silent group as live
                values = values[~values.index.isin(rewards.index[rewards == NOT_FINITE])]
            self._values[metric] = values
        return self._values[metric]

    @cached_property
    def flat(self) -> pd.Series:
        """Where no spread within groups was logged, whether the whole batch had none (reward_std exactly 0), 1 or 0 by step: then no group
        had one. Of a batch with a spread nothing follows for its groups. Empty where that never happened."""
        spread = pd.Series(dtype=float) if self.logs(SILENT) or self.logs("group_range") else self.values("reward_std")
        return spread.eq(0.0).astype(float) if spread.eq(0.0).any() else pd.Series(dtype=float)

    def ends(self, metric: str) -> tuple[pd.Series, pd.Series]:
        """Values in the first and in the last window. A run that stopped early has none in the last."""
        n, values = self.window(), self.values(metric)
        return values.loc[1:n], values.loc[self.target_steps - n + 1 : self.target_steps]

    def window(self) -> int:
        """Steps of the first and of the last window: a tenth of the target steps, and at least one row of the log."""
        return max(self.spacing, window_length(self.target_steps, 0.1))

    def keep(self, metrics: set[str]) -> None:
        """Forget completions and all metrics but these, and what says which of their steps count."""
        kept = {*metrics, *GRADIENT_METRICS, SKIPPED, "reward", "reward_std"} if metrics else set()
        self.steps, self.completions = self.steps[[name for name in self.steps if name in kept]], pd.DataFrame()
        self._values.clear()

    def why_none(self, metric: str) -> str:
        """Why `values` of a metric is empty: not logged, no number, or no step that counts."""
        if not self.logs(metric):
            return f"{metric} was not logged"
        if not np.isfinite(self.logged(metric)).any():
            return f"no logged value of {metric} is a number: each is null, NaN or Inf"
        return f"{metric} has no value at a step that counts: the gradient is not finite wherever it was logged"

    @cached_property
    def fingerprint(self) -> str | None:
        """Digest of the sampled series with their steps and states; None when none of them varies: equal constants prove nothing."""
        kept = self.steps[[name for name in SAMPLED if name in self.steps]].dropna(how="all")
        if not (kept.nunique() > 1).any():
            return None
        digest = hashlib.sha256(" ".join(kept.columns).encode())
        digest.update(pd.util.hash_pandas_object(kept + 0.0).to_numpy().tobytes())
        return digest.hexdigest()

    # counts of completions, by step; k of n

    @cached_property
    def silent(self) -> pd.DataFrame:
        """Groups of two completions or more without two different known rewards (k) of all such groups (n)."""
        return silent_groups(self.completions)

    @cached_property
    def parts(self) -> pd.DataFrame:
        """Of each group of a step the reward and the scores of the gates, as score_table has them."""
        return score_table(self.counting(self.completions.set_index("step"))) if "step" in self.completions else pd.DataFrame()

    @cached_property
    def paid_to_fall(self) -> frozenset[str]:
        """Scores that the reward paid less for in the first window."""
        return paid_to_fall(self.parts.loc[: self.window()])

    @cached_property
    def cut(self) -> pd.DataFrame:
        """Completions that were cut at the length limit (k) of all (n)."""
        if "truncated" not in self.completions:
            return NO_COUNTS
        return self.completions.groupby("step")["truncated"].agg(k="sum", n="size").astype(int)

    @cached_property
    def same_text(self) -> pd.DataFrame:
        """Of steps with two prompts or more: completions with the step's most common text (k) of all (n)."""
        return same_texts(self.completions)

    @cached_property
    def rewards(self) -> pd.DataFrame:
        """One row a step, one column an exact reward value, rising: how many completions have it."""
        known = "reward" in self.completions and self.completions["reward"].notna().any()
        return self._exact.groupby([self.completions["step"], self._exact]).size().unstack(fill_value=0) if known else pd.DataFrame()

    @cached_property
    def _exact(self) -> pd.Series:
        """Rewards to nine decimals, so that equal rewards written by different arithmetic are one value; no minus zero."""
        return self.completions["reward"].round(9) + 0.0

    @cached_property
    def examples(self) -> dict[float, list[str]]:
        """The last few distinct texts of each common reward value. Untrusted: escape before showing."""
        if "text" not in self.completions:
            return {}
        totals = self.rewards.sum()
        common = totals.index[totals >= NOTABLE * len(self.completions)]
        texts = {value: self.completions.loc[self._exact == value, "text"].drop_duplicates(keep="last") for value in common}
        return {float(value): [str(text)[:EXAMPLE_CHARS] for text in own.tail(EXAMPLES)] for value, own in texts.items()}


def usual_distance(steps: Any) -> int:
    """The most common distance between rising steps; 1 when there are fewer than two."""
    gaps, counts = np.unique(np.diff(np.asarray(steps)), return_counts=True)
    return int(gaps[counts.argmax()]) if len(gaps) else 1


def read_run(
    place: RunFolder, run: RunRef, condition: ConditionCard, completions: Sequence[str] = (), derived: Mapping[str, str] | None = None
) -> Run:
    """Read a run's history with its derived metrics, and these columns of its completions. Raises ArtifactError for a broken or foreign
    file."""
    rows, metadata = read_table(place.history, HISTORY_SCHEMA, HISTORY_COLUMNS[:2] + HISTORY_COLUMNS[4:], HISTORY_COLUMNS)
    rows, again, notes = merge_attempts(rows)
    infinities = rows.loc[(rows["state"] == "nonfinite") & (rows["value"].abs() == np.inf), ["metric", "step"]]
    steps, repeated = wide_frame(rows)
    for name, text in (derived or {}).items():
        derive(steps, name, text)
    sampled = pd.DataFrame()
    if completions:
        sampled = merge_attempts(read_table(place.completions, COMPLETIONS_SCHEMA, ("attempt", *completions))[0])[0]
    return Run(
        name=run.name,
        condition=run.condition,
        role=condition.role,
        target_steps=run.span,
        steps=steps,
        completions=sampled,
        card_id=metadata.get("octavo.card_id", "") if place.history.is_file() else None,
        attempt=metadata.get("octavo.attempt"),
        resumes=tuple(Resume(first, int(max(steps.index[steps.index < first], default=0)), n) for first, n in again.items()),
        notes=notes,
        infinite=frozenset(infinities.itertuples(index=False, name=None)) if metadata.get(INFINITIES) else None,
        repeated=repeated,
    )


def read_if_there(kind: type[A], path: Path) -> A | None:
    """A JSON artifact; None without the file."""
    return read(kind, path) if path.exists() else None


def read_table(path: Path, schema: str, columns: Sequence[str], required: Sequence[str] = ()) -> tuple[pd.DataFrame, dict[str, str]]:
    """Columns of a Parquet file with its metadata; text columns are categories. ({}, empty) when the file does not exist. Raises
    ArtifactError when it is no Parquet file, of another schema, or lacks a column."""
    if not path.is_file():
        return pd.DataFrame({column: [] for column in columns}), {}
    texts = [name for name in columns if name in _TEXTS or name.endswith((".status", ".reason"))]
    try:
        arrow = pq.read_schema(path)
        metadata = {key.decode(): value.decode() for key, value in (arrow.metadata or {}).items()}
        kinds = {name: arrow.field(name).type for name in columns if name in arrow.names}
        missing = sorted({*columns, *required} - set(arrow.names))
        odd = [
            f"column {name} is {kind}"
            for name, kind in kinds.items()
            if pa.types.is_primitive(kind) is (name in texts) and not pa.types.is_null(kind)
        ]
        if (written := metadata.get("octavo.schema")) != schema:
            what = f"schema is {written!r}, expected {schema!r}"
            raise ArtifactError(path, what, why="another version or another file", fix="dvc repro")
        if missing or odd:
            what = f"columns are missing: {', '.join(missing)}" if missing else odd[0]
            raise ArtifactError(path, what, why=f"{schema} has other columns", fix="octavo compile && dvc repro")
        table = pq.read_table(path, columns=list(columns), read_dictionary=texts, use_threads=False, partitioning=None)
        return table.to_pandas(ignore_metadata=True), metadata
    except (pa.ArrowInvalid, OSError) as error:
        fix = "dvc checkout, or dvc repro"
        raise ArtifactError(path, f"not a Parquet file: {error}", why="it was cut or overwritten", fix=fix) from None


def merge_attempts(rows: pd.DataFrame) -> tuple[pd.DataFrame, dict[int, int], tuple[str, ...]]:
    """Rows of the trajectory that counts, steps that were made again by the first step of each attempt that went on after another one, and
    the same in words.

    Attempts are in order of their first row. Rows beyond the later attempt's last step go too: that trajectory was given up.
    """
    codes, names = pd.factorize(rows["attempt"], use_na_sentinel=False)
    if len(names) < 2:
        return rows, {}, ()
    steps, kept = rows["step"].to_numpy(), np.ones(len(rows), dtype=bool)
    firsts, again, notes = pd.Series(steps).groupby(codes).min(), dict[int, int](), list[str]()
    for code in range(len(names) - 1):
        by = firsts[code + 1 :].idxmin()
        lost = (codes == code) & (steps >= firsts[by])
        if lost.any():
            first, last = int(steps[lost].min()), int(steps[lost].max())
            again[first] = max(again.get(first, 0), last - first + 1)
            notes.append(f"steps {first}-{last} of attempt {names[code]} were made again by attempt {names[by]}; the later rows count")
            kept &= ~lost
    begun = sorted(pd.Series(steps[kept]).groupby(codes[kept], sort=False).min().iloc[1:].tolist())
    return rows[kept], {first: again.get(first, 0) for first in begun}, tuple(notes)
