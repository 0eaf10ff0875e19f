"""What the spec says of how a run was trained, held against the run's own config, where the log has one (W&B)."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from stages.contracts.import_card import ImportCard
from stages.train.imports.log import Log, Unreadable


def declared(log: Log, card: ImportCard) -> Iterator[str]:
    """A sentence for what agrees and for a seed that differs. Raises Unreadable for a setting that differs or is not there: a run that
    was trained otherwise is not the run that the spec speaks of."""
    for name, value in card.read.config.items():
        if name not in log.settings:
            near = difflib.get_close_matches(name, list(log.settings), n=1, cutoff=0.6)
            meant = f"; did you mean `{near[0]}`?" if near else ""
            raise Unreadable(f"W&B's config of the run has no number `{name}`{meant}")
        if not _equal(log.settings[name], value):
            said = _shown(log.settings[name])
            raise Unreadable(f"W&B's config of the run says `{name}` {said}, and the spec says {_shown(value)}: it was trained otherwise")
    if card.read.config:
        told = ", ".join(f"{name} {_shown(value)}" for name, value in card.read.config.items())
        yield f"the run's config at W&B has what the spec declares: {told}"
    seed = log.settings.get("seed")
    if isinstance(seed, int) and not isinstance(seed, bool) and seed != card.seed:
        yield f"the run's config at W&B says `seed` {seed}, and the spec says {card.seed}"


def _equal(one: Any, other: Any) -> bool:
    """1 and 1.0 are equal; true and 1 are not."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:.6g}" if isinstance(value, float) else str(value)[:40]
