"""Figures on a page: the SVG that draw made, inlined, after a look that it draws and does nothing else."""

from __future__ import annotations

import re
import xml.etree.ElementTree as etree
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from stages.contracts.artifact import ArtifactError
from stages.contracts.figure import Figure
from stages.publish.experiment import ExperimentFiles
from stages.publish.late_figure import drawn

_REFUSED = {"script", "foreignobject", "iframe", "object", "embed", "image", "a", "animate", "set", "handler"}
_HEAD = re.compile(r"^\s*(?:<\?xml[^>]*\?>)?\s*(?:<!DOCTYPE[^>\[]*>)?\s*(?:<!--.*?-->\s*)*", re.DOTALL)
_FAR = re.compile(r"url\(\s*['\"]?(?!#)|@import|expression\(", re.IGNORECASE)


# by the first word of a figure's name: `evaluation-tests` and `evaluation-format` belong together
_SECTIONS = {"evaluation": "conditions", "funnel": "reward", "claims": "claims"}
STYLE = re.compile(r"<style>.*?</style>\n?", re.DOTALL)


@dataclass(frozen=True)
class Picture:
    figure: Figure
    svg: Markup
    csv: str

    @property
    def plot(self) -> str | None:
        """The file with the interactive form of a curve; None of other figures."""
        return f"{self.figure.name}.js" if self.figure.name.startswith("curves-") else None


@dataclass(frozen=True)
class Group:
    """Pictures of one section; a caption that all of them share is written once."""

    pictures: tuple[Picture, ...]

    @property
    def caption(self) -> str:
        captions = {picture.figure.caption for picture in self.pictures}
        return captions.pop() if len(captions) == 1 else ""


def pictures(experiment: ExperimentFiles) -> dict[str, Group]:
    """Pictures by the section that shows them: `claims`, `conditions`, `reward`, and `curves` for all others.

    They come in the order of the page's card. Pictures that share their style rules carry them once.
    """
    card = experiment.card
    order = [*(f"evaluation-{name}" for name in card.evaluation), *(f"funnel-{c.name}" for c in card.conditions)]
    order += [f"curves-{name}" for name in card.curves]
    shown = [
        d for d in experiment.drawings if len(card.claims) > 1 or _section(d.figure.name) != "claims"
    ]  # a single claim is drawn beside its words, so no section shows the picture, nor its style
    drawings = sorted(shown, key=lambda d: order.index(d.figure.name) if d.figure.name in order else len(order))
    found: dict[str, list[Picture]] = {"claims": [], "conditions": [], "reward": [], "curves": []}
    styles: set[str] = set()
    for drawing in sorted(drawings, key=lambda d: list(found).index(_section(d.figure.name))):
        figure, text = drawn(experiment, drawing)
        svg = inlined(drawing.svg, text)
        style = STYLE.search(svg)
        if style and style[0] in styles:
            svg = Markup(svg.replace(style[0], "", 1))
        elif style:
            styles.add(style[0])
        found[_section(drawing.figure.name)].append(Picture(figure, svg, drawing.csv.name))
    return {section: Group(tuple(made)) for section, made in found.items()}


def _section(figure: str) -> str:
    return _SECTIONS.get(figure.split("-")[0], "curves")


def inlined(path: Path, text: str | None = None) -> Markup:
    """The picture as one HTML element without blank lines; with `text`, that one in place of the file's. Raises ArtifactError when it is
    no plain drawing."""
    text = path.read_text(encoding="utf-8") if text is None else text
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
    lines = (line for line in _HEAD.sub("", text).splitlines() if line.strip())
    return Markup("\n".join(lines))


def _refuse(path: Path, what: str) -> ArtifactError:
    return ArtifactError(path, f"the figure holds {what}", why="a figure on a page draws and does nothing else", fix="dvc repro")
