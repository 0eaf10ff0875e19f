"""`page/figures/curves-<metric>.js`: the numbers of a curve for the form that a reader can zoom, hover and switch seeds in.

A script that calls `octavo.figure` with one object, because a page from the file system may load scripts and no data. It is made from
the figure's CSV and from its marks, and loaded when a reader asks for it. In `values`, `null` is a gap in a line, and `false` a step at
which this line has nothing and goes on; both are absent numbers and never zeros.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from stages.contracts.series import stride
from stages.publish.experiment import Drawing, ExperimentFiles
from stages.publish.opened import literal

MEAN = "mean"


@dataclass
class _Line:
    """One seed's points, or a condition's mean."""

    name: str
    condition: str
    counts: bool
    points: dict[int, float] = field(default_factory=dict)


def plot_script(experiment: ExperimentFiles, drawing: Drawing) -> str | None:
    """JavaScript with the curve's numbers; None of a figure that is no curve or has no numbers."""
    if not drawing.figure.name.startswith("curves-") or not drawing.csv.exists():
        return None
    rows = list(csv.DictReader(io.StringIO(drawing.csv.read_text(encoding="utf-8"))))
    lines = _lines(experiment, rows, drawing)
    steps = sorted({step for line in lines for step in line.points})
    if not steps:
        return None
    colours = {condition.name: index for index, condition in enumerate(experiment.card.conditions)}
    made = {
        "title": drawing.figure.title,
        "unit": rows[0]["unit"],
        "steps": steps,
        "conditions": [{"name": name, "colour": colour} for name, colour in colours.items()],
        "lines": [
            {
                "name": line.name,
                "condition": line.condition,
                "colour": colours.get(line.condition, 0),
                "mean": line.name == MEAN,
                "counts": line.counts,
                "values": _values(line.points, steps),
            }
            for line in lines
        ],
        "marks": [mark.model_dump(mode="json") for mark in drawing.figure.marks],
    }
    return f"octavo.figure({literal(made)});\n"


def _lines(experiment: ExperimentFiles, rows: list[dict[str, str]], drawing: Drawing) -> list[_Line]:
    """In the order of the table. Steps whose gradient was not finite are left out, as in the picture."""
    bad = {(mark.run, step) for mark in drawing.figure.marks if mark.kind == "not_finite" for step in range(mark.first, mark.last + 1)}
    included = {run.ref.name for run in experiment.runs if run.included}
    found: dict[tuple[str, str], _Line] = {}
    for row in rows:
        line = found.setdefault((row["condition"], row["run"]), _Line(row["run"], row["condition"], row["run"] in included | {MEAN}))
        if row["state"] == "value" and row["value"] and (row["run"], int(row["step"])) not in bad:
            line.points[int(row["step"])] = float(row["value"])
    return [line for line in found.values() if line.points]


def _values(points: dict[int, float], steps: list[int]) -> list[Any]:
    """A line on the common steps. Between two points no further apart than the line's usual distance nothing is missing."""
    own, usual = sorted(points), stride(sorted(points))
    near: set[int] = set()
    for before, after in pairwise(own):
        if after - before <= usual:
            near.update(range(before + 1, after))
    return [_short(points[step]) if step in points else False if step in near else None for step in steps]


def _short(value: float) -> float:
    """Six significant digits: finer than a screen shows."""
    return float(f"{value:.6g}")
