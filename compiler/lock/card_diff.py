"""What differs between two cards, key by key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from compiler.build.origins import escaped
from compiler.problems import sentence

LONGEST = 80
"""Characters of a value that are shown."""
_ABSENT = object()
_LABELS = ("name", "id", "kind", "claim", "condition")


@dataclass(frozen=True)
class Change:
    """One key. `pointer` leads to it in the newer card, or in the older one if it is gone. Values as JSON text; None: no such key."""

    key: str
    pointer: str
    old: str | None
    new: str | None
    members: str = ""
    """For lists of names: what came and went, in words."""

    @property
    def says(self) -> str:
        if self.members:
            return f"{self.key}: {self.members}"
        if self.old is None:
            return f"{self.key} {self.new} (new)" if len(self.new or "") < 40 else f"{self.key} is new"
        if self.new is None:
            return f"{self.key} {self.old} (removed)" if len(self.old) < 40 else f"{self.key} is removed"
        return f"{self.key} {self.old} -> {self.new}"


def changes(old: Any, new: Any, key: str = "", pointer: str = "") -> Iterator[Change]:
    """Differing leaves of two JSON values. Entries of a list that have names are compared by name, so that a new one moves no other."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            inner = f"{key}.{name}" if key else name
            yield from changes(old.get(name, _ABSENT), new.get(name, _ABSENT), inner, f"{pointer}/{escaped(name)}")
        return
    before, after = _by_name(old), _by_name(new)
    if before is not None and after is not None:
        for name in dict.fromkeys((*after, *before)):
            index, value = after.get(name, (before.get(name, (0, None))[0], _ABSENT))
            yield from changes(before.get(name, (0, _ABSENT))[1], value, f"{key}.{name}", f"{pointer}/{index}")
        if list(before) != list(after) and set(before) == set(after):
            yield Change(f"order of {key}", pointer, ", ".join(before)[:LONGEST], ", ".join(after)[:LONGEST])
    elif old is _ABSENT or new is _ABSENT or old != new or type(old) is not type(new):
        yield Change(key, pointer, _shown(old, key), _shown(new, key), _members(old, new))


def _by_name(value: Any) -> dict[str, tuple[int, Any]] | None:
    """Name -> (index, entry) of a list of objects with different names; None for any other value."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return None
    names = [next((str(item[label]) for label in _LABELS if label in item), None) for item in value]
    if None in names or len(set(names)) < len(names):
        return None
    return {str(name): (index, item) for index, (name, item) in enumerate(zip(names, value, strict=True))}


def _members(old: Any, new: Any) -> str:
    """`new a, b; gone c` for two lists of names; empty for other values and for a changed order."""
    if not all(isinstance(value, list) and value and all(isinstance(item, str) for item in value) for value in (old, new)):
        return ""
    parts = []
    for word, names in (("new", [item for item in new if item not in old]), ("gone", [item for item in old if item not in new])):
        if names:
            parts.append(f"{word} {', '.join(map(sentence, names[:4]))}{f' and {len(names) - 4} more' if len(names) > 4 else ''}")
    return "; ".join(parts)


def _shown(value: Any, key: str) -> str | None:
    if value is _ABSENT:
        return None
    is_hash = isinstance(value, str) and key.endswith(("sha256", "revision"))
    text = sentence(value[:12] if is_hash else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
