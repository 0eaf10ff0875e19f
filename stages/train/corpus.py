"""Corpora of base models: one file a kind in `stages/train/corpora/`; the folder is the registry, as for gates and detectors.

A corpus module has a dataclass of its problems (see Problem) and

    SHIPPED: Shipped                                                    the prompt sets that ship with the repository
    def problems(seed: int) -> Iterator[Problem]                        an endless stream of problems, with repeats
    def with_fault(problem: Problem, rng: Random) -> tuple[str, str]    (class of the fault, a faulty completion)

Prompts end in a newline: a prompt must end on a token boundary, else BPE merges across it and the model trains wrongly.
`python -m stages.train.corpus expressions data/quickstart` writes a corpus's prompt sets.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from stages.contracts.artifact import write_text
from stages.contracts.plugin import CORPORA, load
from stages.contracts.pretrain_card import CorpusSettings


class Problem(Protocol):
    """A problem of a corpus, with its right completion."""

    @property
    def prompt(self) -> str: ...

    @property
    def answer(self) -> str: ...

    def row(self, name: str) -> dict[str, Any]:
        """The problem as a row of a prompt set."""
        ...


@dataclass(frozen=True)
class Shipped:
    """The prompt sets `train`, with the example first, and `heldout`: the seed of their problems, and their rows."""

    example: Problem
    seed: int
    train: int
    heldout: int


def labelled(settings: CorpusSettings) -> Iterator[tuple[Any, str, str]]:
    """(problem, class of its fault or `right`, completion); a declared share of the completions carries a fault."""
    corpus, rng = load(CORPORA, settings.kind), random.Random(settings.seed + 1)
    for problem in islice(corpus.problems(settings.seed), settings.rows):
        faulty = rng.random() < settings.faulty
        yield (problem, *(corpus.with_fault(problem, rng) if faulty else ("right", problem.answer)))


def pairs(settings: CorpusSettings) -> Iterator[tuple[str, str]]:
    """(prompt, completion) pairs to learn from."""
    return ((problem.prompt, text) for problem, _, text in labelled(settings))


def prompt_sets(kind: str) -> dict[str, list[dict[str, Any]]]:
    """Rows of the prompt sets that ship with the repository. No prompt occurs twice, in one of them or across both."""
    corpus = load(CORPORA, kind)
    shipped: Shipped = corpus.SHIPPED
    fresh, seen = list[Problem](), {shipped.example.prompt}
    for problem in corpus.problems(shipped.seed):
        if len(fresh) == shipped.train - 1 + shipped.heldout:
            break
        if problem.prompt not in seen:
            seen.add(problem.prompt)
            fresh.append(problem)
    heldout, train = fresh[: shipped.heldout], fresh[shipped.heldout :]
    return {
        "train": [shipped.example.row("example-1"), *(problem.row(f"train-{i:04d}") for i, problem in enumerate(train, start=2))],
        "heldout": [problem.row(f"heldout-{i:04d}") for i, problem in enumerate(heldout, start=1)],
    }


def write(kind: str, folder: Path) -> None:
    """Write a corpus's prompt sets as `<name>.jsonl`, equal bytes every time."""
    for name, rows in prompt_sets(kind).items():
        write_text(folder / f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
