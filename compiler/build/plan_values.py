"""What differs between two cards, key by key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from compiler.build.origins import escaped
from compiler.problems import sentence
from stages.contracts.origin import Origin

CUT = 80
_ABSENT = object()
_LABELS = ("name", "id", "kind", "claim", "condition")


@dataclass(frozen=True)
class Difference:
    """One key. `pointer` leads to it in the newer card, or in the older one when it is gone; None stands for no value."""

    key: str
    pointer: str
    old: str | None
    new: str | None
    members: str = ""
    """Of lists of names: what came and went, in words."""

    @property
    def says(self) -> str:
        if self.members:
            return f"{self.key}: {self.members}"
        if self.old is None:
            return f"{self.key} {self.new} (new)" if len(self.new or "") < 40 else f"{self.key} is new"
        if self.new is None:
            return f"{self.key} {self.old} (removed)" if len(self.old) < 40 else f"{self.key} is removed"
        return f"{self.key} {self.old} -> {self.new}"


def differences(old: Any, new: Any, key: str = "", pointer: str = "") -> Iterator[Difference]:
    """Differing leaves of two JSON values. Entries of a list that have names are compared by name, so that a new one moves no other."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            inner = f"{key}.{name}" if key else name
            yield from differences(old.get(name, _ABSENT), new.get(name, _ABSENT), inner, f"{pointer}/{escaped(name)}")
        return
    before, after = _labelled(old), _labelled(new)
    if before is not None and after is not None:
        for name in dict.fromkeys((*after, *before)):
            index, value = after.get(name, (-1, _ABSENT))
            old_index, old_value = before.get(name, (-1, _ABSENT))
            yield from differences(old_value, value, f"{key}.{name}", f"{pointer}/{index if value is not _ABSENT else old_index}")
        if list(before) != list(after) and set(before) == set(after):
            yield Difference(f"order of {key}", pointer, ", ".join(before)[:CUT], ", ".join(after)[:CUT])
        return
    if old is _ABSENT or new is _ABSENT or old != new or type(old) is not type(new):
        yield Difference(key, pointer, _shown(old, key), _shown(new, key), _members(old, new))


def nearest(origins: dict[str, Origin], pointer: str) -> str | None:
    """file:line:column of a value, or of the block that it lies in; None for a default."""
    while pointer:
        found = origins.get(pointer)
        if found is not None:
            return str(found) if found.file else None
        pointer = pointer.rpartition("/")[0]
    return None


def _members(old: Any, new: Any) -> str:
    """`new a, b; gone c` of two lists of names; empty for other values and for a changed order."""
    if not all(isinstance(value, list) and value and all(isinstance(item, str) for item in value) for value in (old, new)):
        return ""
    parts = []
    for word, names in (("new", [item for item in new if item not in set(old)]), ("gone", [item for item in old if item not in set(new)])):
        if names:
            parts.append(f"{word} {', '.join(map(sentence, names[:4]))}{f' and {len(names) - 4} more' if len(names) > 4 else ''}")
    return "; ".join(parts)


def _labelled(value: Any) -> dict[str, tuple[int, Any]] | None:
    """Name -> (index, entry) of a list of objects whose names differ; None for any other value."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return None
    found: dict[str, tuple[int, Any]] = {}
    for index, item in enumerate(value):
        name = next((str(item[label]) for label in _LABELS if label in item), None)
        if name is None or name in found:
            return None
        found[name] = (index, item)
    return found


def _shown(value: Any, key: str) -> str | None:
    if value is _ABSENT:
        return None
    text = value if isinstance(value, str) and key.endswith(("sha256", "revision")) else json.dumps(value, ensure_ascii=False)
    text = text[:12] if key.endswith(("sha256", "revision")) and isinstance(value, str) else text
    text = sentence(text)
    return text if len(text) <= CUT else text[: CUT - 1] + "…"
