"""What a compile asks of the project's files."""

from __future__ import annotations

import os
from pathlib import Path


def read(path: Path, most: int = -1) -> bytes:
    """The first `most` bytes of a file, all by default. Raises OSError."""
    with path.open("rb") as stream:
        return stream.read(most)


def yaml_files(folder: Path) -> list[Path]:
    """Files or folders in it whose names end with `.yaml`, sorted."""
    return [folder / name for name in names(folder) if name.endswith(".yaml")]


def names(folder: Path) -> list[str]:
    """Names in a folder, sorted; none where there is no folder."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
