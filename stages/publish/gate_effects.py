"""What each health gate changes: the runs that it fails, those that it alone keeps out, and every number with and without it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from stages.contracts.finding import Finding
from stages.publish import numbers
from stages.publish.exclusions import gates_of, in_words
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.facts import Facts

SAME = "the same"
MOST_NAMES = 20
MOST = 60
"""Numbers in the table; the passports hold the same of every number."""


@dataclass(frozen=True)
class GateLine:
    name: str
    rule: str
    fails: str
    """Runs that do not pass it; of one that cannot be decided it says so."""
    alone: str
    """Those that would count without it."""


@dataclass(frozen=True)
class NumberLine:
    fact: Markup
    subject: str
    """Condition, contrast or experiment."""
    label: str
    """Metric and statistic."""
    without: tuple[str, ...]
    """By gate, in the order of `GateEffects.columns`."""
    with_all: str


@dataclass(frozen=True)
class GateEffects:
    gates: tuple[GateLine, ...]
    says: str
    """One sentence that holds of all gates together."""
    columns: tuple[str, ...] = ()
    numbers: tuple[NumberLine, ...] = ()
    more: int = 0
    """Numbers that found no room."""


def gate_effects(experiment: ExperimentFiles, facts: Facts) -> GateEffects:
    """Of all gates that the spec declares."""
    lines = tuple(_lines(experiment))
    out = [run for run in experiment.runs if not run.included]
    changed = [found for found in experiment.findings.values() if found.with_all is not None or found.without_gate]
    columns = tuple(line.name for line in lines if any(line.name in found.without_gate for found in changed))
    made = tuple(_number(facts, found, columns) for found in changed[:MOST])
    return GateEffects(lines, _says(lines, out), columns, made, max(0, len(changed) - MOST))


def _lines(experiment: ExperimentFiles) -> Iterator[GateLine]:
    rules: dict[str, str] = {}
    fails: dict[str, list[str]] = {}
    alone: dict[str, list[str]] = {}
    for run in experiment.runs:
        for gate in run.health.gates if run.health else ():
            rules.setdefault(gate.gate, in_words(gate.gate, gate.rule))
            if not gate.passed:
                unknown = " (not known)" if gate.passed is None else ""
                fails.setdefault(gate.gate, []).append(f"{run.ref.name}{unknown}")
                if gate.alone:
                    alone.setdefault(gate.gate, []).append(run.ref.name)
    for name, rule in rules.items():
        yield GateLine(name, rule, _few(fails.get(name, [])), _few(alone.get(name, [])))


def _few(names: list[str]) -> str:
    """All of them, or of many the first and how many more."""
    if len(names) > MOST_NAMES:
        names = [*names[: MOST_NAMES - 1], f"{len(names) - MOST_NAMES + 1} more"]
    return numbers.listed(names) or "none"


def _says(lines: tuple[GateLine, ...], out: list[RunFiles]) -> str:
    if not lines:
        return "The spec declares no health gate, or no run was screened."
    if not out:
        return "No gate keeps a run out, so every number is the same without them."
    alone = [run for run in out if run.health and any(gate.alone for gate in run.health.gates)]
    both = [run.ref.name for run in out if run not in alone and None not in gates_of(run) and len(gates_of(run)) > 1]
    other = [run.ref.name for run in out if run not in alone and run.ref.name not in both]
    parts = []
    if both:
        them = "it still does" if len(both) == 1 else "they still do"
        parts.append(f"{_few(both)}: kept out by several gates, so without one of these gates {them} not count")
    if other:
        parts.append(f"{_few(other)}: out for other reasons than a gate, or for one besides it")
    return f"{'. '.join(parts)}." if parts else "Each run that is left out is kept out by one gate alone."


def _number(facts: Facts, found: Finding, columns: tuple[str, ...]) -> NumberLine:
    known = [found.value, found.with_all, *found.without_gate.values()]
    digits = numbers.column_decimals((value, None, None) for value in known)
    signed = found.statistic in numbers.SIGNED

    def text(value: float | None) -> str:
        return numbers.number(value, found.unit, decimals=digits, signed=signed)

    return NumberLine(
        fact=facts.value(found, decimals=digits),
        subject=found.subject,
        label=f"{found.metric} {found.statistic}",
        without=tuple(text(found.without_gate[name]) if name in found.without_gate else SAME for name in columns),
        with_all=text(found.with_all) if found.with_all is not None else SAME,
    )
