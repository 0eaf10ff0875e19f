"""Figures on a page: the SVG that draw made, inlined after a check that it only draws, and the numbers of its interactive form."""

from __future__ import annotations

import re
import xml.etree.ElementTree as etree
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from markupsafe import Markup

from stages.contracts.artifact import ArtifactError
from stages.contracts.figure import Figure
from stages.publish.experiment import Drawing, ExperimentFiles
from stages.publish.text import script_literal

MEAN = "mean"
STYLE = re.compile(r"<style>.*?</style>\n?", re.DOTALL)
_REFUSED = {"script", "foreignobject", "iframe", "object", "embed", "image", "a", "animate", "set", "handler"}
_HEAD = re.compile(r"^\s*(?:<\?xml[^>]*\?>)?\s*(?:<!DOCTYPE[^>\[]*>)?\s*(?:<!--.*?-->\s*)*", re.DOTALL)
_FAR = re.compile(r"url\(\s*['\"]?(?!#)|@import|expression\(", re.IGNORECASE)


class Picture(NamedTuple):
    figure: Figure
    svg: Markup
    csv: str
    plot: str
    """File with the interactive form of a curve; empty of other figures."""


def pictures(experiment: ExperimentFiles) -> dict[str, list[Picture]]:
    """Pictures by the section that shows them (`conditions`, `reward`, `curves`), in the order of the page's card.

    Pictures that share their style rules carry them once.
    """
    card, styles = experiment.card, set[str]()
    order = [*(f"evaluation-{name}" for name in card.evaluation), *(f"funnel-{c.name}" for c in card.conditions)]
    order += [f"curves-{name}" for name in card.curves]
    drawings = sorted(experiment.drawings, key=lambda d: order.index(d.figure.name) if d.figure.name in order else len(order))
    sections: dict[str, list[Drawing]] = {"conditions": [], "reward": [], "curves": []}
    for drawing in drawings:
        first = drawing.figure.name.split("-")[0]
        sections[{"evaluation": "conditions", "funnel": "reward"}.get(first, "curves")].append(drawing)
    return {section: [picture(drawing, styles) for drawing in some] for section, some in sections.items()}


def picture(drawing: Drawing, styles: set[str], svg: Markup | None = None) -> Picture:
    """Without the rules of style that the page has already; `styles` collects them. `svg` in place of the file's."""
    svg, name = inlined(drawing.svg) if svg is None else svg, drawing.figure.name
    style = STYLE.search(svg)
    if style and style[0] in styles:
        svg = Markup(svg.replace(style[0], "", 1))
    elif style:
        styles.add(style[0])
    return Picture(drawing.figure, svg, drawing.csv.name, f"{name}.js" if name.startswith("curves-") else "")


def inlined(path: Path) -> Markup:
    """The picture as one HTML element without blank lines. Raises ArtifactError when it is no plain drawing."""
    text = path.read_text(encoding="utf-8")
    if "<!ENTITY" in text:
        raise _refuse(path, "an entity declaration")
    try:
        root = etree.fromstring(text)
    except etree.ParseError as error:
        raise _refuse(path, f"not XML: {error}") from None
    for element in root.iter():
        tag = str(element.tag).rpartition("}")[2].lower()
        if tag in _REFUSED:
            raise _refuse(path, f"a <{tag}> element")
        if tag == "style" and _FAR.search(element.text or ""):
            raise _refuse(path, "a style that loads something")
        for name, value in element.attrib.items():
            plain = name.rpartition("}")[2].lower()
            if plain.startswith("on") or (plain in {"href", "src"} and not value.startswith("#")) or _FAR.search(value):
                raise _refuse(path, f"the attribute {plain}={value[:40]!r}")
    return Markup("\n".join(line for line in _HEAD.sub("", text).splitlines() if line.strip()))


def _refuse(path: Path, what: str) -> ArtifactError:
    return ArtifactError(path, f"the figure holds {what}", why="a figure on a page draws and does nothing else", fix="dvc repro")


def files(drawing: Drawing) -> dict[str, bytes]:
    """Name -> content of picture, table and words, those that there are."""
    return {path.name: path.read_bytes() for path in (drawing.svg, drawing.csv, drawing.svg.with_suffix(".json")) if path.exists()}


def plot_script(experiment: ExperimentFiles, drawing: Drawing) -> str | None:
    """`curves-<metric>.js`: the numbers of a curve for the form that a reader can zoom; None of a figure that is no curve or is empty.

    A script that calls `octavo.figure` with one object, because a page from the file system may load scripts and no data. In `values`,
    `null` is a gap in a line, and `false` a step at which this line has no number and goes on.
    """
    if not drawing.figure.name.startswith("curves-") or not drawing.csv.exists():
        return None
    table = pd.read_csv(drawing.csv, keep_default_na=False, dtype={"run": str, "condition": str, "state": str, "unit": str})
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
                "values": _values(points, steps),
            }
            for condition, run, points in lines
        ],
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
