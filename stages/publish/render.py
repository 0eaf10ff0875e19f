"""Templates to text. Every value that a template writes is escaped (see text.py) unless it is markup made here."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from stages.contracts.expressions import text
from stages.contracts.history import metric_title
from stages.publish import judged, numbers
from stages.publish.text import escape, escape_with_code, figure_id, record_anchor, slug, verdict_id

TEMPLATES = Path(__file__).parent / "templates"


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
        versions=judged.versions,
        words=metric_title,
        plural=numbers.plural,
        setting=numbers.setting,
        expression=text,
        signed_setting=numbers.signed_setting,
        percent=numbers.percent,
        counted=numbers.counted,
        duration=numbers.duration,
        listed=lambda parts: numbers.listed(list(parts)),
        spaced=lambda name: name.replace("_", " "),
    )
    return jinja


def render(template: str, **values: Any) -> str:
    """A template filled in."""
    return environment().get_template(template).render(**values)
