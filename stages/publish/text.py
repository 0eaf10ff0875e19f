"""Untrusted text on a page: shown letter by letter, never read as HTML, Markdown, attributes or a template.

Everything but letters, digits and a few harmless marks becomes a numeric character reference; `-` and `_` are harmless between
letters or digits only. A browser shows the same text;
Markdown, attribute lists, emoji names, `{{ }}` and table pipes find nothing to read. Marks that cannot be seen are named.
"""

from __future__ import annotations

import re
import unicodedata

from markupsafe import Markup

_PLAIN = re.compile(r"(?![A-Za-z0-9 ,./\u00a1-\U0010ffff]|(?<=[A-Za-z0-9])[-_](?=[A-Za-z0-9]))[\s\S]")


def shown(value: object) -> Markup:
    """Text as one line of character references, safe in an element, in a quoted attribute and in the middle of Markdown."""
    if isinstance(value, Markup):
        return value
    text = visible(str(value))
    return Markup(_PLAIN.sub(lambda match: f"&#{ord(match[0])};", text))


def spoken(text: str) -> Markup:
    """A sentence in which `backticks` mark code, as people write them; everything else is shown letter by letter."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return shown(text)
    written = (Markup("<code>{}</code>").format(shown(part)) if index % 2 else shown(part) for index, part in enumerate(parts))
    return Markup("").join(written)


def visible(text: str) -> str:
    """The text with each invisible or order-changing mark named, such as `⟨U+202E⟩`; line breaks and tabs stay."""
    return "".join(_named(letter) if _hidden(letter) else letter for letter in text)


def _hidden(letter: str) -> bool:
    return letter not in "\n\t" and (unicodedata.category(letter) in {"Cc", "Cf", "Cs", "Co", "Cn"} or letter in "\u2028\u2029")


def _named(letter: str) -> str:
    return f"⟨U+{ord(letter):04X}⟩"


def figure_id(name: str) -> str:
    """What a figure's passport is called; findings have three parts, this has two."""
    return f"figure/{name}"


def verdict_id(claim: str) -> str:
    return f"verdict/{claim}"


def slug(finding: str) -> str:
    """A finding id as an HTML id; marks that could end an attribute or an address become `--`."""
    return "passport-" + re.sub(r"[^A-Za-z0-9_./-]", "--", finding)
