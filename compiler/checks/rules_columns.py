"""Rules about what gates read of a data row: the column is there, wherever a compile can look."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from compiler.build.data_files import DataFile
from compiler.build.inputs import Inputs
from compiler.document.validate import key_place
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from compiler.language.gates import GateUse
from compiler.language.spec_data import PromptData
from compiler.problems import Fault, nearest
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.plugin import columns


def gates_find_their_columns(of: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E378 when no row of a file has a column that a gate reads, W378 when some have none. Rows of hub datasets are not read here."""
    seen: set[tuple[str | None, int | None, str, str, str]] = set()
    evaluation = of.spec.data.evaluation
    uses: list[tuple[PromptData, GateUse]] = [(setup.data, use) for setup in expansion.setups for use in setup.reward.gates]
    uses += [(evaluation, use) for use in expansion.scores] if evaluation is not None and of.spec.evaluation is not None else []
    for data, use in uses:
        for key, column in _read(use):
            asked = (data.path, data.rows, use.card.name, key, column)
            if asked in seen:
                continue
            seen.add(asked)
            try:
                found = inputs.data(data.path)
            except Fault:
                continue
            yield from _held_against(found, data.rows, use, key, column)


def _read(use: GateUse) -> Iterator[tuple[str, str]]:
    """(setting, column) of what a gate reads of a row."""
    for key in columns(use.card.kind):
        value = use.card.settings.get(key)
        named: Iterable[str] = [value] if isinstance(value, str) else value or ()
        yield from ((key, column) for column in named)


def _held_against(data: DataFile, count: int | None, use: GateUse, key: str, column: str) -> Iterator[Diagnostic]:
    rows = list(data.rows.items())[:count]
    lacking = [name for name, row in rows if row.get(column) is None]
    if not lacking:
        return
    node = use.node.get(key)
    place = node.place if node is not None else key_place(use.node)
    if len(lacking) < len(rows):
        yield Diagnostic(
            "W378",
            f"{len(lacking)} of {len(rows)} rows of `{data.path}` have no `{column}`, which `{use.card.name}` reads: `{lacking[0]}` ...",
            why="the gate cannot know for a row without it, and unknown rewards are left out",
            fix=f"give every row a `{column}`, or take those rows out",
            place=place,
            severity="warning",
        )
        return
    known = list(dict.fromkeys(name for _, row in rows[:100] for name in row if name != "id"))
    meant = nearest(column, known)
    yield Diagnostic(
        "E378",
        f"no row of `{data.path}` has `{column}`, which `{use.card.name}` reads" + (f", did you mean `{meant}`?" if meant else ""),
        why=f"without it the gate never knows, and there is no reward; columns there: {', '.join(known)}",
        fix=f"write `{key}: {meant or '...'}`, or give every row a `{column}`",
        place=place,
    )


RULES = (gates_find_their_columns,)
