"""A run's recorded history as the rules see it: the same rows that the recorder gave them while the run trained."""

from __future__ import annotations

from stages.analyse.tables import History
from stages.rules.watch import Row, Seen


def rows(history: History) -> list[tuple[int, Row]]:
    """(step, cells) of all logged steps, rising. Attempts are merged: what a later one made again counts once."""
    found: dict[int, dict[str, Seen]] = {}
    for name, column in history.columns.items():
        for step, value, state in column.cells():
            found.setdefault(step, {})[name] = {"nonfinite": "nan"} if state == "nonfinite" else value
    return sorted(found.items())
