"""`octavo explain`: the values of a run's card, each with the place in the spec that it came from and what it replaced."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from compiler.build.difference import differences, lines
from compiler.build.inputs import Inputs
from compiler.build.origins import CARD, DEFAULT, IMPORT_CARD, origin, places_of
from compiler.build.pipeline import live, named
from compiler.build.stops import expectations, rules_of
from compiler.compile import Compiled, compile_all
from compiler.document.layers import replaced
from compiler.document.node import Node
from compiler.language.expand import Run
from compiler.language.experiment import experiment
from compiler.problems import Rejected, nearest, sentence
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.lineage import Origin
from stages.rules import rule_text

COMPUTED = {"sha256", "code", "revision"}
"""Last parts of keys that hold hashes and commits, pinned by the compiler. Hiding what looks like a key there would hide the pins."""


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print values of a run with their origins, or with --diff what an experiment does differently."""
    if options.diff:
        print(diff(compile_all([named(options.run)], inputs)[0], options.diff, inputs), end="")
        return 0
    experiment_name, slash, _ = options.run.removeprefix("runs/").rstrip("/").rpartition("/")
    compiled = compile_all([named(experiment_name)] if slash else live(inputs), inputs)
    print(explain(*find(compiled, options.run), options.key), end="")
    return 0


def find(compiled: list[Compiled], name: str) -> tuple[Compiled, Run]:
    """The run of a name such as `shaped-s1` or `quickstart/shaped-s1`. Raises Rejected E330 when there is none, or more than one."""
    wanted = name.removeprefix("runs/").rstrip("/")
    runs = {f"{one.experiment.name}/{run.name}": (one, run) for one in compiled for run in one.expansion.runs}
    found = [full for full, (_, run) in runs.items() if wanted in (full, run.name)]
    if len(found) > 1:  # a profile is named with its experiment; the plain name means the experiment proper
        found = [full for full in found if runs[full][0].experiment.profile is None] or found
    if len(found) == 1:
        return runs[found[0]]
    known = list(runs) if "/" in wanted else [run.name for _, run in runs.values()]
    meant = nearest(wanted, known)
    if found:
        what, fix = f"`{wanted}` is a run of several experiments", f"octavo explain {found[0]}"
    else:
        what, fix = (
            f"no run `{wanted}`" + (f", did you mean `{meant}`?" if meant else ""),
            f"octavo explain {meant or next(iter(runs), '...')}",
        )
    raise Rejected(
        [Diagnostic("E330", what, why=f"runs: {', '.join(found or list(runs)[:12])}{' ...' if len(runs) > 12 else ''}", fix=fix)]
    )


def diff(one: Compiled, other: str, inputs: Inputs) -> str:
    """Lines `key  before -> after  place -> place`: what the experiment does differently from its parent, or from any other one.
    Raises Rejected E343 when it has no parent, E321 for an unknown experiment."""
    of = one.experiment
    if other != "parent":
        reference = named(other)
        before = experiment(inputs.document(reference.path), reference.stem, reference.profile, inputs.document)
    elif of.parent is not None:
        before, of = of.parent, of.proper or of
    else:
        raise Rejected(
            [
                Diagnostic(
                    "E343",
                    f"`{of.stem}` has no parent",
                    why="`--diff parent` shows what an experiment changes of the one that it names as its `parent`",
                    fix=f"octavo explain {of.name} --diff <another experiment>",
                )
            ]
        )
    return lines(differences(before, of))


def explain(one: Compiled, run: Run, key: str | None) -> str:
    """Lines `key = value   place (layer)`; for a single key also the values it replaced. Raises Rejected E331 for an unknown key."""
    path = f"{run.name}/{IMPORT_CARD if f'{run.name}/{IMPORT_CARD}' in one.cards.single else CARD}"
    if path in one.cards.single:
        card = one.cards.single[path].model_dump(mode="json")
    else:
        card = one.cards.train[run.setup.name].model_copy(update={"seed": run.seed}).model_dump(mode="json", exclude={"stop"})
    origins = places_of(one.origins, path)
    leaves = dict(_leaves("", card))
    rows = {pointer.strip("/").replace("/", "."): (value, _nearest(origins, pointer)) for pointer, value in leaves.items()}
    rows |= _rules(one, run)
    if key is not None:
        wanted = key.strip("./").replace("/", ".")
        selected = {name: row for name, row in rows.items() if name == wanted or name.startswith(f"{wanted}.")}
        if not selected:
            meant = nearest(wanted, rows)
            raise Rejected(
                [
                    Diagnostic(
                        "E331",
                        f"no key `{wanted}` in the card of `{run.name}`" + (f", did you mean `{meant}`?" if meant else ""),
                        why=f"its parts: {', '.join(dict.fromkeys(name.partition('.')[0] for name in rows))}",
                        fix=f"octavo explain {run.name} {meant or ''}".rstrip(),
                    )
                ]
            )
        rows = selected
    width = min(48, max(len(name) for name in rows))
    values = {name: str(value) if name.rpartition(".")[2] in COMPUTED else _shown(value) for name, (value, _) in rows.items()}
    value_width = min(40, max(len(text) for text in values.values()))
    lines = []
    for name, (_, source) in rows.items():
        place = f"{source.position}  ({source.layer})" if source.file else "default"
        lines.append(f"{name:<{width}}  {values[name]:<{value_width}}  {place}".rstrip())
        if key is not None and len(rows) <= 12:
            lines.extend(
                f"{'':<{width}}  {_shown(older.plain()):<{value_width}}  {origin(older).position}  ({older.layer}, replaced)"
                for older in _older(run, name)
            )
    return "\n".join(lines) + "\n"


def _rules(one: Compiled, run: Run) -> dict[str, tuple[Any, Origin]]:
    """Stop rules and expectations of the run by their key in the spec, in words."""
    of, steps, found = one.experiment, run.setup.train.max_steps, {}
    for rule in rules_of(of, run.setup):
        name = "train.early_stop" if rule.id == "early_stop" else f"stop.{rule.id.replace('-', 's.')}"
        found[name] = (rule_text(rule.resolved(steps)), origin(rule.node))
    for index, card in enumerate(expectations(of)):
        if run.setup.name in card.conditions:
            said = f"{card.metric} {card.direction} {card.bound:g} at {card.place}"
            found[f"expect.{card.id}"] = (said, origin(of.node("expect", index)))
    return found


def _older(run: Run, name: str) -> list[Node]:
    """What a value replaced in lower layers, nearest first."""
    sections = {"train": run.setup.train_node, "model.adapter": run.setup.adapter_node, "data": run.setup.data_node}
    for prefix, node in sections.items():
        if node is not None and name.startswith(f"{prefix}."):
            found = node.get(*name.removeprefix(f"{prefix}.").split("."))
            return replaced(found) if found is not None else []
    return replaced(run.seed_node) if name == "seed" else []


def _leaves(pointer: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(f"{pointer}/{key}", inner)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index, inner in enumerate(value):
            yield from _leaves(f"{pointer}/{index}", inner)
    else:
        yield pointer, value


def _nearest(origins: Mapping[str, Origin], pointer: str) -> Origin:
    while pointer and pointer not in origins:
        pointer = pointer.rpartition("/")[0]
    return origins.get(pointer, DEFAULT)


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return sentence(value)
