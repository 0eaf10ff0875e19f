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
from pathlib import Path

from stages.contracts.artifact import write_text
from stages.contracts.plugin import CORPORA, load
from stages.contracts.pretrain_card import CorpusSettings


def pairs(settings: CorpusSettings) -> Iterator[tuple[str, str]]:
    """(prompt, completion) pairs of a corpus. Raises KeyError for a kind that no compiler writes."""
    found: Iterator[tuple[str, str]] = load(CORPORA, settings.kind).pairs(settings)
    return found


def write(kind: str, folder: Path) -> None:
    """Write a corpus's prompt sets as `<name>.jsonl`, equal bytes every time."""
    for name, rows in load(CORPORA, kind).prompt_sets().items():
        write_text(folder / f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
