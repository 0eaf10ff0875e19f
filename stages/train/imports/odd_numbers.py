"""Cells that are no numbers as people write them, and numbers that a metric cannot have: what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from stages.contracts.history import metric
from stages.contracts.import_card import ColumnCard
from stages.train.imports.log import Unreadable

_POINT = "write numbers with a point and without separators of thousands: it may be either"
_ODD = (
    (re.compile(r"[-+]?[0-9.,]+ ?%"), "leave the sign away and say `unit: '%'`"),
    (re.compile(r"[-+]?[0-9]+,[0-9]+(?:[eE][-+]?[0-9]+)?"), _POINT),
    (re.compile(r"[-+]?[0-9]{1,3}(?:[,.' _][0-9]{3})+(?:[.,][0-9]*)?"), "write it without separators of thousands"),
    (re.compile(r"[-–—?.]+|na|missing|undefined|#[a-z0-9/]+[!?]?", re.I), "leave a cell empty where nothing was logged, or write null"),
    (re.compile(r"a list of [0-9]+"), "log one number a column"),
)
_ROUNDING = 1e-6


def hint(cell: Any) -> str:
    """What to write in place of a cell, as the end of a sentence; empty when nobody can tell."""
    text = str(cell).strip()
    return next((f"; {fix}" for odd, fix in _ODD if odd.fullmatch(text)), "")


def shares(card: ColumnCard, rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A sentence for values of a share that no share can have. Raises Unreadable when most are so: the unit is another."""
    found = metric(card.metric)
    if found is None or not found.share:
        return
    values = [row for row in rows if row["value"] is not None]
    beyond = [row for row in values if not -_ROUNDING <= row["value"] <= 1 + _ROUNDING]
    if not beyond:
        return
    first = f"{beyond[0]['value']:.6g} at step {beyond[0]['step']}"
    said = f"`{card.metric}` is a share, and {len(beyond)} of {len(values)} values of `{card.column}` are beyond 0 to 1 ({first})"
    if len(beyond) > len(values) / 2:
        other = f"is it in per cent? {card.metric}: {{column: {card.column}, unit: '%'}}"
        raise Unreadable(f"{said}; {other if card.factor == 1 else 'is its `unit` really so?'}")
    yield said
