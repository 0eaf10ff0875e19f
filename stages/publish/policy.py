"""The content security policy in every page of the site: what a browser may run and load, whatever a page holds.

Scripts, styles, fonts and pictures are files of the site; nothing is loaded from elsewhere and no form is sent. The inline scripts of the
theme run by their hashes, which are taken from the installed theme and not from a page: a script that a page gained has none.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

import material  # type: ignore[import-untyped]

from stages.contracts.diagnostic import StageError

SCOPE = "/"
"""`extra.scope` of the theme: with a constant one its scripts are equal on every page."""
_RULES = (
    "default-src 'none'; script-src 'self'{scripts}; style-src 'self'{styles}; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
    "worker-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'"
)
_META = '<meta http-equiv="Content-Security-Policy" content="{}">'
_INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_HEAD = re.compile(r"\s*<!doctype html>\s*<html[^<>]*>\s*<head>", re.IGNORECASE)
"""The way to a page's head; a page that begins otherwise gets its policy before all else, where a browser reads it as well."""


def put_policies(site: Path, frame: Path) -> None:
    """Write the policy into each page of `site`. `frame`: a page of the theme without any text of others; raises StageError S383 when
    an inline script of it is none of the theme's, for no browser would run it."""
    used = set(_INLINE.findall(frame.read_text(encoding="utf-8")))
    if unknown := used - theme_scripts():
        raise StageError(
            "S383",
            f"{frame}: the theme has an inline script of its own: {min(unknown)[:60]!r}",
            why="a browser runs only what the policy of the page names",
            fix="put it into a file: extra_javascript",
        )
    for page in site.rglob("*.html"):
        page.write_text(with_policy(page.read_text(encoding="utf-8"), used), encoding="utf-8")


def with_policy(page: str, scripts: Iterable[str] = (), styles: Iterable[str] = ()) -> str:
    """The page with the policy in its head; these inline scripts and styles count."""
    hashed = {name: "".join(map(_source, sorted(texts))) for name, texts in (("scripts", scripts), ("styles", styles))}
    head = _HEAD.match(page)
    at = head.end() if head else 0
    return f"{page[:at]}{_META.format(_RULES.format(**hashed))}{page[at:]}"


def theme_scripts() -> set[str]:
    """Inline scripts of the installed theme."""
    templates = Path(material.__file__).parent / "templates/partials/javascripts"
    texts = "".join(path.read_text(encoding="utf-8") for path in sorted(templates.glob("*.html")))
    return set(_INLINE.findall(re.sub(r"\{\{ config\.extra\.scope .*?\}\}", SCOPE, texts)))


def _source(text: str) -> str:
    return f" 'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
