"""The section of rewards: conditions with a reward, and a gate's part in it; `reward.html.j2` has the words."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from stages.contracts.reward import Reward
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles
from stages.publish.facts import Facts


def rewarded(experiment: ExperimentFiles) -> Iterator[tuple[int, str, Reward]]:
    """(colour, condition, reward) of the conditions that are trained with one, in the spec's order."""
    for colour, condition in enumerate(experiment.card.conditions):
        card = experiment.train_card(condition.name)
        if card is not None and card.reward is not None:
            yield colour, condition.name, card.reward


def funnel(facts: Facts, condition: str, gate: str) -> Iterator[tuple[Markup, Markup, float | None]]:
    """(reached, share that passed, that share in percent or None) of the untrained model, the first and the last window."""
    for when in ("preflight", "initial", "final"):
        reached, passed = (facts.find(condition, f"gate.{gate}.{what}", when) for what in ("reach", "pass"))
        width = round(100 * passed.value, 1) if passed and passed.value is not None else None
        yield facts.counted(reached), facts.value(passed), width


def printed(reward: float | None) -> str:
    return "unknown" if reward is None else numbers.setting(round(reward, 6))


def seconds(value: float) -> str:
    return f"{value:.1f}" if value >= 0.1 else numbers.number(value)
