"""What DVC runs: stages, and the files they stand in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Stage:
    """One DVC stage. Paths are relative to the project's root; `module` is run with `arguments`, nothing else."""

    name: str
    module: str
    arguments: tuple[str, ...]
    deps: tuple[str, ...]
    outs: tuple[str, ...]
    desc: str
    cache: bool = True


@dataclass(frozen=True)
class Pipeline:
    """One dvc.yaml."""

    path: Path
    spec: str
    """What it was made from, for its first line."""
    stages: tuple[Stage, ...]


def paths(*files: Path | str | None) -> tuple[str, ...]:
    """As text, without those that are None: what lies on the hub is no dependency of DVC, cards pin it."""
    return tuple(path if isinstance(path, str) else path.as_posix() for path in files if path is not None)
