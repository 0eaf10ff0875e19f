"""Cells without a number in a log: not logged (filler of a data frame, a column that never had a number), null (a part of the reward that
was not asked), or broken (NaN or Infinity)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from stages.contracts.history import GRADIENT_METRICS, of_completions
from stages.contracts.import_card import ColumnCard
from stages.train.imports.log import INFINITE, NAN, Log, sentence, shortened

Columns: TypeAlias = dict[ColumnCard, "pd.Series[Any]"]
_REWARDS = ("reward", "reward_std")
_ENOUGH = 3
"""Rows with a loss that lives, beside which a gradient norm that is always NaN was not logged."""
_FEW_COLUMNS = 4
"""Of so few columns a row without any number is no filler: all that was logged may have broken at once."""


def logged_cells(log: Log, columns: Mapping[ColumnCard, pd.Series[Any]]) -> tuple[Columns, list[str]]:
    """The cells that were logged, with the NaN of a part that was not asked as null, and sentences on what was left out."""
    kept, filled = _without_filler(log, columns)
    notes = [sentence("filler", columns=shortened(filled))] if filled else []
    silent = [card for card, cells in kept.items() if len(cells) and not _has_value(cells) and _is_not_logged(card, kept)]
    notes += [sentence("never", columns=shortened([f"`{card.column}`" for card in silent]))] if silent else []
    abstained = list[str]()
    for card, cells in kept.items():
        asked_not = cells == NAN
        if card.metric.startswith("gate.") and card not in silent and asked_not.any():
            kept[card] = cells.mask(asked_not, None)
            abstained.append(f"`{card.column}` {int(asked_not.sum())} of {len(cells)}")
    notes += [sentence("abstained", counts=shortened(abstained))] if abstained else []
    return {card: cells.iloc[:0] if card in silent else cells for card, cells in kept.items()}, notes


def _is_value(cell: object) -> bool:
    return isinstance(cell, str) or (isinstance(cell, float) and (math.isfinite(cell) or cell == INFINITE))


def _has_value(cells: Iterable[object]) -> bool:
    return any(map(_is_value, cells))


def _without_filler(log: Log, columns: Mapping[ColumnCard, pd.Series[Any]]) -> tuple[Columns, list[str]]:
    """A data frame holds NaN or null in the columns of one call of log() at the rows of another. Such a row has a number in a column that
    never stands beside a number of the cell's own, and lacks most of those that do; or it is empty and the numbers go on after it."""
    empty = {card: cells.index[[not _is_value(cell) for cell in cells]] for card, cells in columns.items()}
    if not any(len(rows) for rows in empty.values()):
        return dict(columns), []
    table = log.table.drop(columns=log.index, errors="ignore")
    filled = (table.notna() & (table != NAN)).to_numpy()
    own = filled.any(axis=0) & ~filled.all(axis=0)  # a time or an epoch is in every row, and of no call
    kept: Columns = {}
    names = list[str]()
    for card, cells in columns.items():
        rows = empty[card].to_numpy()
        values = cells.index.difference(empty[card]).to_numpy()
        beside = own & filled[values].any(axis=0) if len(values) else own
        apart = own & ~beside if len(values) else own
        others, partners = (filled[np.ix_(rows, np.flatnonzero(columns))] for columns in (apart, beside))
        other_call = others.any(axis=1) & (partners.sum(axis=1) < beside.sum() / 2)
        blank = ~filled[np.ix_(rows, np.flatnonzero(own))].any(axis=1) & (own.sum() > _FEW_COLUMNS)
        blank &= (rows < values.max(initial=-1)) | cells[rows].isna().to_numpy()
        filler = other_call | blank
        kept[card] = cells.drop(index=rows[filler])
        names += [f"`{card.column}` at {int(filler.sum())}"] if filler.any() else []
    return kept, names


def _is_not_logged(card: ColumnCard, kept: Columns) -> bool:
    """Whether a column without any number means that nothing was logged. A gradient may be NaN from the first row on, and then the loss
    beside it is NaN or, as trainers log it, 0; rewards may be null for all completions."""
    numbers = {other.metric: cells[[_is_value(cell) for cell in cells]] for other, cells in kept.items()}
    if card.metric in _REWARDS:
        return any(len(numbers.get(metric, ())) for metric in _REWARDS) or not any(
            len(values) and of_completions(metric) for metric, values in numbers.items()
        )
    if card.metric not in GRADIENT_METRICS or not (kept[card] == NAN).any():
        return True
    return card.metric == "grad_norm" and "loss" in numbers and (numbers["loss"] != 0.0).sum() >= _ENOUGH
