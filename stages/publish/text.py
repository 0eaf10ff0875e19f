"""Untrusted text on a page: displayed letter by letter, never read as HTML, Markdown, attributes or a template.

Letters, digits and a few harmless marks stay; everything else becomes a numeric character reference. `-` and `_` stay between letters
or digits only. A browser shows the same text; Markdown, attribute lists, emoji names, `{{ }}` and table pipes find nothing to read.
Invisible marks are replaced by their names. Templates escape all that they write, unless it is markup made here.
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from stages.contracts.expressions import text as expression_text
from stages.contracts.files import load_table
from stages.contracts.history import metric_title
from stages.publish import numbers

TEMPLATES = Path(__file__).parent / "templates"
TEXTS: dict[str, dict[str, str]] = load_table(Path(__file__).with_suffix(".yaml"))
"""Table -> key -> words."""
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2028\u2029\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Letters and marks that a browser draws as nothing, whatever their category."""
_PLAIN = re.compile(r"(?![A-Za-z0-9 ,./\u00a1-\U0010ffff]|(?<=[A-Za-z0-9])[-_](?=[A-Za-z0-9]))[\s\S]")


def escape(value: object) -> Markup:
    """Text as one line of character references, safe in an element, in a quoted attribute and in the middle of Markdown."""
    if isinstance(value, Markup):
        return value
    return Markup(_PLAIN.sub(lambda match: f"&#{ord(match[0])};", reveal_hidden(str(value))))


def escape_with_code(text: str) -> Markup:
    """A sentence in which `backticks` mark code; everything else is escaped."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(escape(part)) if index % 2 else escape(part) for index, part in enumerate(parts))


def reveal_hidden(text: str) -> str:
    """The text with each invisible or order-changing mark named, such as `⟨U+202E⟩`; line breaks and tabs stay."""
    return "".join(f"⟨U+{ord(letter):04X}⟩" if _hidden(letter) else letter for letter in text)


def _hidden(letter: str) -> bool:
    return letter not in "\n\t" and (unicodedata.category(letter) in {"Cc", "Cf", "Cs", "Co", "Cn"} or bool(_BLANK.match(letter)))


def figure_id(name: str) -> str:
    """Id of a figure's passport: two parts, where ids of findings have three."""
    return f"figure/{name}"


def verdict_id(claim: str) -> str:
    return f"verdict/{claim}"


def slug(finding: str) -> str:
    """A finding id as an HTML id; marks that could end an attribute or an address become `--`."""
    return "passport-" + re.sub(r"[^A-Za-z0-9_./-]", "--", finding)


def record_anchor(run: str) -> str:
    """The HTML id of a run's record on the page of passports."""
    return f"behind-{run.replace(' ', '-')}"


def detector_name(kind: str) -> str:
    """As people say it: `sign of KL` of `kl_sign`, `zero signal` of `zero_signal`."""
    return {"kl_sign": "sign of KL", "kl_reference": "KL from the reference"}.get(kind, kind.replace("_", " "))


def script_literal(value: object) -> str:
    """A value as JavaScript: JSON in ASCII, in which `<` and `&` are written as escapes, so that no text ends a script element. Marks that
    cannot be seen are named."""
    return json.dumps(_revealed(value), separators=(",", ":")).replace("<", "\\u003c").replace("&", "\\u0026")


def _revealed(value: object) -> object:
    if isinstance(value, dict):
        return {key: _revealed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_revealed(item) for item in value]
    return reveal_hidden(value) if isinstance(value, str) else value


@cache
def environment() -> jinja2.Environment:
    """Autoescape on, unknown names are errors, and all output goes through `escape`."""
    jinja = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=escape,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    jinja.filters.update(
        with_code=escape_with_code,
        slug=slug,
        figure_id=figure_id,
        verdict_id=verdict_id,
        record_anchor=record_anchor,
        versions=numbers.code_words,
        words=metric_title,
        plural=numbers.plural,
        setting=numbers.setting,
        expression=expression_text,
        signed_setting=numbers.signed_setting,
        percent=numbers.percent,
        counted=numbers.counted,
        duration=numbers.duration,
        listed=lambda parts: numbers.listed(list(parts)),
        spaced=lambda name: name.replace("_", " "),
        detector=detector_name,
        names=lambda runs: [run.ref.name for run in runs],
        look_up=lambda key, table: table[key],
    )
    jinja.globals.update(texts=TEXTS, numbers=numbers)
    return jinja


def render(template: str, **values: Any) -> str:
    """A template filled in."""
    return environment().get_template(template).render(**values)
