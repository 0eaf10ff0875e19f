"""`octavo check --rewards`: the examples of every reward through its gates, as preflight does before training, and degenerate answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from compiler.build.inputs import Inputs
from compiler.build.resolve import example_cards
from compiler.compile import Compiled
from compiler.document.node import Node
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.reward import Reward
from stages.train.verifiers.faults import VerifierUnavailable


def check(one: Compiled, inputs: Inputs, tried: list[int]) -> Iterator[Diagnostic]:
    """E325 at each example whose reward is not the expected one; E398 and W398 at a reward that a degenerate answer serves best; W397
    at a reward whose verifier this machine does not have. Gates may start their sandbox. `tried` gets the number of examples of each reward
    that was tried."""
    from stages.train.rewards.compose import check_examples, sandbox

    of = one.experiment
    checked: set[tuple[str, str | None]] = set()
    for setup in one.expansion.setups:
        name = setup.reward.declared
        if name is None or (name, setup.data.path) in checked:
            continue
        checked.add((name, setup.data.path))
        rows = inputs.data(setup.data.path).rows if setup.data.path is not None else {}
        card = setup.reward.card(example_cards(of, name, setup.data, inputs))
        try:
            sandbox(card.gates)
        except VerifierUnavailable as error:
            yield _not_checked(of.node("rewards", name), name, error)
            continue
        tried.append(len(card.examples))
        for index, outcome in enumerate(check_examples(card)):
            if not outcome.ok:
                expect: Node = of.node("rewards", name, "examples", index, "expect")
                got = "the gates do not know" if outcome.got is None else f"the reward is {outcome.got:g}"
                yield Diagnostic(
                    "E325",
                    f"{got}, not {outcome.expect:g}: {outcome.why}",
                    why="a reward that does not do what its author expects does not train",
                    fix="correct the gates, or the expectation",
                    place=expect.place,
                )
        yield from _degenerate(card, rows, of.node("rewards", name))


def _degenerate(card: Reward, rows: Mapping[str, Mapping[str, Any]], node: Node) -> Iterator[Diagnostic]:
    """Texts that take no skill and that no right answer beats, unless an example says what they earn (W302 is about that)."""
    from stages.train.probes import REFUSED, highest, probes

    own = ((json.dumps(example.row.get("id", example.row), ensure_ascii=False), example.row) for example in card.examples)
    wanted: dict[str, Mapping[str, Any]] = {name.strip('"'): row for name, row in own}
    wanted = wanted or dict(list(rows.items())[:3])
    if not wanted:  # prompts of the hub, and no example that brings a row
        return
    best = [one for one in probes(card, list(wanted.values())) if one.best and not one.declared]
    for one in sorted(best, key=lambda one: one.name not in REFUSED)[:1]:  # what repairs the emptiest one mostly repairs the others
        refused = one.name in REFUSED
        text = json.dumps(one.text if len(one.text) <= 40 else f"{one.text[:40].rstrip()} ...", ensure_ascii=False)
        row = next(iter(wanted))
        yield Diagnostic(
            "E398" if refused else "W398",
            f"the answer {text} ({one.name}) earns {one.reward:g}; no right answer earns more than {highest(card):g}",
            why="a policy finds such an optimum and then writes nothing else",
            fix="add a gate that fails it, such as `filled: {kind: format, min_chars: 10, on_fail: 0.0}`"
            + (f"; or, if it may, say so: `- {{completion: {text}, row: {row}, expect: {one.reward:g}}}`" if len(one.text) <= 40 else ""),
            place=node.key if node.key is not None else node.place,
            severity="error" if refused else "warning",
        )


def _not_checked(reward: Node, name: str, error: VerifierUnavailable) -> Diagnostic:
    return Diagnostic(
        "W397",
        f"the examples of the reward `{name}` are not checked here: {error.what}",
        why="they need the verifier itself; a run that needs it and does not find it does not start (S220)",
        fix=error.fix,
        place=reward.key,
        severity="warning",
    )
