"""Rewards as declared and as they worked: gates, the funnel before training beside training, and reward atoms."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from stages.contracts.preflight_card import PreflightResult
from stages.contracts.reward_card import GateCard, RewardCard
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles
from stages.publish.facts import Facts
from stages.publish.numbers import setting


@dataclass(frozen=True)
class GateRow:
    """A gate: what is declared, what the untrained model did at it, what the trained one does."""

    name: str
    kind: str
    settings: tuple[tuple[str, str], ...]
    decides: str
    place: str
    before: str
    before_width: float
    """Share of the untrained model's completions that passed, of all, in percent: a bar's width."""
    unknown: str
    training: Markup


@dataclass(frozen=True)
class AtomRow:
    reward: str
    words: str
    width: float


@dataclass(frozen=True)
class RewardView:
    condition: str
    colour: int
    name: str
    gates: tuple[GateRow, ...]
    invert: bool
    unknown_limit: str
    examples: int
    preflight: PreflightResult | None
    facts_of_preflight: tuple[tuple[str, str], ...]
    atoms: tuple[AtomRow, ...]


def reward_views(experiment: ExperimentFiles, facts: Facts) -> tuple[RewardView, ...]:
    """One view a condition that has a train card."""
    views = []
    for colour, condition in enumerate(experiment.card.conditions):
        card = experiment.train_card(condition.name)
        if card is None:
            continue
        before = experiment.preflight_of(condition.name)
        views.append(
            RewardView(
                condition=condition.name,
                colour=colour,
                name=card.reward.name,
                gates=_gates(experiment, facts, condition.name, card.reward, before),
                invert=card.reward.invert,
                unknown_limit=f"{numbers.setting(round(100 * card.reward.unknown_limit, 3)).removesuffix('.0')}%",
                examples=len(card.reward.examples),
                preflight=before,
                facts_of_preflight=_measures(before) if before else (),
                atoms=_atoms(before) if before else (),
            )
        )
    return tuple(views)


def _gates(
    experiment: ExperimentFiles, facts: Facts, condition: str, reward: RewardCard, before: PreflightResult | None
) -> tuple[GateRow, ...]:
    shares = {share.gate: share for share in before.funnel} if before else {}
    first = experiment.of_condition(condition)[0].ref
    rows = []
    for index, gate in enumerate(reward.gates):
        share = shares.get(gate.name)
        origin = experiment.origin(first, f"/reward/gates/{index}")
        rows.append(
            GateRow(
                name=gate.name,
                kind=gate.kind,
                settings=tuple((key, setting(value)) for key, value in gate.settings.items()),
                decides=_decides(gate, last=index == len(reward.gates) - 1),
                place=str(origin) if origin else "",
                before=f"{share.passed} of {share.reached} passed" if share else numbers.NONE,
                before_width=round(100 * share.passed / before.completions, 1) if share and before and before.completions else 0.0,
                unknown=f"{share.unknown} not known" if share and share.unknown else "",
                training=facts.interval(facts.find(condition, f"gate.{gate.name}.pass_share", "final", "share")),
            )
        )
    return tuple(rows)


def _decides(gate: GateCard, *, last: bool) -> str:
    parts = [f"pass gives {setting(gate.on_pass)}"] if gate.on_pass is not None else []
    parts += [f"fail gives {setting(gate.on_fail)}"] if gate.on_fail is not None else []
    if gate.on_pass is None or gate.on_fail is None:
        parts.append("otherwise its own score is the reward" if last else "otherwise the next gate is asked")
    return "; ".join(parts)


def _measures(result: PreflightResult) -> tuple[tuple[str, str], ...]:
    mean = numbers.number(result.reward_mean)
    return (
        ("completions", str(result.completions)),
        ("mean reward", mean),
        ("groups without signal", f"{result.zero_signal_groups} of {result.groups}"),
        ("truncated", f"{result.truncated} of {result.completions}"),
        ("reward not known", f"{result.unknown} of {result.completions}"),
    )


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
