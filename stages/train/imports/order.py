"""Steps that fall: a resume, which logs steps again, or rows in no order, or those of several runs. Only a resume has a meaning."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from stages.train.imports.cells import NoNumber, number
from stages.train.imports.log import Column, Unreadable

FEW = 5
_AT_LEAST = 3


def parts(columns: Mapping[str, Column], steps: Mapping[int, int], exact: bool = True, starts: Collection[int] = ()) -> dict[int, int]:
    """Row -> number of its part. A part begins where a metric is logged at a step below its last one; rows of other metrics may come
    late. `exact`: whether steps tell rows apart, which printed epochs do not. Raises Unreadable for steps in no order."""
    if not _any_falls(columns, steps):
        return dict.fromkeys(steps, 0)
    of_row: dict[int, list[str]] = {}
    for metric, column in columns.items():
        for row in column.rows:
            if row in steps:
                of_row.setdefault(row, []).append(metric)
    found: dict[int, int] = {}
    logged: list[dict[str, list[int]]] = [{}]
    begins = [0]
    for row in sorted(of_row):
        step, mine = steps[row], logged[-1]
        if any(metric in mine and step < mine[metric][-1] for metric in of_row[row]):
            mine = {}
            logged.append(mine)
            begins.append(row)
        for metric in of_row[row]:
            mine.setdefault(metric, []).append(step)
        found[row] = len(logged) - 1
    if exact:
        _are_resumes(logged, begins, steps, starts)
    return found


def _any_falls(columns: Mapping[str, Column], steps: Mapping[int, int]) -> bool:
    alike: dict[int, bool] = {}  # columns that were logged together share the list of their rows, or hold equal ones
    for column in columns.values():
        key = id(column.rows)
        if key not in alike:
            alike[key] = any(b < a for a, b in pairwise(steps[row] for row in column.rows if row in steps))
    return any(alike.values())


def _are_resumes(
    logged: Sequence[Mapping[str, Sequence[int]]], begins: Sequence[int], steps: Mapping[int, int], starts: Collection[int]
) -> None:
    """A resumed run trains steps again and logs them again. Rows that go back, pass over logged steps and log none of them again are
    only out of order; so are many that go back when nothing at all is logged twice."""
    before: dict[str, set[int]] = {}
    again = False
    for place, part in enumerate(logged):
        repeated = any(before.get(metric, set()).intersection(mine) for metric, mine in part.items())
        repeated |= any(begins[place - 1] < start <= begins[place] for start in starts)  # a file of its own is a program begun anew
        again |= repeated
        passed = not repeated and any(mine[0] <= step <= mine[-1] for metric, mine in part.items() for step in before.get(metric, ()))
        if passed:
            raise Unreadable(_out_of_order(begins[place], steps))
        if place >= FEW and not again:
            raise Unreadable(_out_of_order(begins[1], steps))
        for metric, mine in part.items():
            before.setdefault(metric, set()).update(mine)


def _out_of_order(row: int, steps: Mapping[int, int]) -> str:
    last = max(one for one in steps if one < row)
    back = f"row {row + 1} of the log goes back from step {steps[last]} to {steps[row]}"
    return (
        f"the steps are in no order: {back}, and the steps between are not logged again, so it is no resume: "
        "sort rows that are only out of order by step; of a run that was resumed there, "
        f"delete the rows above that one from step {steps[row]} on"
    )


def one_value_a_step(column: str, cells: Column, parts: Mapping[int, int], steps: Mapping[int, int]) -> None:
    """Raises Unreadable when most steps have several values that differ: which of them is the run's, nobody knows."""
    found: dict[tuple[int, int], list[float | None]] = {}
    for row, cell in zip(cells.rows, cells.cells, strict=True):
        if row in steps:
            try:
                found.setdefault((parts[row], steps[row]), []).append(number(cell))
            except NoNumber:
                return  # told of where it is mapped
    several = {place: values for place, values in found.items() if len(set(map(repr, values))) > 1}
    most = len(several) >= _AT_LEAST and len(several) > len(found) / 2
    if most or (len(found) == 1 and any(len(values) >= _AT_LEAST for values in several.values())):
        (_, step), values = next(iter(several.items()))
        few = ", ".join("null" if value is None else f"{value:.6g}" for value in values[:3]) + (", ..." if len(values) > 3 else "")
        where = f"{len(several)} of {len(found)} steps ({few} at step {step})"
        raise Unreadable(
            f"`{column}` has several values at {where}, so the log holds several runs or processes, or several rows a step: "
            "give each run a log of its own with one row a step (of micro-batches their mean, as pandas' groupby('step').mean() makes it; "
            "without the rows of an evaluation)"
        )
