"""Format `summary`: one JSON file with the summaries of many runs, single values and no series. A run is found by what it holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stages.contracts.history import metric
from stages.contracts.import_card import ReadCard, SummaryCard, SummaryValue
from stages.train.imports.log import NoNumber, Unreadable, content, load_json, number, value_and_state, whole

_METHODS = {
    "last": "last logged value",
    "mean": "mean over the whole run",
    "final": "mean over the end of the run",
    "initial": "mean over the beginning of the run",
}


def read_summary(path: Path, where: Mapping[str, Any]) -> dict[str, Any]:
    """The one object of the file, at any depth, that holds all of `where`. Raises Unreadable when none or several do."""
    try:
        objects = _objects(load_json(content(path)))
    except ValueError as error:
        raise Unreadable("no_json", path=path, error=error) from None
    # a seed may be written as a number or as a text
    matches = [each for each in objects if all(key in each and each[key] in (value, str(value)) for key, value in where.items())]
    if len(matches) != 1:
        wanted = json.dumps(dict(where), ensure_ascii=False)
        raise Unreadable("no_such_object", count=len(matches) or "no", path=path, wanted=wanted)
    return matches[0]


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(inner)


def summary_values(summary: Mapping[str, Any], read: ReadCard) -> tuple[SummaryValue, ...]:
    """What the card asks of a run's summary. Raises Unreadable for a key that is not there or holds no number."""
    return tuple(_value(summary, card, kind, key) for card in read.summary for kind in _METHODS if (key := getattr(card, kind)) is not None)


def nonfinite_from(summary: Mapping[str, Any], read: ReadCard) -> dict[str, int]:
    """Metric -> first step at which the source says that it was not finite."""
    steps = {card.metric: step_count(summary, card.nonfinite_from) for card in read.summary}
    return {name: step for name, step in steps.items() if step is not None}


def step_count(summary: Mapping[str, Any], key: str | None) -> int | None:
    """A number of steps; None when the source has none, or for no key. Raises Unreadable."""
    try:
        return None if key is None else whole(_get(summary, key))
    except NoNumber as text:
        raise Unreadable("no_count", key=key, text=text) from None


def _value(summary: Mapping[str, Any], card: SummaryCard, kind: str, key: str) -> SummaryValue:
    try:
        value, state = value_and_state(number(_get(summary, key)), card.factor)
        value = value if state == "value" else None
    except NoNumber as text:
        raise Unreadable("no_value", key=key, text=text) from None
    meaning = metric(card.metric)
    if meaning is not None and meaning.share and value is not None and not -1e-6 <= value <= 1 + 1e-6:
        raise Unreadable("share_in_per_cent", metric=card.metric, key=key, value=value)
    method = f"{_METHODS[kind]} in the source's summary (`{key}`); no series was imported"
    return SummaryValue(metric=card.metric, statistic="initial" if kind == "initial" else "final", value=value, state=state, method=method)


def _get(summary: Mapping[str, Any], key: str) -> Any:
    if key not in summary:
        raise Unreadable("no_key", key=key, keys=", ".join(sorted(map(str, summary))[:20]))
    return summary[key]
