"""A rescoring as text for a terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence

from stages.contracts.rescoring import CompletionChange, Counts, Rescoring, StepChange

SHOWN = 8
"""Completions shown, those first whose reward moved most."""
WINDOWS = 5
"""Parts of the run that the curve is shown in."""
TEXT = 90


def text(of: Rescoring, shown: int = SHOWN) -> str:
    """Headline, gates, curve, and the completions that moved most."""
    whose = "of its card" if of.scored_with == "card" else "that the spec declares now"
    lines = [f"{of.run}: {of.completions} completions of {of.steps} steps, scored again with the reward {whose} ({of.reward})"]
    lines.append(
        f"rewards: {of.changed} of {of.completions} are others: {of.higher} higher, {of.lower} lower, {of.newly_unknown} newly unknown, "
        f"{of.newly_known} newly known"
    )
    gone = f" ({of.without_row} without a data row)" if of.without_row else ""
    lines.append(f"unknown: {of.unknown_before} -> {of.unknown_after}{gone}")
    lines.append(f"mean:    {number(of.mean_before)} -> {number(of.mean_after)}")
    lines += ["", *_gates(of), "", *_curve(of.curve)]
    if of.changes:
        most = sorted(of.changes, key=_moved, reverse=True)[:shown]
        lines += ["", f"completions that say something else: {len(of.changes)}; {len(most)} shown, --json has all"]
        for change in most:
            lines += _change(change)
    elif of.completions:
        lines += ["", "Nothing changes."]
    return "\n".join(lines) + "\n"


def number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"


def printable(text: str) -> str:
    """Text of a model, as one line that cannot steer a terminal."""
    return json.dumps(text if len(text) <= TEXT else text[:TEXT] + "...", ensure_ascii=True)


def _gates(of: Rescoring) -> list[str]:
    width = max((len(gate.gate) for gate in of.gates), default=4)
    lines = [f"{'gate':<{width}}  {'passed, failed, unknown, not reached':<42} others  gained  lost"]
    for gate in of.gates:
        counts = f"{_counted(gate.before) if gate.before else 'not there'} -> {_counted(gate.after)}"
        lines.append(f"{gate.gate:<{width}}  {counts:<42} {gate.changed:>6}  {gate.gained:>6}  {gate.lost:>4}")
    return lines


def _counted(counts: Counts) -> str:
    return f"{counts.passed} {counts.failed} {counts.unknown} {counts.not_reached}"


def _curve(curve: Sequence[StepChange]) -> list[str]:
    lines = [f"{'steps':<12} {'reward':<20} groups without signal"]
    parts = min(WINDOWS, len(curve))
    for part in range(parts):
        steps = curve[part * len(curve) // parts : (part + 1) * len(curve) // parts]
        rewards = f"{number(_mean([s.reward_before for s in steps]))} -> {number(_mean([s.reward_after for s in steps]))}"
        groups = sum(step.groups for step in steps)
        silent = (
            f"{sum(s.zero_signal_before for s in steps)} -> {sum(s.zero_signal_after for s in steps)} of {groups}"
            if groups
            else "no groups"
        )
        lines.append(f"{f'{steps[0].step}..{steps[-1].step}':<12} {rewards:<20} {silent}")
    return lines


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _moved(change: CompletionChange) -> float:
    if change.reward_before is None or change.reward_after is None:
        return 2.0 if change.reward_before != change.reward_after else 0.0
    return abs(change.reward_after - change.reward_before)


def _change(change: CompletionChange) -> list[str]:
    where = f"step {change.step}, {printable(change.prompt_id)[1:-1]}, completion {change.place}"
    lines = [f"  {number(change.reward_before)} -> {number(change.reward_after)}  {where}: {printable(change.text)}"]
    for said in change.gates:
        before = said.before if said.score_before is None else f"{said.before} {said.score_before:g}"
        after = said.after if said.score_after is None else f"{said.after} {said.score_after:g}"
        lines.append(f"    {said.gate}: {before} -> {after}" + (f" ({printable(said.reason)[1:-1]})" if said.reason else ""))
    return lines
