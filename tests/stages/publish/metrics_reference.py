"""Writes `site/docs/reference/metrics.md` from the table of metrics. Run it with the root on PYTHONPATH; a test compares."""

from __future__ import annotations

from collections.abc import Iterator

from stages.contracts.history import GATE_METRICS, METRICS, PENALTY_METRICS, Metric, range_words
from stages.contracts.stage import ROOT

PAGE = ROOT / "site" / "docs" / "reference" / "metrics.md"
_HEAD = """\
# Metrics

<!-- Made from stages/contracts/history.csv by tests/stages/publish/metrics_reference.py; edit the table, then run it. -->

What each metric of a history means, its unit, what it can be by definition, and the range in which a step of it is healthy. The names of
metrics on a page lead here. A healthy range has a source; sources disagree, and a spec says what its author expects with `expect`. Where no
range is known none is given: entropy and KL of one model say nothing of another's. [Detectors](detectors.md) look at windows of steps.

A spec derives metrics of its own: [write a spec](../guide/write-a-spec.md).
"""
_GROUPS = {"": "Logged by every algorithm", "grpo": "Of completions that the policy samples", "ppo": "PPO", "sft": "Supervised fine-tuning"}


def generated() -> str:
    """The whole page."""
    parts = [_HEAD]
    for first, title in _GROUPS.items():
        own = [metric for metric in METRICS.values() if (metric.algorithms or ("",))[0] == first]
        parts += [f"\n## {title}\n", *(_section(metric, metric.name, metric.name.replace(".", "-")) for metric in own)]
    parts.append(
        "\n## Gates and penalties\n\nOf a gate in training `gate.<gate>.<measure>`, on held-out prompts `evaluation.<gate>.<measure>`.\n"
    )
    parts += [_section(metric, f"gate.<gate>.{name}", f"gate-{name}") for name, metric in GATE_METRICS.items()]
    parts += [_section(metric, f"penalty.<penalty>.{name}", f"penalty-{name}") for name, metric in PENALTY_METRICS.items()]
    return "".join(parts)


def _section(metric: Metric, name: str, anchor: str) -> str:
    return f"\n### `{name}` {{ #{anchor} }}\n\n{metric.says}.\n\n" + "".join(f"- {line}\n" for line in _lines(metric))


def _lines(metric: Metric) -> Iterator[str]:
    title = metric.title.replace("{}", "the gate")
    yield f"Unit: {metric.unit}. On pages: {title}."
    if metric.bounds != (None, None):
        yield f"By definition {range_words(metric.bounds)}."
    if metric.healthy != (None, None):
        yield f"Healthy: {range_words(metric.healthy)} (source: {metric.source})."
    if metric.trl:
        yield f"In TRL's logs: {', '.join(f'`{name}`' for name in metric.trl)}."


if __name__ == "__main__":
    PAGE.write_text(generated(), encoding="utf-8")
