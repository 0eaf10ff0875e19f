"""Writes site/docs/reference/detectors.md from the detectors' own docstrings and Settings. Run it with the root on PYTHONPATH."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from compiler.language.health_profiles import PROFILES
from stages.contracts.plugin import DETECTORS, kinds, load
from stages.contracts.wilson import wilson
from tests.attribute_texts import attribute_texts

PAGE = Path(__file__).parents[3] / "site" / "docs" / "reference" / "detectors.md"
TEMPLATE = Path(__file__).with_suffix(".md")
"""The page without what detectors and profiles say of themselves."""
ALARMS = {  # benchmarks/false_alarms.py 1000, of 2026-11-28: healthy runs with a warning, of those that the detector looked at
    **dict.fromkeys(("atoms", "degenerate", "duplicates", "entropy_change", "gradient", "impossible"), (0, 2000)),
    **dict.fromkeys(("kl_reference", "nonfinite"), (0, 2000)),
    **dict.fromkeys(("level", "parts", "resume_faults", "throughput", "truncation"), (0, 2000)),
    **dict.fromkeys(("collapse", "kl_sign", "steps_taken", "true_objective", "update_size", "value_fit", "zero_signal"), (0, 1000)),
    "spikes": (22, 2000),
    "gibberish": (0, 400),  # of 2026-11-29; benchmarks/gibberish.py has other texts
}


def page() -> str:
    """The whole page."""
    sections = "".join(_section(kind) for kind in kinds(DETECTORS))
    return TEMPLATE.read_text(encoding="utf-8").replace("<detectors>", sections).replace("<profiles>", _profiles())


def _profiles() -> str:
    rows = []
    for name, named in PROFILES.items():
        changes = [f"`{kind}`: `{key}` = {_default(value)}" for kind, settings in named.items() for key, value in settings.items()]
        rows.append(f"| `{name}` | {', '.join(f'`{kind}`' for kind in named)} | {'; '.join(changes) or 'nothing'} |")
    return "\n".join(rows) + "\n"


def _alarms(kind: str) -> str:
    k, n = ALARMS[kind]
    low, high = wilson(k, n, 0.95)
    return f"\nFalse alarms: {k} of {n} healthy synthetic runs of 300 steps (95% interval {low:.1%} to {high:.1%}).\n"


def _section(kind: str) -> str:
    module = load(DETECTORS, kind)
    text = f"\n## `{kind}`\n\n{inspect.cleandoc(module.__doc__)}\n{_alarms(kind)}"
    fields = module.Settings.model_fields
    if not fields:
        words = inspect.cleandoc(module.Settings.__doc__)
        return f"{text}\nSettings: {words[0].lower()}{words[1:]}\n"
    rows, texts = [], attribute_texts(module.Settings)
    for name, field in fields.items():
        more = field.json_schema_extra
        rows.append(f"| `{name}` | {_default(field.default)} | {more['unit']} | {texts[name]} | {more['source']} |")
    return text + "\n| setting | default | unit | meaning | source |\n|---|---|---|---|---|\n" + "\n".join(rows) + "\n"


def _default(value: Any) -> str:
    if value is None:
        return "`null`"
    return ", ".join(f"`{item}`" for item in value) if isinstance(value, list | tuple) else f"`{value}`"


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
