"""Corpora of base models: one file a kind in `stages/train/corpora/`; the folder is the registry, as for gates and detectors.

A corpus module has two functions:

    def pairs(settings: CorpusSettings) -> Iterator[tuple[str, str]]     (prompt, completion) pairs to learn from
    def prompt_sets() -> dict[str, list[dict[str, Any]]]                 rows of the prompt sets that ship with the repository, by name

Prompts end in a newline: a prompt must end on a token boundary, else BPE merges across it and the model trains wrongly.
`python -m stages.train.corpus expressions data/quickstart` writes a corpus's prompt sets.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from stages.contracts.artifact import write_text
from stages.contracts.plugin import CORPORA, load


class Problem(Protocol):
    """A problem of a corpus."""

    @property
    def prompt(self) -> str: ...

    def row(self, name: str) -> dict[str, Any]:
        """The problem as a row of a prompt set."""
        ...


def split(example: Problem, stream: Iterator[Problem], train_rows: int, heldout_rows: int) -> dict[str, list[dict[str, Any]]]:
    """`train` (the example first) and `heldout`, from an endless stream. No prompt occurs twice, in one of them or across both."""
    fresh = list(islice(_distinct(stream, {example.prompt}), train_rows - 1 + heldout_rows))
    train = [example.row("example-1"), *(problem.row(f"train-{i:04d}") for i, problem in enumerate(fresh[heldout_rows:], start=2))]
    return {"train": train, "heldout": [problem.row(f"heldout-{i:04d}") for i, problem in enumerate(fresh[:heldout_rows], start=1)]}


def _distinct(stream: Iterator[Problem], seen: set[str]) -> Iterator[Problem]:
    for problem in stream:
        if problem.prompt not in seen:
            seen.add(problem.prompt)
            yield problem


def write(kind: str, folder: Path) -> None:
    """Write a corpus's prompt sets as `<name>.jsonl`, equal bytes every time."""
    for name, rows in load(CORPORA, kind).prompt_sets().items():
        write_text(folder / f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
