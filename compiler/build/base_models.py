"""Base models: made by this repository, a folder in the project, or a model of the hub."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from compiler.problems import Fault, problem
from stages.contracts.artifact import file_digest
from stages.contracts.names import PATH
from stages.contracts.pretrain_card import PretrainCard

MADE = "octavo/"
LINEAR = ("hidden_size", "intermediate_size")
"""Keys of a model's configuration that are sizes of its linear layers."""


@dataclass(frozen=True)
class BaseModel:
    """A base model: where it will lie and what pins it. `card` when the repository makes it. `hub`: `path` is a hub id."""

    path: str
    revision: str
    max_positions: int | None
    card: PretrainCard | None
    hub: bool = False
    sizes: tuple[tuple[str, int], ...] = ()
    """Names and values of the sizes of its linear layers, as far as they are known."""


def in_folder(base: str) -> BaseModel:
    """The model in a folder of the project. Raises Fault."""
    path = Path(base)
    if not PATH.fullmatch(base) or not os.path.isdir(path):
        raise Fault(problem("E314", name=base))
    try:
        content = json.loads((path / "config.json").read_bytes().decode("utf-8"))
        content = content if isinstance(content, dict) else {}
        positions = content.get("max_position_embeddings")
        sizes = tuple((key, size) for key in LINEAR if isinstance(size := content.get(key), int))
        return BaseModel(base, file_digest(path)[:16], positions if isinstance(positions, int) else None, None, sizes=sizes)
    except (OSError, ValueError) as error:
        raise Fault(problem("E314.config", name=base, reason=error)) from None
