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
HEAD = """# Detectors

<!-- Made from stages/analyse/detectors by tests/stages/analyse/detectors_reference.py; edit the detectors, then run it. -->

A detector measures a run and never judges it silently. It answers in one of three ways:

- **looked**: its signals are listed; no signals means that it looked and found none;
- **not applicable**, with the reason: its rule says nothing about this series;
- **not observable**, with the reason: what it needs was not logged, or not often enough, or has no number at a step that counts.

A signal has a severity (information, warning, severe), the step of its **onset**, the step at which a live detector could first have known
(**detected**), a value and its evidence. Whether a run counts is decided by the spec's `health: gates`, not by severities.

Steps with a non-finite gradient, and all steps after it persists, enter no detector but `nonfinite`. In a null control the absence of a
signal is expected: it is reported as information and says so.

A profile (`health: {profile: grpo-default}`) names detectors and the settings in which they differ from the defaults below. Each number has
a unit and a source; sources disagree, so a page prints the name of its profile.

A spec changes settings, or adds a detector, below `health: detectors`: `{collapse: {patience: 30}, entropy_change: {lowest: 0.1}}`.
The page then names the profile as changed, with the detectors.
"""
ALARMS = {  # benchmarks/false_alarms.py 1000, of 2026-11-28: healthy runs with a warning, of those that the detector looked at
    **dict.fromkeys(("atoms", "degenerate", "duplicates", "entropy_change", "gradient", "kl_reference", "nonfinite"), (0, 2000)),
    **dict.fromkeys(("resume_faults", "throughput", "truncation"), (0, 2000)),
    **dict.fromkeys(("collapse", "kl_sign", "true_objective", "update_size", "value_fit", "zero_signal"), (0, 1000)),
    "spikes": (22, 2000),
}
PROFILES_HEAD = """
## Profiles

Which detectors a profile names, and the settings in which it differs from the defaults above; units and sources are those of the settings.

| profile | detectors | differs in |
|---|---|---|
"""
INTERVALS = """
## Intervals

How often 95% intervals held the truth in 2,000 simulated rounds (`benchmarks/false_alarms.py`):

| interval | held |
|---|---|
| t over 2, 3, 5, 10 seeds | 0.946, 0.953, 0.952, 0.956 |
| Welch, 2, 3, 5, 10 seeds a condition, spreads 1 and 3 | 0.957, 0.945, 0.949, 0.954 |
| Welch, 2, 5, 10 seeds of spread 1 against 3 seeds of spread 3 | 0.964, 0.939, 0.920 |
| Wilson, 18 completions (share 0.1), 128 (0.3), 512 (0.02) | 0.975, 0.956, 0.954 |

The change of one run, last window minus first, over runs of ten windows that learn, from batch means (at most five a window). Steps are a
first-order autoregression, or independent noise of deviation 1 over a drift of deviation 0.5:

| steps | windows of 6 steps | 30 | 100 | 1,000 |
|---|---|---|---|---|
| neighbours correlate by 0 | 0.97 | 0.97 | 0.99 | 1.00 |
| by 0.5 | 0.97 | 0.94 | 0.96 | 1.00 |
| by 0.9 | 0.88 | 0.72 | 0.89 | 0.94 |
| by 0.97 | 0.80 | 0.43 | 0.72 | 0.95 |
| the drift remembers a third of a window | 0.98 | 0.82 | 0.78 | 0.71 |
| it remembers a window | 0.97 | 0.72 | 0.63 | 0.55 |
| it remembers three windows | 0.97 | 0.63 | 0.52 | 0.46 |

Two limits to know. The interval of one run's change is too narrow where steps remember for longer than a fifth of a window, and nothing in
one run tells such a drift from learning: seeds do. No verdict rests on it. Welch's interval is a little too narrow where the condition with
far fewer seeds has far the larger spread. Seeds of two conditions that move together (equal first weights, equal data) make it too wide,
never too narrow.
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
    return HEAD + "".join(_section(kind) for kind in kinds(DETECTORS)) + PROFILES_HEAD + _profiles() + GATES + INTERVALS


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
