"""The author's interpretation: Markdown without raw HTML, in which `{{ finding id }}` becomes the number it names.

`{{ id }}` is the value, `{{ id | interval }}` the value with its interval. Nothing else is evaluated; an unknown id ends the
stage with its place. Code spans and code blocks are left alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from markupsafe import Markup

from stages.contracts.diagnostic import StageError
from stages.publish import markdown
from stages.publish.clean import clean_prose, inert
from stages.publish.facts import Facts
from stages.publish.text import escape

_EXPRESSION = re.compile(r"\{\{\s*(?P<id>[^\s|]+)\s*(?:\|\s*(?P<form>interval|value)\s*)?\}\}")
_REFERENCE = re.compile(f"{markdown.OPEN}(.*?){markdown.CLOSE}", re.DOTALL)
_CODE = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)|(?P<ticks>`+).+?(?P=ticks)", re.DOTALL | re.MULTILINE)


def render_prose(text: str, path: Path, facts: Facts) -> Markup:
    """HTML of the author's Markdown. Raises StageError S301 at references that name no finding, S302 when it is too much to read."""
    unknown: list[tuple[str, str]] = []

    def fill(words: str) -> Markup:
        parts: list[str] = _REFERENCE.split(words)
        for at, part in enumerate(parts):
            try:
                parts[at] = _number(part, facts) if at % 2 else escape(part)
            except KeyError as error:
                unknown.append((part, str(error.args[0])))
        return Markup("").join(map(Markup, parts))

    html = inert(clean_prose(_convert(text, path)), fill)
    if unknown:
        raise _unknown(text, path, unknown)
    return html


def _number(reference: str, facts: Facts) -> Markup:
    """Raises KeyError, with what is wrong, where the reference names no finding."""
    expression = _EXPRESSION.fullmatch(reference)
    if expression is None:
        raise KeyError(f"{reference} is not a finding id, with `| interval` or without")
    finding, bounds = facts.get(expression["id"]), expression["form"] == "interval"
    digits = facts.digits(finding, bounds=bounds)
    return facts.interval(finding, decimals=digits) if bounds else facts.value(finding, decimals=digits)


def _convert(text: str, path: Path) -> str:
    converted = subprocess.run([sys.executable, "-I", markdown.__file__], input=text.encode(), capture_output=True, check=False)
    if converted.returncode:
        raise StageError(
            "S302",
            f"{path}: the interpretation cannot be read as Markdown in {markdown.SECONDS} s and {markdown.MEGABYTES} MB",
            why="a page is built in bounded time, whatever an author wrote",
            fix=f"shorten {path}: look for thousands of brackets, links or table cells",
        )
    return converted.stdout.decode()


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
        fix=f"grep '\"id\"' runs/{path.stem}/analysis/findings.json  # all ids",
    )
