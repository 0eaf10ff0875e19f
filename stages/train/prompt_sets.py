"""Prompt sets of a corpus: distinct problems of its stream, some of them held out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Protocol


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
    train = [example.row("example-1"), *(found.row(f"train-{i:04d}") for i, found in enumerate(fresh[heldout_rows:], start=2))]
    return {"train": train, "heldout": [found.row(f"heldout-{i:04d}") for i, found in enumerate(fresh[:heldout_rows], start=1)]}


def _distinct(stream: Iterator[Problem], seen: set[str]) -> Iterator[Problem]:
    for found in stream:
        if found.prompt not in seen:
            seen.add(found.prompt)
            yield found
