"""Files of a figure as the page shows them: as draw wrote them, but that the picture of claims calls a claim void whose rule is late.

Draw knows no git (decision 22), so what it draws of such a claim is the verdict by numbers. It puts what belongs to a claim into a group
that carries the claim's name.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from html import escape, unescape

from stages.contracts.artifact import dump
from stages.contracts.figure import Figure
from stages.contracts.finding import Verdict
from stages.publish.experiment import Drawing, ExperimentFiles

_GROUP = re.compile(r'<g data-claim="(?P<claim>[^"]*)">\n(?P<body>.*?)\n</g>', re.DOTALL)
_LABEL = re.compile(r'aria-label="[^"]*"|aria-label=\'[^\']*\'')
_NAMED = re.compile(r"\b(supported|refuted|inconclusive)\b")
_SIGN = re.compile(r"(?<=>)[✓✗?] (?:supported|refuted|inconclusive)(?=</text>)")
_CLASS = re.compile(r'(?<= class=")[^"]*(?=")')


def drawn(experiment: ExperimentFiles, drawing: Drawing) -> tuple[Figure, str]:
    """The figure and its picture."""
    text, late = drawing.svg.read_text(encoding="utf-8"), _late(experiment, drawing)
    if not late:
        return drawing.figure, text
    said = "Verdicts on claims. " + " ".join(f"{v.claim}: {v.verdict}. {v.why}" for v in experiment.verdicts.values())
    text = _LABEL.sub(lambda _: f'aria-label="{escape(said)}"', text, count=1)
    return drawing.figure.model_copy(update={"alternative": said}), _GROUP.sub(lambda group: _void(group, late), text)


def files(experiment: ExperimentFiles, drawing: Drawing) -> dict[str, bytes]:
    """By name: picture, table and words, those that there are."""
    paths = [path for path in (drawing.svg, drawing.csv, drawing.svg.with_suffix(".json")) if path.exists()]
    found = {path.name: path.read_bytes() for path in paths}
    if late := _late(experiment, drawing):
        figure, text = drawn(experiment, drawing)
        changed = {drawing.svg.name: text, drawing.svg.with_suffix(".json").name: dump(figure)}
        if drawing.csv.name in found:
            changed[drawing.csv.name] = _table(found[drawing.csv.name].decode(), late)
        found |= {name: content.encode() for name, content in changed.items()}
    return found


def _late(experiment: ExperimentFiles, drawing: Drawing) -> Mapping[str, Verdict]:
    """Claims in the picture that are void for their rule's date, and were not by numbers."""
    if drawing.figure.name != "claims":
        return {}
    said = {verdict.claim: verdict.verdict for verdict in experiment.conclusions.verdicts}
    return {name: verdict for name, verdict in experiment.verdicts.items() if verdict.verdict != said[name]}


def _void(group: re.Match[str], late: Mapping[str, Verdict]) -> str:
    if unescape(group["claim"]) not in late:
        return group[0]
    body = _SIGN.sub("∅ void", group["body"])
    return group[0].replace(group["body"], _CLASS.sub(lambda words: _NAMED.sub("void", words[0]), body))


def _table(text: str, late: Mapping[str, Verdict]) -> str:
    rows = list(csv.reader(io.StringIO(text)))
    made = io.StringIO()
    place = rows[0].index("verdict")
    for row in rows[1:]:
        row[place] = "void" if row[0] in late else row[place]
    csv.writer(made, lineterminator="\n").writerows(rows)
    return made.getvalue()
