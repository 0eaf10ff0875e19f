"""Writes site/docs/reference/detectors.md from the detectors' own docstrings and Settings. Run it with the root on PYTHONPATH."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from stages.contracts.plugin import DETECTORS, kinds, load

PAGE = Path(__file__).parents[3] / "site" / "docs" / "reference" / "detectors.md"
HEAD = """# Detectors

<!-- Made from stages/analyse/detectors by tests/stages/analyse/detectors_reference.py; edit the detectors, then run it. -->

A detector measures a run and never judges it silently. It answers in one of three ways:

- **looked**: its signals are listed; no signals means that it looked and found none;
- **not applicable**, with the reason: its rule says nothing about this series;
- **not observable**, with the reason: what it needs was not logged, or not often enough.

A signal has a severity (information, warning, severe), the step of its **onset**, the step at which a live detector could first have known
(**detected**), a value and its evidence. Whether a run counts is decided by the spec's `health: gates`, not by severities.

Steps with a non-finite gradient, and all steps after it persists, enter no detector but `nonfinite`. In a null control the absence of a
signal is expected: it is reported as information and says so.

A profile (`health: {profile: grpo-default}`) names detectors and the settings in which they differ from the defaults below. Each number has
a unit and a source; sources disagree, so a page prints the name of its profile.
"""
GATES = """
## Health gates

| in the spec | passes when | undecided when |
|---|---|---|
| `nonfinite: not persistent` | no metric, and not the gradient, is non-finite to the end of the log (3 rows or more) | nothing was logged |
| `steps: complete` | the trainer's final state says that exactly the target steps are done | it is missing: `unknown (log ends at 299)` |
| `<metric>: {below: x}` or `{above: x}` | the mean over the last tenth of the target steps is below (above) x | it has no value there |

A gate that cannot be decided does not pass: the run is left out, stays listed with the reason, and findings show the number with it too.
Two seeds of a condition with identical series are one run: the later one is left out, loudly, and n drops by one.
"""


def page() -> str:
    """The whole page."""
    return HEAD + "".join(_section(kind) for kind in kinds(DETECTORS)) + GATES


def _section(kind: str) -> str:
    module = load(DETECTORS, kind)
    text = f"\n## `{kind}`\n\n{inspect.cleandoc(module.__doc__)}\n"
    fields = module.Settings.model_fields
    if not fields:
        words = inspect.cleandoc(module.Settings.__doc__)
        return f"{text}\nSettings: {words[0].lower()}{words[1:]}\n"
    rows = []
    for name, field in fields.items():
        more = field.json_schema_extra
        rows.append(f"| `{name}` | {_default(field.default)} | {more['unit']} | {field.description} | {more['source']} |")
    return text + "\n| setting | default | unit | meaning | source |\n|---|---|---|---|---|\n" + "\n".join(rows) + "\n"


def _default(value: Any) -> str:
    if value is None:
        return "`null`"
    return ", ".join(f"`{item}`" for item in value) if isinstance(value, tuple) else f"`{value}`"


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
