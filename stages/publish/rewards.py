"""The section of rewards: the gates as declared, what they decide in words, and how many completions they let pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from stages.contracts.expressions import text
from stages.contracts.preflight_card import PreflightResult
from stages.contracts.reward import Gate, Reward
from stages.publish import numbers
from stages.publish.experiment import ExperimentFiles
from stages.publish.facts import Facts
from stages.publish.numbers import percent, setting


@dataclass(frozen=True)
class Rewarded:
    """A condition that is trained with a reward, for the template."""

    experiment: ExperimentFiles
    facts: Facts
    name: str
    colour: int
    reward: Reward

    @property
    def preflight(self) -> PreflightResult | None:
        return self.experiment.preflight_of(self.name)

    def place(self, gate: int) -> str:
        return str(self.experiment.origin(self.experiment.of_condition(self.name)[0].ref, f"/reward/gates/{gate}") or "")

    def funnel(self, gate: str) -> Iterator[tuple[Markup, Markup, float | None]]:
        """(reached, share that passed, that share in percent or None) of the untrained model, the first and the last window."""
        for when in ("preflight", "initial", "final"):
            reached, passed = (self.facts.find(self.name, f"gate.{gate}.{what}", when) for what in ("reach", "pass"))
            width = round(100 * passed.value, 1) if passed and passed.value is not None else None
            yield self.facts.counted(reached), self.facts.value(passed), width

    def measures(self) -> dict[str, Markup]:
        """What preflight measured on the untrained model."""

        def find(metric: str) -> Markup:
            return self.facts.counted(self.facts.find(self.name, metric, "preflight"))

        return {
            "mean reward": self.facts.value(self.facts.find(self.name, "reward", "preflight")),
            "groups without signal": find("zero_signal_share"),
            "truncated": find("truncated"),
            "reward not known": find("unknown_share"),
        }

    def examples(self) -> Iterator[tuple[str, str, str]]:
        """(completion, what it earns, because). Examples are written for the gates; an inverted reward pays the rest to 1."""
        for example in self.experiment.reward_examples(self.name):
            yield example.completion, printed(1 - example.expect if self.reward.invert else example.expect), example.because


def rewarded(experiment: ExperimentFiles, facts: Facts) -> Iterator[Rewarded]:
    """In the spec's order."""
    for colour, condition in enumerate(experiment.card.conditions):
        card = experiment.train_card(condition.name)
        if card is not None and card.reward is not None:
            yield Rewarded(experiment, facts, condition.name, colour, card.reward)


def printed(reward: float | None) -> str:
    return "unknown" if reward is None else setting(round(reward, 6))


def seconds(value: float) -> str:
    return f"{value:.1f}" if value >= 0.1 else numbers.number(value)


def decides(reward: Reward, gate: Gate) -> str:
    """What a gate does to the reward."""
    if reward.combine == "weighted":
        share = f"{percent(gate.weight or 0.0)} of the reward" + (" at first" if reward.curriculum else "")
        return share + (f"; asked only where {gate.needs} passed" if gate.needs else "")
    parts = [f"pass gives {setting(gate.on_pass)}"] if gate.on_pass is not None else []
    parts += [f"fail gives {setting(gate.on_fail)}"] if gate.on_fail is not None else []
    if gate.on_pass is None or gate.on_fail is None:
        parts.append("otherwise its own score is the reward" if gate is reward.gates[-1] else "otherwise the next gate is asked")
    return "; ".join(parts)


def after(reward: Reward) -> Iterator[str]:
    """A sentence for each phase, each penalty and the cap, in the order in which they apply."""
    for phase in reward.curriculum:
        weights = ", ".join(f"{name} {percent(weight)}" for name, weight in phase.weights.items())
        yield f"From {percent(phase.begins)} of training on: {weights}."
    for penalty in reward.penalties:
        effect = f"becomes {setting(penalty.set)}" if penalty.set is not None else f"is multiplied by {setting(penalty.factor)}"
        yield f"Penalty {penalty.name}: where {text(penalty.when)}, the reward {effect}."
    if reward.cap is not None:
        yield f"No reward is above {setting(reward.cap)}."
