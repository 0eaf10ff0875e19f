"""Figures on a page: what draws of the SVG that draw made, inlined, and the numbers of its interactive form."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
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
    """`curves-<metric>.js`: the numbers of a curve for the form that a reader can zoom; None of a figure that is no curve or is empty."""
    if not drawing.figure.name.startswith("curves-") or not drawing.csv.exists():
        return None
    colours = {condition.name: index for index, condition in enumerate(experiment.card.conditions)}
    included = {run.ref.name for run in experiment.runs if run.included}
    left_out = {name: "; ".join(run.left_out) for name, run in experiment.by_name.items() if name not in included}
    return script_of(drawing.figure, read_curve(drawing.csv), colours, left_out)


def read_curve(path: Path) -> pd.DataFrame:
    """The table of a curve."""
    texts = dict.fromkeys(("run", "condition", "state", "unit", "counts"), str)
    table = pd.read_csv(io.BytesIO(read_bytes(path)), keep_default_na=False, dtype=texts)
    numbers = {name: pd.to_numeric(table[name], errors="coerce") for name in ("value", "part")}
    return table.assign(step=table["step"].astype(int), **numbers)


def script_of(
    figure: Figure, table: pd.DataFrame, colours: Mapping[str, int], left_out: Mapping[str, str], titles: Sequence[str] = ()
) -> str | None:
    """`table`: that of `read_curve`; `colours` by condition; `left_out`: why a run does not count; `titles` of the panels, where they are
    not their conditions. None of a table without a number.

    A script that calls `octavo.figure` with one object, because a page from the file system may load scripts and no data. In `values`,
    `null` is a gap in a line, `false` a step at which this line has no number and goes on, and `[n]` n such steps.
    """
    drawn = table[table["part"].notna() & table["value"].notna()]
    if drawn.empty:
        return None
    lines = drawn.groupby(["condition", "run"], sort=False)
    ends = drawn["step"][lines["part"].shift(-1).sub(drawn["part"]) > 0]  # a gap has a place of its own, also where no line has a step
    steps = sorted({*drawn["step"].tolist(), *(ends + 1).tolist()})
    places = {step: place for place, step in enumerate(steps)}
    plot = {
        "title": figure.title,
        "unit": table["unit"].iloc[0],
        "steps": steps,
        "conditions": [{"name": name, "colour": colour} for name, colour in colours.items()],
        "lines": [
            {
                "name": run,
                "condition": condition,
                "colour": colours.get(condition, 0),
                "mean": run == MEAN,
                "counts": run not in left_out,
                "why": left_out.get(run, ""),
                "values": _values(rows, places),
            }
            for (condition, run), rows in lines
        ],
        "panels": figure.panels,
        "titles": titles,
        "limits": [limit.model_dump(mode="json") for limit in figure.limits],
        "marks": [mark.model_dump(mode="json") for mark in figure.marks],
    }
    return f"octavo.figure({script_literal(plot)});\n"


def _values(rows: pd.DataFrame, places: Mapping[int, int]) -> list[Any]:
    """A line on the common steps, in six significant digits. Its parts are apart; within one nothing is missing."""
    values: list[Any] = []
    before, part = -1, None
    for step, value, own in zip(rows["step"], rows["value"], rows["part"], strict=True):
        between = places[step] - before - 1
        if own == part:
            values += [False] if between == 1 else [[between]] if between else []
        else:
            values += [None] * between
        values.append(float(f"{value:.6g}"))
        before, part = places[step], own
    return values + [None] * (len(places) - before - 1)
