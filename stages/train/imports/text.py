"""What a text file holds, as UTF-8 without a mark, and as JSON."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from stages.train.imports.log import Unreadable

_PACKED = {b"\x1f\x8b": ("gzip", "gunzip"), b"PK\x03\x04": ("zip", "unzip"), b"\xfd7zXZ": ("xz", "unxz"), b"BZh": ("bzip2", "bunzip2")}
_PACKED |= {b"\x28\xb5\x2f\xfd": ("zstd", "unzstd")}


def content(path: Path) -> bytes:
    """The whole file, read once: a file that grows is read up to its length now. UTF-16, as a shell of Windows writes it, becomes UTF-8.
    Raises Unreadable for an empty, packed or broken file, and for a folder."""
    if path.is_dir():
        raise Unreadable(f"{path} is a folder, and the format is that of a file: name the file in it")
    data = path.read_bytes()
    if not data:
        raise Unreadable(f"{path} is empty")
    for mark, (kind, command) in _PACKED.items():
        if data.startswith(mark):
            raise Unreadable(f"{path} is packed ({kind}), and a card pins what is read: {command} it first")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return data.decode("utf-16").encode("utf-8")
        except UnicodeError:
            raise Unreadable(f"{path} begins as UTF-16 and is none") from None
    return data.removeprefix(b"\xef\xbb\xbf")


def load_json(text: bytes) -> Any:
    """The value of a JSON text as other programs write it; a bare NaN or Infinity is inf. Raises ValueError."""
    try:
        return json.loads(text.decode("utf-8"), parse_constant=lambda word: math.inf)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 (byte {error.start})") from None
    except RecursionError:
        raise ValueError("nested too deep") from None
