"""`octavo check --rewards`: the examples of every reward through its gates, as preflight does before training, and degenerate answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.build.cards import example_cards
from compiler.build.inputs import Inputs
from compiler.compile import Compiled
from compiler.document.node import Node
from compiler.problems import problem
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.reward import Reward
from stages.train.verifiers.verdict import VerifierUnavailable


@dataclass
class Tally:
    """`scored`: examples of rewards that were tried; `forbidden`: rewards that were not, because this machine may not call an address."""

    scored: int = 0
    forbidden: int = 0


def check(compiled: Compiled, inputs: Inputs, tally: Tally) -> Iterator[Diagnostic]:
    """E325 at each example whose reward is not the expected one; E398 and W398 at a reward that a degenerate answer serves best; W397
    at a reward whose verifier this machine does not have, or may not call. Gates may start their sandbox."""
    from stages.train.rewards.compose import check_examples, sandbox
    from stages.train.verifiers.web import AddressForbidden

    experiment = compiled.experiment
    checked: set[tuple[str, str | None]] = set()
    for setup in compiled.expansion.setups:
        name = setup.reward.declared
        if name is None or (name, setup.data.path) in checked:
            continue
        checked.add((name, setup.data.path))
        rows = inputs.data(setup.data.path).rows if setup.data.path is not None else {}
        card = setup.reward.card(example_cards(experiment, name, setup.data, inputs))
        try:
            sandbox(card.gates)
        except VerifierUnavailable as error:
            is_forbidden = isinstance(error, AddressForbidden)
            tally.forbidden += is_forbidden
            code = "W397.address" if is_forbidden else "W397"
            yield problem(code, experiment.node("rewards", name).key, reward=name, reason=error.what, fix=error.fix)
            continue
        tally.scored += len(card.examples)
        for index, outcome in enumerate(check_examples(card)):
            if not outcome.ok:
                expect: Node = experiment.node("rewards", name, "examples", index, "expect")
                got = "the gates do not know" if outcome.got is None else f"the reward is {outcome.got:g}"
                yield problem("E325", expect.place, got=got, expect=outcome.expect, reason=outcome.why)
        yield from _degenerate(card, rows, experiment.node("rewards", name))


def _degenerate(card: Reward, rows: Mapping[str, Mapping[str, Any]], node: Node) -> Iterator[Diagnostic]:
    """Texts that take no skill and that no right answer beats, unless an example says what they earn (W302 is about that)."""
    from stages.train.reasons import REFUSED, highest, is_declared, probes

    own = ((json.dumps(example.row.get("id", example.row), ensure_ascii=False), example.row) for example in card.examples)
    wanted: dict[str, Mapping[str, Any]] = {name.strip('"'): row for name, row in own}
    wanted = wanted or dict(list(rows.items())[:3])
    if not wanted:  # prompts of the hub, and no example that brings a row
        return
    best = [probe for probe in probes(card, list(wanted.values())) if probe.best and not is_declared(card, probe)]
    for probe in sorted(best, key=lambda probe: probe.name not in REFUSED)[:1]:  # what repairs the emptiest one mostly repairs the others
        refused = probe.name in REFUSED
        text = json.dumps(probe.text if len(probe.text) <= 40 else f"{probe.text[:40].rstrip()} ...", ensure_ascii=False)
        example = f"{{completion: {text}, row: {next(iter(wanted))}, expect: {probe.reward:g}}}"
        declared = f"; or, if it may, say so: `- {example}`" if len(probe.text) <= 40 else ""
        top = highest(card)
        rights = [example.completion for example in card.examples if example.expect >= top]
        facts = {"text": text, "name": probe.name, "reward": probe.reward, "highest": top, "fix": _gate_against(probe.text, rights, card)}
        yield problem("E398" if refused else "W398", node.key or node.place, None, **facts, declared=declared)


def _gate_against(text: str, rights: Sequence[str], card: Reward) -> str:
    """What to write so that a text without skill fails and the best examples still pass."""
    shortest = min(map(len, rights), default=10)
    if len(text) < shortest:
        rule = f"min_chars: {max(len(text) + 1, min(10, shortest))}"
    elif len(text.split()) > 1 and len(set(text.split())) == 1:
        rule = r"pattern: '(?s)(?!(\S+)(\s+\1){9}).*'"  # not one word ten times
    else:
        return "show with an example what a better answer earns: the best one so far looks no different"
    if card.combine == "weighted":
        return f"add a gate `filled: {{kind: format, {rule}, weight: 0.0}}` and a penalty `unfilled: {{when: filled.fail, set: 0.0}}`"
    return f"add a gate that fails it, such as `filled: {{kind: format, {rule}, on_fail: 0.0}}`"
