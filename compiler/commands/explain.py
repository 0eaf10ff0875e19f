"""`octavo explain`: the values of a run's card, each with the place in the spec that it came from and what it replaced."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import Any

from compiler.build.cards import CARD, IMPORT_CARD
from compiler.build.difference import differences, lines
from compiler.build.inputs import Inputs
from compiler.build.origins import nearest_origin, origin, places_of
from compiler.build.pipeline import live, named
from compiler.build.stops import expectations, rules_of
from compiler.compile import Compiled, compile_all
from compiler.document.layers import replaced
from compiler.document.node import Node
from compiler.language.expand import Run
from compiler.language.experiment import experiment
from compiler.problems import Rejected, listed, nearest, problem, sentence, unknown
from compiler.render import flow
from stages.contracts.answer import take
from stages.contracts.diagnostic import StageError
from stages.contracts.layout import RUNS
from stages.contracts.lineage import Origin
from stages.contracts.model import DatasetRef, ModelRef
from stages.contracts.prompt import shown_text
from stages.rules import bounds_text, rule_text

PROMPT = "prompt"
"""Instead of a key: only the texts."""
COMPUTED = {"sha256", "code", "revision"}
"""Last parts of keys that hold hashes and commits."""


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print values of a run with their origins, or with --diff what an experiment does differently."""
    if options.diff:
        print(diff(compile_all([named(options.run)], inputs)[0], options.diff, inputs), end="")
        return 0
    experiment_name, slash, _ = options.run.removeprefix("runs/").rstrip("/").rpartition("/")
    compiled = compile_all([named(experiment_name)] if slash else live(inputs), inputs)
    each, run = find(compiled, options.run)
    if options.key != PROMPT:
        print(explain(each, run, options.key), end="")
    if options.key in (None, PROMPT):
        print("".join(texts(each, run, inputs)), end="")
    return 0


def find(compiled: list[Compiled], name: str) -> tuple[Compiled, Run]:
    """The run of a name such as `shaped-s1` or `quickstart/shaped-s1`. Raises Rejected E330 when there is none, or more than one."""
    runs = {f"{each.experiment.name}/{run.name}": (each, run) for each in compiled for run in each.expansion.runs}
    return runs[full_name(name, runs, "explain")]


def full_name(name: str, runs: Iterable[str], command: str) -> str:
    """`<experiment>/<run>` for a name such as `shaped-s1` or `runs/quickstart/shaped-s1`. Raises Rejected E330."""
    wanted, runs = name.removeprefix(f"{RUNS}/").rstrip("/"), list(runs)
    matches = [run for run in runs if wanted in (run, run.partition("/")[2])]
    matches = [run for run in matches if "@" not in run] or matches  # a profile is named with its experiment
    if len(matches) == 1:
        return matches[0]
    meant = nearest(wanted, runs if "/" in wanted else [run.partition("/")[2] for run in runs])
    what = f"no run `{wanted}`" + (f", did you mean `{meant}`?" if meant else "")
    if matches:
        what, meant = f"`{wanted}` is a run of several experiments", matches[0]
    meant = meant or next(iter(runs), "<experiment>/<run>")
    raise Rejected([problem("E330", what=what, runs=listed(matches or runs, 12), command=command, meant=meant)])


def diff(compiled: Compiled, other: str, inputs: Inputs) -> str:
    """Lines `key  before -> after  place -> place`: what the experiment does differently from its parent, or from any other one.
    Raises Rejected E343 when it has no parent, E321 for an unknown experiment."""
    after = compiled.experiment
    if other != "parent":
        reference = named(other)
        before = experiment(inputs.document(reference.path), reference.stem, reference.profile, inputs.document)
    elif after.parent is not None:
        before, after = after.parent, after.proper or after
    else:
        raise Rejected([problem("E343", stem=after.stem, name=after.name)])
    return lines(differences(before, after))


def explain(compiled: Compiled, run: Run, key: str | None) -> str:
    """Lines `key = value   place (layer)`; for a single key also the values it replaced. Raises Rejected E331 for an unknown key."""
    path = f"{run.name}/{IMPORT_CARD if f'{run.name}/{IMPORT_CARD}' in compiled.cards.single else CARD}"
    if path in compiled.cards.single:
        card = compiled.cards.single[path].model_dump(mode="json", by_alias=True)
    else:
        card = (
            compiled.cards.train[run.setup.name]
            .model_copy(update={"seed": run.seed})
            .model_dump(mode="json", by_alias=True, exclude={"stop"})
        )
    origins = places_of(compiled.origins, path)
    rows = {pointer.strip("/").replace("/", "."): (value, nearest_origin(origins, pointer)) for pointer, value in _leaves("", card)}
    rows |= _rules(compiled, run)
    if key is not None:
        wanted = key.strip("./").replace("/", ".")
        parts = ", ".join(dict.fromkeys(name.partition(".")[0] for name in rows))
        selected = {name: row for name, row in rows.items() if name == wanted or name.startswith(f"{wanted}.")}
        if not selected:
            raise Rejected([unknown("E331", wanted, rows, None, run=run.name, parts=parts)])
        rows = selected
    values = {name: _shown(name, value) for name, (value, _) in rows.items()}
    width, value_width = min(48, max(map(len, rows))), min(40, max(map(len, values.values())))
    table = []
    for name, (_, source) in rows.items():
        place = f"{source.position}  ({source.layer})" if source.file else "default"
        table.append(f"{name:<{width}}  {values[name]:<{value_width}}  {place}")
        for node in _replaced(run, name) if key is not None and len(rows) <= 12 else ():
            place = f"{origin(node).position}  ({node.layer}, replaced)"
            table.append(f"{'':<{width}}  {_shown(name, node.plain()):<{value_width}}  {place}")
    return "\n".join(table) + "\n"


def texts(compiled: Compiled, run: Run, inputs: Inputs) -> Iterator[str]:
    """The first row's prompt as the model reads it, and the answers that the reward takes out of its examples."""
    setup, spec = run.setup, compiled.experiment.spec
    if run.setup.name not in compiled.cards.train:  # an import
        return
    card = compiled.cards.train[setup.name]
    if setup.data.path is not None:
        row = next(iter(inputs.data(setup.data.path).rows.values()))
        note, text = _prompt(card.model, card.data, row)
        yield f"\nprompt of `{row['id']}`{note}:\n{_quoted(text)}"
    if card.reward is not None and card.reward.answer is not None and setup.reward.declared is not None:
        for number, example in enumerate(spec.rewards[setup.reward.declared].examples, start=1):
            answer = take(card.reward.answer, example.completion)
            yield f"\nanswer of example {number}{':' if answer.text is not None else f': none, {answer.reason}'}\n"
            yield _quoted(answer.text) if answer.text is not None else ""


def _prompt(model: ModelRef, data: DatasetRef, row: dict[str, Any]) -> tuple[str, str]:
    """(a note, the text). With a chat template, and a tokenizer that is there, the text that the template makes of the messages."""
    plain = shown_text(row, data.prompt, data.layout, model.apply_chat_template)
    if not model.apply_chat_template:
        return "", plain
    from stages.train.model import chat_text

    try:
        return ", in the chat template", chat_text(model, data, row)
    except (OSError, ValueError):
        return "; its tokenizer is not on this machine, so these are the messages", plain
    except StageError as error:
        return f"; {error.what}, so these are the messages", plain


def _quoted(text: str) -> str:
    """Untrusted text with a bar before each line; what could steer a terminal is written out."""
    plain = "".join(letter if letter.isprintable() or letter == "\n" else repr(letter)[1:-1] for letter in text)
    return "".join(f"  | {line}\n" for line in plain.split("\n"))


def _rules(compiled: Compiled, run: Run) -> dict[str, tuple[Any, Origin]]:
    """Stop rules and expectations of the run by their key in the spec, in words."""
    spec, rows = compiled.experiment, dict[str, tuple[Any, Origin]]()
    for rule in rules_of(spec, run.setup):
        name = "train.early_stop" if rule.id == "early_stop" else f"stop.{rule.id.replace('-', 's.')}"
        rows[name] = (rule_text(rule.resolved(run.setup.train.max_steps)), origin(rule.node))
    for index, card in enumerate(expectations(spec)):
        if run.setup.name in card.conditions:
            words = f"{card.metric} {bounds_text(card.direction, card.bound, card.upper)} at {card.place}"
            rows[f"expect.{card.id}"] = (words, origin(spec.node("expect", index)))
    return rows


def _replaced(run: Run, name: str) -> list[Node]:
    """What a value replaced in lower layers, nearest first."""
    node = run.seed_node if name == "seed" else None
    sections = {"train": run.setup.train_node, "model.adapter": run.setup.adapter_node, "data": run.setup.data_node}
    for prefix, section in sections.items():
        if section is not None and name.startswith(f"{prefix}."):
            node = section.get(*name.removeprefix(f"{prefix}.").split("."))
    return replaced(node) if node is not None else []


def _leaves(pointer: str, value: Any) -> Iterator[tuple[str, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
    if value and (isinstance(value, dict) or (isinstance(value, list) and isinstance(value[0], dict))):
        for key, inner in items:
            yield from _leaves(f"{pointer}/{key}", inner)
    else:
        yield pointer, value


def _shown(name: str, value: Any) -> str:
    """A value on one line. What looks like a secret is hidden, but not in hashes and commits that the compiler pins."""
    return str(value) if name.rpartition(".")[2] in COMPUTED else sentence(flow(value))
