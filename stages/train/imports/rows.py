"""Which rows of a log are the run's: those that the spec chooses by columns; and whether the log holds several runs after all."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pandas as pd

from stages.train.imports.log import Log, NoNumber, Unreadable, number, shortened

_ID = re.compile(
    r"(?:.*[^a-z])?(?:run|seed|trial|experiment|exp|algorithm|algo|method|model|job|uid|arm|condition|variant|replica|config|setting|group|split"
    r"|rank|process|worker|pid|id|name)s?",
    re.IGNORECASE,
)
"""Names of columns that tell runs apart, if the rows of each of their values begin at the first step."""


def chosen(log: Log, where: Mapping[str, Any]) -> Log:
    """The log with only the rows that hold all of `where`. Raises Unreadable for a column that is not there, and for no such row."""
    table = log.table
    for name, value in where.items():
        if name not in table:
            near = difflib.get_close_matches(name, log.columns, n=1, cutoff=0.6)
            meant = f"; did you mean `{near[0]}`?" if near else "."
            raise Unreadable("no_where_column", column=name, meant=meant, columns=shortened(sorted(log.columns), 12))
        held = table[name]
        table = table[[_is_equal(cell, value) for cell in held]]
        if table.empty:
            raise Unreadable("no_where_row", wanted=json.dumps(dict(where), ensure_ascii=False), column=name, held=_values(held))
    log.table = table  # rows keep their numbers, which messages name
    return log


def _is_equal(cell: Any, value: bool | int | float | str) -> bool:
    """A cell is a number, a text, or missing; a table writes true and false as texts, JSON as numbers."""
    if isinstance(cell, str):
        return cell.strip() == str(value) or (isinstance(value, bool) and cell.strip().lower() == str(value).lower())
    try:
        return cell is not None and cell == number(value)
    except NoNumber:
        return False


def _values(cells: pd.Series[Any]) -> str:
    return shortened([f"{cell:g}" if isinstance(cell, float) else str(cell)[:40] for cell in dict.fromkeys(cells.dropna())], 8)


def check_one_run(log: Log, steps: Mapping[int, int], parts: Mapping[int, int], target: int, stride: int) -> None:
    """Raise Unreadable for a log of several runs: a column tells them apart, or it reaches its target (event files: comes to another
    folder) and begins again at its first step, or ends three times at one step. `steps` and `parts`: of rows that hold a metric."""
    rows = pd.DataFrame({"step": pd.Series(steps), "part": pd.Series(parts)})
    first = rows["step"].min()
    telling = [(runs, name) for name in log.columns if _ID.fullmatch(name) and len(runs := _begun(log, name, rows)) > 1]
    if telling:
        runs, name = max(telling, key=lambda each: len(each[0]))
        each = {"column": name, "count": len(runs), "values": _values(pd.Series(runs)), "step": first}
        raise Unreadable("several_ids", **each, first=_values(pd.Series(runs[:1])))
    extents = rows.assign(row=rows.index).groupby("part").agg(begins=("row", "min"), low=("step", "min"), high=("step", "max"))
    again = []
    for above, part in pairwise(extents.itertuples()):
        is_elsewhere = any(above.begins < start <= part.begins for start in log.elsewhere)
        if part.low <= first and (is_elsewhere or above.high > target - stride):
            again.append(above.high)
    if len(extents) > 2 and extents["low"].nunique() == extents["high"].nunique() == 1:  # nobody stops three times at one step
        again = [extents["high"].iloc[0]] * (len(extents) - 1)
    if again:
        raise Unreadable("several_runs", count=len(again) + 1, reached=again[0], target=target, step=first)


def _begun(log: Log, name: str, rows: pd.DataFrame) -> list[Any]:
    """The values of a column whose rows begin at the first step."""
    cells = log.table[name].reindex(rows.index).dropna()
    if not 1 < cells.nunique() <= max(2, len(rows) // 2):
        return []
    begins = rows["step"].groupby(cells, sort=False).min()
    return list(begins.index[begins == rows["step"].min()])
