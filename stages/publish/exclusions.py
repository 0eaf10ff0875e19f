"""Why runs do not count, in plain words: the health gate that a run fails, once for all runs that fail it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stages.contracts.metric_words import words
from stages.publish import numbers
from stages.publish.experiment import RunFiles

_GATE = re.compile(r"gate (?P<gate>[\w.-]+): (?P<says>.*)", re.DOTALL)
_FAILED = re.compile(r"the last attempt failed \(\w+\)")
_UNSCREENED = ("no health was measured",)


def left_out(run: RunFiles) -> tuple[str, ...]:
    """Reasons that a run is left out, without the names of gates; none when it counts."""
    return tuple(plain(reason) for reason in (run.health.reasons if run.health else _UNSCREENED))


def gates_of(run: RunFiles) -> set[str | None]:
    """Gates that would each keep a run out; None stands for every other reason. Empty when it counts."""
    if run.included:
        return set()
    reasons = run.health.reasons if run.health else _UNSCREENED
    others = {None for reason in reasons if _GATE.fullmatch(reason) is None}
    return {*others, *(answer.gate for answer in (run.health.gates if run.health else ()) if not answer.passed)}


def plain(reason: str) -> str:
    """`truncated share is 0.91 in steps 55-60, not below 0.5` of `gate truncated: truncated is 0.91 in steps 55-60, not below 0.5`."""
    match = _GATE.fullmatch(reason)
    if match is None:
        return _FAILED.sub(lambda found: found[0].replace("_", " "), reason)
    return in_words(match["gate"], match["says"])


def in_words(gate: str, text: str) -> str:
    """A gate's rule or answer with its metric in words."""
    return words(gate) + text.removeprefix(gate) if text.startswith(f"{gate} ") else text


def causes(runs: Iterable[RunFiles]) -> str:
    """All reasons of all runs: each failed gate's rule once, with the runs that it leaves out; most runs first."""
    rules: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for run in runs:
        declared = {gate.gate: gate.rule for gate in run.health.gates} if run.health else {}
        for reason in run.health.reasons if run.health else _UNSCREENED:
            match = _GATE.fullmatch(reason)
            if match and match["gate"] in declared:
                rules.setdefault(in_words(match["gate"], declared[match["gate"]]), []).append(run.ref.name)
            else:
                others.setdefault(reason, []).append(run.ref.name)
    parts = [f"{rule} ({numbers.listed(names)})" for rule, names in sorted(rules.items(), key=lambda rule: -len(rule[1]))]
    failed = [f"Not met: {'; '.join(parts)}."] if parts else []
    return " ".join([*failed, *(f"{numbers.listed(names)}: {reason}." for reason, names in others.items())])
