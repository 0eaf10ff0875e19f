"""Rules about imports: metrics that octavo knows, units that convert, keys that the format has, claims that can be decided."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.build import questions
from compiler.build.imports import block_of, metric_node, misplaced, section
from compiler.build.inputs import Inputs
from compiler.checks import rules_claims, rules_command, rules_expect, rules_health, rules_names, rules_stops
from compiler.document.node import Node
from compiler.document.units import factor
from compiler.document.validate import key_place
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from compiler.language.spec_imports import ColumnUse, SummaryUse
from compiler.language.trl_names import meant_by
from compiler.problems import listed, nearest
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.history import METRICS, metric
from stages.contracts.line_pattern import names

FIRST_SCREEN = ("reward", "zero_signal_share", "truncated")


def metrics_are_known(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """Each mapped metric is one of octavo's, in a unit that converts into octavo's."""
    use = section(of)
    for name, source in use.metrics.items():
        node = metric_node(of, name)
        meaning = metric(name)
        if meaning is None or name.startswith("evaluation."):
            yield _unknown(name, node)
            continue
        unit = source.unit if isinstance(source, ColumnUse | SummaryUse) else None
        if factor(meaning.unit, unit) is None:
            written = node.get("unit")
            yield Diagnostic(
                "E390",
                f"`{name}` is in {meaning.unit}, and `{unit}` cannot be turned into it",
                why="numbers in another unit would be compared as if they were the same",
                fix=f"leave `unit` out if the log's numbers are in {meaning.unit}, or do not map the metric",
                place=written.place if written else node.place,
            )
    for index, name in enumerate(use.unavailable):
        place = (block_of(of).get("unavailable", index) or block_of(of)).place
        if metric(name) is None:
            yield _unknown(name, Node(name, place))
        elif name in use.metrics:
            yield Diagnostic(
                "E388",
                f"`{name}` is mapped, and said to be unavailable",
                why="the page would say both",
                fix="delete one of them",
                place=place,
            )
    silent = [name for name in FIRST_SCREEN if name not in use.metrics and name not in use.unavailable]
    if silent:
        yield Diagnostic(
            "W396",
            f"{listed(silent)} {'is' if len(silent) == 1 else 'are'} not mapped",
            why="the first screen of a page shows them; a blank there must be meant",
            fix=f"map the column, or write `unavailable: [{', '.join(silent)}]`",
            place=key_place(block_of(of).get("metrics") or block_of(of)),
            severity="warning",
        )


def _unknown(name: str, node: Node) -> Diagnostic:
    trl = meant_by(name)
    meant = trl or nearest(name, METRICS)
    evaluation = name.startswith("evaluation.")
    return Diagnostic(
        "E388",
        f"octavo has no metric `{name[:80]}`" + (f", did you mean `{meant}`?" if meant else ""),
        why="there is no model to evaluate, so nothing can be an evaluation"
        if evaluation
        else f"detectors, gates and claims know metrics by name: {listed(list(METRICS))}, and gate.<gate>.pass_share or .score",
        fix=f"write `{meant}: {name if trl else '<column>'}`" if meant else "write `gate.<name>.score: <column>`, or leave it out",
        place=node.key or node.place,
    )


def formats_have_their_keys(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """What a format needs, and nothing that it ignores."""
    use, block = section(of), block_of(of)
    only = {
        "pattern": "text",
        "where": "summary",
        "steps_done": "summary",
        "entity": "wandb",
        "project": "wandb",
        "ids": "wandb",
        "config": "wandb",
    }
    for key, form in only.items():
        if block.get(key) is not None and use.format != form:
            yield _key(
                f"`{key}` is of the format `{form}`, and this is `{use.format}`", "it would be ignored", f"delete `{key}`", block, key
            )
    for key, form in (("pattern", "text"), ("where", "summary")):
        if use.format == form and block.get(key) is None:
            fix = "pattern: 'step {step}  loss={loss}'" if key == "pattern" else "where: {condition: '{condition}', name: run-{seed}}"
            yield _key(f"the format `{form}` needs `{key}`", "it says which part of the file is meant", fix, block, "format")
    if (use.epoch is None) != (use.steps_per_epoch is None):
        yield _key("`epoch` and `steps_per_epoch` go together", "an epoch is no step", "steps_per_epoch: 1000", block, "epoch")
    if use.epoch is not None and use.step is not None:
        yield _key("`step` and `epoch` are both given", "a row has one place in the run", "delete `epoch`", block, "epoch")
    if use.format == "summary":
        for key in ("step", "epoch", "counts_from"):
            if block.get(key) is not None:
                yield _key(f"`{key}` has no meaning for a summary", "a summary is no series", f"delete `{key}`", block, key)
    if use.format == "tensorboard" and block.get("step") is not None:
        yield _key("`step` has no meaning for `tensorboard`", "every event carries its step", "delete `step`", block, "step")
    yield from _placeholders(of)
    yield from _pattern(of)
    for name, source in use.metrics.items():
        yield from _form(use.format == "summary", name, source, metric_node(of, name))


def _placeholders(of: Experiment) -> Iterator[Diagnostic]:
    use, block = section(of), block_of(of)
    texts = [("path", block.get("path"), use.path)] if use.path is not None else []
    texts += [(f"where.{key}", block.get("where", key), text) for key, text in use.where.items() if isinstance(text, str)]
    for key, node, text in texts:
        for name in misplaced(str(text)):
            yield Diagnostic(
                "E392",
                f"`{{{name[:40]}}}` in `{key}` means nothing",
                why="known: `{condition}` and `{seed}`",
                fix="write `{condition}` or `{seed}`",
                place=(node or block).place,
            )
    if use.path is not None and use.format == "summary":
        return


def _pattern(of: Experiment) -> Iterator[Diagnostic]:
    use, block = section(of), block_of(of)
    if use.format != "text" or use.pattern is None:
        return
    found = names(use.pattern)
    node = block.get("pattern") or block
    if len(set(found)) < len(found) or "" in found:
        yield Diagnostic(
            "E392", "a name in `pattern` is empty or given twice", why="each number becomes a column", fix="name each one", place=node.place
        )
    if "}{" in use.pattern:
        yield Diagnostic(
            "E392",
            "two numbers of `pattern` have nothing between them",
            why="where one number ends and the next begins could not be told",
            fix="write what the lines have between them, such as a blank or a comma",
            place=node.place,
        )
    index = use.epoch or use.step or "step"
    if index not in found:
        yield Diagnostic(
            "E392",
            f"`pattern` has no `{{{index}}}`",
            why="every line needs its place in the run: its step, or its epoch with `steps_per_epoch`",
            fix=f"write `{{{index}}}` where the line has it, or name it with `step:` or `epoch:`",
            place=node.place,
        )
    for name, source in use.metrics.items():
        column = source if isinstance(source, str) else source.column if isinstance(source, ColumnUse) else None
        if column is not None and column not in found:
            meant = nearest(column, found)
            yield Diagnostic(
                "E392",
                f"`pattern` has no `{{{column[:80]}}}`" + (f", did you mean `{meant}`?" if meant else ""),
                why=f"its numbers are {listed(found)}",
                fix=f"write `{meant}`" if meant else "add it to the pattern",
                place=metric_node(of, name).place,
            )


def _form(is_summary: bool, name: str, source: object, node: Node) -> Iterator[Diagnostic]:
    if is_summary != isinstance(source, SummaryUse):
        yield Diagnostic(
            "E392",
            f"`{name}` needs the key of a single value" if is_summary else f"`{name}` needs a column",
            why="a summary holds single values, and it must be clear what each is" if is_summary else "the format holds series",
            fix=f"{name}: {{last: <key>}}" if is_summary else f"{name}: <column>",
            place=node.place,
        )
    elif isinstance(source, SummaryUse):
        given = [key for key in ("last", "mean", "final") if getattr(source, key) is not None]
        if len(given) != 1 or (source.initial is not None and source.final is None):
            yield Diagnostic(
                "E392",
                f"`{name}` needs exactly one of `last`, `mean` and `final`, and `initial` only beside `final`",
                why="a finding has one value, and a change needs two of a kind",
                fix=f"{name}: {{last: <key>}}",
                place=key_place(node),
            )


def _key(what: str, why: str, fix: str, block: Node, key: str) -> Diagnostic:
    node = block.get(key) or block
    return Diagnostic("E392", what, why=why, fix=fix, place=node.key or node.place)


def changes_have_a_beginning(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """A claim on a change, of a summary that has no initial value."""
    use = section(of)
    for key in ("stop", "expect"):
        node = of.root.get(key)
        if use.format == "summary" and node is not None:
            yield Diagnostic(
                "E393",
                f"`{key}` looks at the course of a metric, and a summary has none",
                why="it could never be met, and never be missed",
                fix=f"delete `{key}`, or import the logs themselves",
                place=node.key or node.place,
            )
    for index, claim in enumerate(of.spec.claims):
        source = use.metrics.get(claim.metric)
        if claim.statistic == "change" and isinstance(source, SummaryUse) and source.initial is None:
            yield Diagnostic(
                "E393",
                f"the claim `{claim.id}` is about a change of `{claim.metric}`, of which the summary has one value",
                why="it could only be void",
                fix=f"{claim.metric}: {{initial: <key>, final: <key>}}, or `statistic: final`",
                place=of.node("claims", index, "statistic").place,
            )


RULES = (
    *rules_names.RULES,
    *questions.RULES,
    metrics_are_known,
    formats_have_their_keys,
    changes_have_a_beginning,
    rules_health.health_can_be_decided,
    rules_claims.claims_name_what_exists,
    rules_claims.claims_have_seeds,
    rules_claims.contrasts_have_a_null_control,
    *rules_command.RULES,
    *rules_stops.RULES,
    *rules_expect.RULES,
)
"""Those of other specs that mean something without a model, data and rewards, and our own."""
