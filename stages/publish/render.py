"""Templates to text. Every value a template writes is shown letter by letter (see text.py) unless it is markup made here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2

from stages.publish import numbers
from stages.publish.exclusions import plain
from stages.publish.text import figure_id, shown, slug, spoken, verdict_id

TEMPLATES = Path(__file__).parent / "templates"


def environment() -> jinja2.Environment:
    """Autoescape on, unknown names are errors, and what is written goes through `shown`."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters.update(slug=slug, spoken=spoken, plural=_plural, plainly=_plainly, figure_id=figure_id, verdict_id=verdict_id)
    return made


def render(template: str, **values: Any) -> str:
    """A template filled in."""
    return environment().get_template(template).render(**values)


def _plainly(reasons: str) -> str:
    return "; ".join(plain(reason) for reason in reasons.split("; "))


def _plural(count: int, noun: str) -> str:
    return numbers.plural(count, noun)
