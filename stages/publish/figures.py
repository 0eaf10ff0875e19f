"""Figures on a page: what draws of the SVG that draw made, inlined, and the numbers of its interactive form."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from markupsafe import Markup

from stages.contracts.artifact import ArtifactError
from stages.contracts.figure import Figure
from stages.contracts.files import read_bytes
from stages.publish.clean import clean_figure
from stages.publish.experiment import Drawing, ExperimentFiles
from stages.publish.text import script_literal

MEAN = "mean"


class Picture(NamedTuple):
    figure: Figure
    svg: Markup
    file: str
    csv: str
    plot: str
    """File with the interactive form of a curve; empty of other figures."""


def pictures(experiment: ExperimentFiles) -> dict[str, list[Picture]]:
    """Pictures by the section that shows them (`conditions`, `reward`, `curves`), in the order of the page's card."""
    card = experiment.card
    order = [
        *(f"evaluation-{name}{end}" for name in card.evaluation for end in ("-score", "")),
        *(f"funnel-{c.name}" for c in card.conditions),
    ]
    order += [f"curves-{name}" for name in card.curves]
    drawings = sorted(experiment.drawings, key=lambda d: order.index(d.figure.name) if d.figure.name in order else len(order))
    sections: dict[str, list[Drawing]] = {"conditions": [], "reward": [], "curves": []}
    for drawing in drawings:
        first = drawing.figure.name.split("-")[0]
        sections[{"evaluation": "conditions", "funnel": "reward"}.get(first, "curves")].append(drawing)
    return {section: [picture(drawing, inlined(drawing.svg)) for drawing in some] for section, some in sections.items()}


def picture(drawing: Drawing, svg: Markup) -> Picture:
    name = drawing.figure.name
    return Picture(drawing.figure, svg, drawing.svg.name, drawing.csv.name, f"{name}.js" if name.startswith("curves-") else "")


def inlined(path: Path) -> Markup:
    """The picture as one HTML element, drawing only. Raises ArtifactError when it is no picture."""
    svg = clean_figure(read_bytes(path).decode("utf-8", "replace"), path.stem)
    if not svg.startswith("<svg ") or not svg.endswith("</svg>"):
        raise ArtifactError(path, "the file is no SVG picture", why="a page shows it as a figure", fix="dvc repro")
    return svg


def files(drawing: Drawing) -> dict[str, bytes]:
    """Name -> content of picture, table and words, those that there are. The picture is the one that the page shows."""
    rest = {path.name: read_bytes(path) for path in (drawing.csv, drawing.svg.with_suffix(".json")) if path.exists()}
    return {drawing.svg.name: f"{inlined(drawing.svg)}\n".encode(), **rest}


def plot_script(experiment: ExperimentFiles, drawing: Drawing) -> str | None:
    """`curves-<metric>.js`: the numbers of a curve for the form that a reader can zoom; None of a figure that is no curve or is empty.

    A script that calls `octavo.figure` with one object, because a page from the file system may load scripts and no data. In `values`,
    `null` is a gap in a line, and `false` a step at which this line has no number and goes on.
    """
    if not drawing.figure.name.startswith("curves-") or not drawing.csv.exists():
        return None
    table = pd.read_csv(
        io.BytesIO(read_bytes(drawing.csv)), keep_default_na=False, dtype={"run": str, "condition": str, "state": str, "unit": str}
    )
    lines = [] if table.empty else list(_lines(experiment, drawing, table))
    steps = sorted({step for *_, points in lines for step in points})
    if not steps:
        return None
    colours = {condition.name: index for index, condition in enumerate(experiment.card.conditions)}
    included = {run.ref.name for run in experiment.runs if run.included} | {MEAN}
    plot = {
        "title": drawing.figure.title,
        "unit": table["unit"].iloc[0],
        "steps": steps,
        "conditions": [{"name": name, "colour": colour} for name, colour in colours.items()],
        "lines": [
            {
                "name": run,
                "condition": condition,
                "colour": colours.get(condition, 0),
                "mean": run == MEAN,
                "counts": run in included,
                "why": "; ".join(experiment.by_name[run].left_out) if run in experiment.by_name and run not in included else "",
                "values": _values(points, steps),
            }
            for condition, run, points in lines
        ],
        "panels": drawing.figure.panels,
        "limits": [limit.model_dump(mode="json") for limit in drawing.figure.limits],
        "marks": [mark.model_dump(mode="json") for mark in drawing.figure.marks],
    }
    return f"octavo.figure({script_literal(plot)});\n"


def _lines(experiment: ExperimentFiles, drawing: Drawing, table: pd.DataFrame) -> Iterator[tuple[str, str, dict[int, float]]]:
    """(condition, run, step -> value) in the order of the table. Steps whose gradient was not finite are left out, as in the picture."""
    bad = {(mark.run, step) for mark in drawing.figure.marks if mark.kind == "not_finite" for step in range(mark.first, mark.last + 1)}
    table = table.assign(value=pd.to_numeric(table["value"], errors="coerce"), step=table["step"].astype(int))
    for (condition, run), rows in table.groupby(["condition", "run"], sort=False):
        rows = rows[(rows["state"] == "value") & rows["value"].notna()]
        points = {step: value for step, value in zip(rows["step"], rows["value"], strict=True) if (run, step) not in bad}
        if points:
            yield condition, run, points


def _values(points: dict[int, float], steps: list[int]) -> list[Any]:
    """A line on the common steps, in six significant digits. Nothing is missing between two points of the line's usual distance."""
    gaps = list(pairwise(sorted(points)))
    usual = pd.Series([after - before for before, after in gaps], dtype=int).mode().min()
    near = {step for before, after in gaps if after - before <= usual for step in range(before + 1, after)}
    return [float(f"{points[step]:.6g}") if step in points else False if step in near else None for step in steps]
