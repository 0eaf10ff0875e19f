"""The author's interpretation: Markdown without raw HTML, in which `{{ finding id }}` becomes the number it names.

`{{ id }}` is the value, `{{ id | interval }}` the value with its interval. Nothing else is evaluated; an unknown id ends the
stage with its place. Code spans and code blocks are left alone.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as etree
from pathlib import Path

import markdown  # type: ignore[import-untyped]
from markdown.inlinepatterns import InlineProcessor  # type: ignore[import-untyped]
from markdown.treeprocessors import Treeprocessor  # type: ignore[import-untyped]
from markupsafe import Markup

from stages.contracts.diagnostic import StageError
from stages.publish.facts import Facts

_REFERENCE = r"\{\{(.*?)\}\}"
_EXPRESSION = re.compile(r"\s*(?P<id>[^\s|]+)\s*(?:\|\s*(?P<form>interval|value)\s*)?")
_CODE = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)|(?P<ticks>`+).+?(?P=ticks)", re.DOTALL | re.MULTILINE)
_SAFE_LINK = re.compile(r"(?:https?://|mailto:|#|\.{0,2}/|[\w./-]+$)", re.IGNORECASE)


class _Reference(InlineProcessor):  # type: ignore[misc]
    """Replaces a reference by its number; collects those that name nothing."""

    def __init__(self, markdown_: markdown.Markdown, facts: Facts) -> None:
        super().__init__(_REFERENCE, markdown_)
        self.facts = facts
        self.unknown: list[tuple[str, str]] = []

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:
        expression = _EXPRESSION.fullmatch(m[1])
        if expression is None:
            self.unknown.append((m[0], f"{m[0]} is not a finding id, with `| interval` or without"))
            return "", m.start(0), m.end(0)
        try:
            finding = self.facts.get(expression["id"])
        except KeyError as error:
            self.unknown.append((m[0], str(error.args[0])))
            return "", m.start(0), m.end(0)
        bounds = expression["form"] == "interval"
        digits = self.facts.digits(finding, bounds=bounds)
        written = self.facts.interval(finding, decimals=digits) if bounds else self.facts.value(finding, decimals=digits)
        return self.md.htmlStash.store(str(written)), m.start(0), m.end(0)


class _Tame(Treeprocessor):  # type: ignore[misc]
    """Headings two levels down, so that the page's own stay above them; links only to where a reader may safely go."""

    def run(self, root: etree.Element) -> None:
        for element in root.iter():
            if re.fullmatch("h[1-6]", element.tag):
                element.tag = f"h{min(6, int(element.tag[1]) + 2)}"
            for name in ("href", "src"):
                target = element.get(name)
                if target is not None and not _SAFE_LINK.match(target):
                    del element.attrib[name]


def render_prose(text: str, path: Path, facts: Facts) -> Markup:
    """HTML of the author's Markdown. Raises StageError S301 at the first reference that names no finding."""
    converter = markdown.Markdown(extensions=["tables", "fenced_code", "sane_lists"], output_format="html")
    converter.preprocessors.deregister("html_block")
    converter.inlinePatterns.deregister("html")
    reference = _Reference(converter, facts)
    converter.inlinePatterns.register(reference, "octavo_reference", 185)
    converter.treeprocessors.register(_Tame(converter), "octavo_tame", 5)
    html = converter.convert(text)
    if reference.unknown:
        raise _unknown(text, path, reference.unknown)
    return Markup(html)


def _unknown(text: str, path: Path, unknown: list[tuple[str, str]]) -> StageError:
    places = []
    seen = _CODE.sub(lambda code: " " * len(code[0]), text)  # the same words in code are no reference
    for source, message in unknown:
        at = max(seen.find(source), 0)
        places.append(f"{path}:{text.count(chr(10), 0, at) + 1}:{at - text.rfind(chr(10), 0, at)}: {message}")
    return StageError(
        "S301",
        "\n".join(dict.fromkeys(places)),
        why="a number in the interpretation must be one that was computed, so that prose cannot drift from the data",
        fix=f"grep '\"id\"' {_findings_beside(path)}  # all ids",
    )


def _findings_beside(path: Path) -> str:
    return f"runs/{path.stem}/analysis/findings.json"
