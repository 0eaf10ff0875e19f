"""Whether a trained adapter differs from nothing: its second factor (lora_B) begins at zero, and zeros at the end mean that nothing moved.

A safetensors file is a length, a JSON header with each tensor's place, and the numbers: reading it takes neither torch nor its library.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

_FILE = "adapter_model.safetensors"
_MOST_HEADER = 100_000_000  # bytes; the format's own limit


def state(folder: Path) -> Literal["unknown", "changed", "zero"]:
    """`zero`: every byte of every lora_B is 0. `unknown`: there is no adapter, it has no such factor, or the file is not to be read."""
    try:
        with (folder / _FILE).open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 0 < length <= _MOST_HEADER:
                return "unknown"
            header = json.loads(file.read(length))
            places = [entry["data_offsets"] for name, entry in header.items() if ".lora_B." in name]
            for begin, end in places:
                file.seek(8 + length + begin)
                if any(file.read(end - begin)):
                    return "changed"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "unknown"
    return "zero" if places else "unknown"
