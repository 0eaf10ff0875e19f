"""Writes `site/docs/reference/files.md` from the contracts: `python tests/stages/publish/files_reference.py`. A test compares."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import typing
from pathlib import Path
from types import UnionType
from typing import Any

from pydantic import BaseModel

import compiler.commands
import stages.contracts
from stages.contracts import attempt, history
from stages.contracts.algorithms import Settings
from stages.contracts.artifact import Artifact, Frozen
from stages.contracts.stage import ROOT
from tests.attribute_texts import attribute_texts

PAGE = ROOT / "site" / "docs" / "reference" / "files.md"
_PRINTED = ("stages.train.rescore", "stages.publish.verification")
"""Modules of stages whose models commands print with `--json`."""

_HEAD = """\
# File formats

<!-- Made from stages/contracts by tests/stages/publish/files_reference.py; edit the contracts, then run it. -->

Stages meet only in files. JSON files are canonical (sorted keys, UTF-8, two spaces, one newline at the end) and strict: a number that does
not exist is `null` with a reason beside it, never `NaN`. Each carries its `schema` with a version; a reader refuses another version with
the command that repairs it. All paths in files are relative to the project root.

## Where files lie

| under `runs/<experiment>/` | written by | kept by | holds |
|---|---|---|---|
| `dvc.yaml`, `dvc.lock` | compiler, DVC | git | the stage graph, and what each stage was run with |
| `<run>/train.card.json` | compiler | git | everything that changes the result of a run, and nothing else |
| `<run>/import.card.json` | compiler | git | of a run that octavo did not train: its source by content, how it is read, what is mapped |
| `<run>/imported.json` | collect | DVC | what was read of such a source: stride, gaps, cuts, flags, and the values of a summary |
| `<run>/retry.json` | compiler, screen | git | whether a failed run is due again |
| `<run>/attempts.jsonl` | train | git | the ledger: every attempt that began, and how it ended |
| `<run>/outcome.json` | train | DVC | how the run stands after its latest attempt |
| `<run>/history.parquet` | train | DVC | every metric of every step |
| `<run>/completions.parquet` | train | DVC | every completion with what each gate said |
| `<run>/adapter/` | train | DVC | the trained LoRA weights; empty when the run is not finished |
| `<run>/evaluation.parquet` | evaluate-<run> | DVC | the shared evaluation; `untrained/` holds that of the base model |
| `<run>/health.json` | screen | DVC | signals, health gates, whether the run counts |
| `preflight/` | preflight | DVC | each reward on completions of the untrained model, and permissions to train |
| `analysis/*.card.json` | compiler | git | cards of evaluate, screen, conclude and draw |
| `analysis/findings.json` | conclude | DVC | every number that a page may show, and the verdicts |
| `analysis/figures/` | draw | DVC | each picture as SVG, the numbers behind it as CSV, its words as JSON |
| `page.card.json` | compiler | git | the words of the page |
| `origins.json` | compiler | no one: each compile writes it | where in the spec each value stands |
| `page/` | page | DVC | `index.md`, `static/*.html`, `passports.js`, `*.json` (summary, rules, lineage), citations, figures |

Checkpoints lie outside, in `.cache/checkpoints/<card id>/`: DVC empties a stage's outputs before it runs, and a killed run must find them.
"""


def generated() -> str:
    """The whole page."""
    parts = [_HEAD, _tables(), _ledger(), "\n## JSON files\n"]
    parts += [_model(model) for model in _models() if issubclass(model, Artifact)]
    parts.append("\n## Parts of JSON files\n")
    parts += [_model(model) for model in _models() if not issubclass(model, Artifact) and model not in (attempt.Started, attempt.Ended)]
    return re.sub(r" at 0x[0-9a-f]+", "", "\n".join(part.strip("\n") + "\n" for part in parts))


def _tables() -> str:
    def row(cells: typing.Iterable[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    metrics = [row((f"`{m.name}`", m.unit, m.says)) for m in history.METRICS.values()]
    metrics += [row((f"`gate.<gate>.{name}`", m.unit, m.says)) for name, m in history.GATE_METRICS.items()]
    metrics += [row((f"`penalty.<penalty>.{name}`", m.unit, m.says)) for name, m in history.PENALTY_METRICS.items()]
    metrics += [
        row((f"`evaluation.<score>.{name}`", history.GATE_METRICS[name].unit, f"The same on the shared evaluation: {name}"))
        for name in history.EVALUATION_MEASURES
    ]
    return f"""
## Parquet files

Their metadata holds `octavo.schema`, `octavo.card_id` and `octavo.attempt` (the attempt that wrote the file).

- `history.parquet` ({history.HISTORY_SCHEMA}), one row a step, metric and attempt: {_names(history.HISTORY_COLUMNS)}.
  `state` is `value`, `nonfinite` (logged as NaN or infinite; value null) or `null` (logged
  as "does not apply"; value null). A metric that was not logged at a step has no row.
- `completions.parquet` ({history.COMPLETIONS_SCHEMA}), one row a completion: {_names(history.COMPLETIONS_COLUMNS)}, then for each gate
  {_names(history.gate_columns("<gate>"))}. A status is one of {_names(history.STATUSES)}.
- `evaluation.parquet` ({history.EVALUATION_SCHEMA}), one row a completion: {_names(history.EVALUATION_COLUMNS)}, then the
  same three for each score.

### Metrics

| metric | unit | meaning |
|---|---|---|
""" + "\n".join(metrics)


def _ledger() -> str:
    head = (
        "## The ledger\n\n`<run>/attempts.jsonl` holds one JSON object a line and is only ever appended to. "
        "A start without an end was killed."
    )
    return "\n\n".join([head, _model(attempt.Started, "###"), _model(attempt.Ended, "###")])


def _names(names: typing.Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _models() -> list[type[Frozen]]:
    """All models of the contracts, in the order of module and source line."""
    models = []
    packages = (stages.contracts, compiler.commands)
    names = [f"{package.__name__}.{module.name}" for package in packages for module in pkgutil.iter_modules(package.__path__)]
    for name in sorted([*names, *_PRINTED], key=lambda name: name.rpartition(".")[2]):
        module = importlib.import_module(name)
        mine = [m for m in vars(module).values() if inspect.isclass(m) and issubclass(m, Frozen) and m.__module__ == module.__name__]
        models += sorted(
            (m for m in mine if m not in (Frozen, Artifact) and not m.__pydantic_generic_metadata__["args"]),
            key=lambda m: inspect.getsourcelines(m)[1],
        )
    return models


def _model(model: type[BaseModel], level: str = "###") -> str:
    schema = getattr(model, "SCHEMA", None)
    title = f"{level} {model.__name__}" + (f" (`{schema}`)" if schema else "")
    says = inspect.cleandoc(model.__doc__ or "").strip() if "__doc__" in vars(model) else ""
    texts = attribute_texts(model)
    rows = [
        f"| `{name}` | {_kind(field.annotation)} | {_cell(field.description or texts.get(name, ''))} |"
        for name, field in model.model_fields.items()
        if not field.exclude
    ]
    table = "| key | type | meaning |\n|---|---|---|\n" + "\n".join(rows)
    return "\n\n".join(part for part in (title, " ".join(says.split()), table) if part)


def _kind(annotation: Any) -> str:
    """A type in plain words."""
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _kind(inside[0])
    if origin is typing.Literal:
        return " or ".join(f"`{value}`" for value in inside)
    if origin in (UnionType, typing.Union):
        return " or ".join(_kind(part) for part in inside)
    if isinstance(annotation, typing.TypeVar):  # the settings of an algorithm
        return _kind(Settings)
    if origin is tuple:
        return f"list of {_kind(inside[0])}"
    if origin is dict:
        return f"map of {_kind(inside[1])}"
    if annotation is type(None):
        return "null"
    words = {str: "text", int: "integer", float: "number", bool: "true or false", Any: "anything"}
    if annotation in words:
        return words[annotation]
    return f"[{annotation.__name__}](#{_anchor(annotation)})" if inspect.isclass(annotation) else str(annotation)


def _anchor(model: type) -> str:
    schema = getattr(model, "SCHEMA", None)
    return model.__name__.lower() + (f"-{schema.replace('.', '').replace('/', '')}" if schema else "")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    Path(PAGE).write_text(generated(), encoding="utf-8")
    print(PAGE)
