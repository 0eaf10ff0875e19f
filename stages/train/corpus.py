"""Corpora of base models: one file a kind in `stages/train/corpora/`; the folder is the registry, as for gates and detectors.

A corpus module has the prompt sets that ship with the repository, and two functions:

    SHIPPED: Shipped
    def problem(rng: Random) -> Problem                                 the next problem; problems repeat
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
from typing import Any

from stages.contracts.files import write_text
from stages.contracts.plugin import CORPORA, load
from stages.contracts.pretrain_card import CorpusSettings


@dataclass(frozen=True)
class Problem:
    """A row of a prompt set without its id: `prompt`, `answer` (the right completion) and what the gates read. `parts` is what the corpus
    made it of."""

    row: dict[str, Any]
    parts: Any = None


@dataclass(frozen=True)
class Shipped:
    """The prompt sets `train`, with the example first, and `heldout`: the seed of their problems, and their numbers of rows."""

    example: Problem
    seed: int
    train: int
    heldout: int


def problems(kind: str, seed: int) -> Iterator[Problem]:
    """An endless stream of a corpus's problems, with repeats."""
    corpus, rng = load(CORPORA, kind), random.Random(seed)
    while True:
        yield corpus.problem(rng)


def labelled(settings: CorpusSettings) -> Iterator[tuple[Problem, str, str]]:
    """(problem, class of its fault or `right`, completion); a declared share of the completions carries a fault."""
    corpus, rng = load(CORPORA, settings.kind), random.Random(settings.seed + 1)
    for problem in islice(problems(settings.kind, settings.seed), settings.rows):
        is_faulty = rng.random() < settings.faulty
        yield (problem, *(corpus.with_fault(problem, rng) if is_faulty else ("right", problem.row["answer"])))


def prompt_sets(kind: str) -> dict[str, list[dict[str, Any]]]:
    """Rows of the prompt sets that ship with the repository. No prompt occurs twice, in one of them or across both."""
    shipped: Shipped = load(CORPORA, kind).SHIPPED
    distinct = {shipped.example.row["prompt"]: shipped.example.row}
    stream = problems(kind, shipped.seed)
    while len(distinct) < shipped.train + shipped.heldout:
        row = next(stream).row
        distinct.setdefault(row["prompt"], row)
    example, *fresh = distinct.values()
    train, heldout = [example, *fresh[shipped.heldout :]], fresh[: shipped.heldout]
    return {
        "train": [{"id": f"train-{i:04d}" if i > 1 else "example-1", **row} for i, row in enumerate(train, start=1)],
        "heldout": [{"id": f"heldout-{i:04d}", **row} for i, row in enumerate(heldout, start=1)],
    }


if __name__ == "__main__":
    for name, rows in prompt_sets(sys.argv[1]).items():
        write_text(Path(sys.argv[2]) / f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
