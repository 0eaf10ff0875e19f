"""Rewards as declared and as they worked: gates, the funnel before training beside training, and reward atoms."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from stages.contracts.preflight_card import PreflightResult
from stages.contracts.reward_card import ExampleCard, RewardCard
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles
from stages.publish.facts import Facts
from stages.publish.numbers import setting
from stages.publish.reward_words import after, decides


@dataclass(frozen=True)
class Stage:
    """How many completions reached a gate, and the share of those that passed it, at one time."""

    reached: Markup
    passed: Markup
    width: float | None
    """The passing share of those that reached it, in percent: a bar's width. None when it is not known."""


@dataclass(frozen=True)
class GateRow:
    """A gate as declared, with its funnel before training and in training."""

    name: str
    kind: str
    settings: tuple[tuple[str, str], ...]
    decides: str
    place: str
    funnel: tuple[Stage, ...]
    """Untrained model (preflight), first window, last window."""


@dataclass(frozen=True)
class AtomRow:
    reward: str
    words: str
    width: float


@dataclass(frozen=True)
class ProbeRow:
    """A degenerate answer and what it earns."""

    name: str
    earns: str
    best: bool


@dataclass(frozen=True)
class RewardView:
    condition: str
    colour: int
    name: str
    gates: tuple[GateRow, ...]
    after: tuple[str, ...]
    """Phases, penalties and cap, a sentence each."""
    invert: bool
    unknown_limit: str
    examples: tuple[ExampleCard, ...]
    expected: tuple[str, ...]
    """What each example earns, printed."""
    preflight: PreflightResult | None
    facts_of_preflight: tuple[tuple[str, Markup], ...]
    atoms: tuple[AtomRow, ...]
    probes: tuple[ProbeRow, ...]
    step: str
    """What a step was predicted to take; empty when it was not."""


def reward_views(experiment: ExperimentFiles, facts: Facts) -> tuple[RewardView, ...]:
    """One view a condition that is trained with a reward."""
    views = []
    for colour, condition in enumerate(experiment.card.conditions):
        card = experiment.train_card(condition.name)
        if card is None or card.reward is None:
            continue
        before, declared = experiment.preflight_of(condition.name), experiment.reward_examples(condition.name)
        views.append(
            RewardView(
                condition=condition.name,
                colour=colour,
                name=card.reward.name,
                gates=_gates(experiment, facts, condition.name, card.reward),
                after=tuple(after(card.reward)),
                invert=card.reward.invert,
                unknown_limit=numbers.percent(card.reward.unknown_limit),
                examples=declared,
                expected=tuple(_earned(example, card.reward.invert) for example in declared),
                preflight=before,
                facts_of_preflight=_measures(facts, before) if before else (),
                atoms=_atoms(before) if before else (),
                probes=_probes(before) if before else (),
                step=_step(before) if before else "",
            )
        )
    return tuple(views)


def _gates(experiment: ExperimentFiles, facts: Facts, condition: str, reward: RewardCard) -> tuple[GateRow, ...]:
    first = experiment.of_condition(condition)[0].ref
    rows = []
    for index, gate in enumerate(reward.gates):
        origin = experiment.origin(first, f"/reward/gates/{index}")
        rows.append(
            GateRow(
                name=gate.name,
                kind=gate.kind,
                settings=tuple((key, setting(value)) for key, value in gate.settings.items() if value not in (None, [], {})),
                decides=decides(reward, gate),
                place=str(origin) if origin else "",
                funnel=tuple(_stage(facts, condition, gate.name, when) for when in ("preflight", "initial", "final")),
            )
        )
    return tuple(rows)


def _stage(facts: Facts, condition: str, gate: str, when: str) -> Stage:
    reached, passed = (facts.find(condition, f"gate.{gate}.{what}", when) for what in ("reach", "pass"))
    width = round(100 * passed.value, 1) if passed and passed.value is not None else None
    return Stage(facts.counted(reached), facts.value(passed), width)


def _earned(example: ExampleCard, invert: bool) -> str:
    """Examples are written for the gates; an inverted reward pays the rest to 1."""
    return setting(round(1 - example.expect if invert else example.expect, 6))


def _measures(facts: Facts, result: PreflightResult) -> tuple[tuple[str, Markup], ...]:
    found = {
        "mean reward": facts.value(facts.find(result.condition, "reward", "preflight")),
        "groups without signal": facts.counted(facts.find(result.condition, "zero_signal_share", "preflight")),
        "truncated": facts.counted(facts.find(result.condition, "truncated", "preflight")),
        "reward not known": facts.counted(facts.find(result.condition, "unknown_share", "preflight")),
    }
    return tuple(found.items())


def _atoms(result: PreflightResult) -> tuple[AtomRow, ...]:
    most = sorted(result.atoms, key=lambda atom: -atom.completions)[:6]
    return tuple(
        AtomRow(
            reward=setting(round(atom.reward, 6)),
            words=f"{atom.completions} of {result.completions}",
            width=round(100 * atom.completions / result.completions, 1) if result.completions else 0.0,
        )
        for atom in most
    )


def _probes(result: PreflightResult) -> tuple[ProbeRow, ...]:
    return tuple(
        ProbeRow(probe.name, "unknown" if probe.reward is None else setting(round(probe.reward, 6)), probe.best) for probe in result.probes
    )


def _seconds(value: float) -> str:
    return f"{value:.1f}" if value >= 0.1 else numbers.number(value)


def _step(result: PreflightResult) -> str:
    step = result.step
    if step is None:
        return ""
    return (
        f"A step of {step.completions} completions was predicted to take {_seconds(step.sampling)} s to sample and "
        f"{_seconds(step.scoring)} s to score" + (f", most of that for {step.slowest_gate}." if step.scoring >= 0.1 else ".")
    )
