"""Stop rules and expectations of an experiment: which apply to a condition, and what stands of them on cards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compiler.document.node import Node
from compiler.language.expand import Setup
from compiler.language.experiment import Experiment
from compiler.language.expressions import stop_condition
from stages.contracts.analysis_card import Windows
from stages.contracts.stops import EarlyStop, Expectation, GreenLight, RedFlag, StopRule, StopRules, read_length
from stages.rules import width

NULL = "null_control"


@dataclass(frozen=True)
class WrittenRule:
    """A rule as a spec writes it, for one condition. `node` is its block."""

    id: str
    written: EarlyStop | RedFlag | GreenLight
    node: Node

    @property
    def is_light(self) -> bool:
        return isinstance(self.written, GreenLight)

    def resolved(self, target_steps: int) -> StopRule:
        """The rule for runs of this number of steps. Raises Unreadable."""
        after, lasting = getattr(self.written, "after", None), getattr(self.written, "lasting", None)
        return StopRule(
            id=self.id,
            when=stop_condition(self.written.when, target_steps),
            after=read_length(after).steps(target_steps) if after else 0,
            lasting=max(1, read_length(lasting).steps(target_steps)) if lasting else None,
            window=width(target_steps, Windows().final),
        )


def rules_of(experiment: Experiment, setup: Setup) -> Iterator[WrittenRule]:
    """All rules that apply to a condition: early stopping, red flags, green lights. None to a null control."""
    if setup.condition.role == NULL:
        return
    early, node = setup.train.early_stop, setup.train_node.get("early_stop")
    if early is not None and node is not None:
        yield WrittenRule("early_stop", early, node)
    stop = experiment.spec.stop
    lists: tuple[tuple[str, tuple[RedFlag | GreenLight, ...]], ...] = (("red_flag", stop.red_flags), ("green_light", stop.green_lights))
    for kind, rules in lists:
        for index, rule in enumerate(rules):
            if not rule.conditions or setup.name in rule.conditions:
                yield WrittenRule(f"{kind}-{index + 1}", rule, experiment.node("stop", f"{kind}s", index))


def stop_rules(experiment: Experiment, setup: Setup) -> StopRules | None:
    """The stop rules of a condition's runs; None when there are none."""
    steps = setup.train.max_steps
    rules = [rule.resolved(steps) for rule in rules_of(experiment, setup) if not rule.is_light]
    lights = [rule.resolved(steps) for rule in rules_of(experiment, setup) if rule.is_light]
    return StopRules(rules=tuple(rules), green_lights=tuple(lights)) if rules else None


def conditions_of(experiment: Experiment, expectation: Expectation) -> tuple[str, ...]:
    """Conditions that an expectation is about."""
    treatments = (name for name, condition in experiment.spec.conditions.items() if condition.role == "treatment")
    return expectation.conditions or tuple(treatments)


def expectations(experiment: Experiment) -> tuple[Expectation, ...]:
    """The expectations with their names and conditions filled in, in the spec's order."""
    return tuple(
        expectation.model_copy(update={"id": expectation.name, "conditions": conditions_of(experiment, expectation)})
        for expectation in experiment.spec.expect
    )
