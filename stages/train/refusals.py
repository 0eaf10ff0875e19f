"""Why a stage of training refuses to go on: the texts of each code stand in messages.yaml."""

from __future__ import annotations

import functools
from pathlib import Path
from string import Template
from typing import Any

from stages.contracts.diagnostic import StageError
from stages.contracts.files import load_table


def refusal(key: str, /, **facts: Any) -> StageError:
    """The error of a key such as `S203.missing`, with facts of its place. Facts may be untrusted text."""
    what, why, fix = (Template(text).substitute(facts) for text in _messages()[key])
    return StageError(key.partition(".")[0], what, why=why, fix=fix)


@functools.cache
def _messages() -> dict[str, list[str]]:
    messages: dict[str, list[str]] = load_table(Path(__file__).with_name("messages.yaml"))
    return messages
