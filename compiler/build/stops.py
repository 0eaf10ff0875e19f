"""Stop rules and expectations of an experiment: which apply to a condition, and their cards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from compiler.document.node import Node
from compiler.document.units import Length, read_length
from compiler.language.algorithms import early_stop
from compiler.language.expand import Setup
from compiler.language.experiment import Experiment
from compiler.language.expressions import stop_condition
from compiler.language.spec_rules import Expectation
from stages.contracts.analysis_card import Windows
from stages.contracts.rule_card import ExpectCard, RuleCard, StopCard
from stages.rules import width

NULL = "null_control"


@dataclass(frozen=True)
class Rule:
    """A rule as it is written, for one condition. `node` is its block."""

    id: str
    kind: str
    """early_stop, red_flag or green_light."""
    when: str
    node: Node
    after: Length | None
    lasting: Length | None

    def card(self, target_steps: int) -> RuleCard:
        """The rule for runs of so many steps. Raises Unreadable."""
        return RuleCard(
            id=self.id,
            when=stop_condition(self.when, target_steps).when,
            after=self.after.steps(target_steps) if self.after else 0,
            lasting=max(1, self.lasting.steps(target_steps)) if self.lasting else None,
            window=width(target_steps, Windows().final),
        )

    def earliest(self, target_steps: int) -> int:
        """The first step at which it can hold. Raises Unreadable."""
        card = self.card(target_steps)
        begins = max(1, card.after)
        return begins + card.lasting - 1 if card.lasting else max(begins, card.window)


def rules_of(of: Experiment, setup: Setup) -> Iterator[Rule]:
    """All rules that apply to a condition: early stopping, red flags, green lights. None to a null control."""
    if setup.condition.role == NULL:
        return
    early, node = early_stop(setup.train), setup.train_node.get("early_stop")
    if early is not None and node is not None:
        yield Rule("early_stop", "early_stop", early.when, node, None, read_length(early.lasting) if early.lasting else None)
    for index, flag in enumerate(of.spec.stop.red_flags):
        if not flag.conditions or setup.name in flag.conditions:
            after, lasting = (read_length(text) if text else None for text in (flag.after, flag.lasting))
            yield Rule(f"red_flag-{index + 1}", "red_flag", flag.when, of.node("stop", "red_flags", index), after, lasting)
    for index, light in enumerate(of.spec.stop.green_lights):
        if not light.conditions or setup.name in light.conditions:
            yield Rule(f"green_light-{index + 1}", "green_light", light.when, of.node("stop", "green_lights", index), None, None)


def stop_card(of: Experiment, setup: Setup) -> StopCard | None:
    """The stop rules of a condition's runs; None when there are none."""
    found = [(rule.kind, rule.card(setup.train.max_steps)) for rule in rules_of(of, setup)]
    rules = tuple(card for kind, card in found if kind != "green_light")
    return StopCard(rules=rules, green_lights=tuple(card for kind, card in found if kind == "green_light")) if rules else None


def conditions_of(of: Experiment, expectation: Expectation) -> tuple[str, ...]:
    """Conditions that an expectation is about."""
    treatments = (name for name, condition in of.spec.conditions.items() if condition.role == "treatment")
    return expectation.conditions or tuple(treatments)


def name_of(expectation: Expectation) -> str:
    """Its id; without one `reward-at-50pct`."""
    if expectation.id is not None:
        return expectation.id
    at = read_length(expectation.at)
    place = f"{round(100 * at.amount, 9):g}pct" if at.unit == "%" else f"step-{at.amount:g}"
    return f"{expectation.metric.removeprefix('gate.')}-at-{place}".replace(".", "-").replace("_", "-")


def expect_cards(of: Experiment, expectations: Iterable[Expectation]) -> tuple[ExpectCard, ...]:
    """Cards of the expectations, in the spec's order."""
    cards = []
    for expectation in expectations:
        at = read_length(expectation.at)
        cards.append(
            ExpectCard(
                id=name_of(expectation),
                metric=expectation.metric,
                at_share=at.amount if at.unit == "%" else None,
                at_step=int(at.amount) if at.unit == "steps" else None,
                direction="above" if expectation.above is not None else "below",
                bound=float(expectation.above if expectation.above is not None else expectation.below or 0.0),
                conditions=conditions_of(of, expectation),
            )
        )
    return tuple(cards)
