"""Summary + card -> single values. They are no series, so no window is ever taken over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stages.contracts.history import metric
from stages.contracts.import_card import ReadCard, SummaryCard, SummaryValue
from stages.train.imports.cells import NoNumber, number, scaled, whole
from stages.train.imports.log import Unreadable
from stages.train.imports.odd_numbers import hint

_WORDS = {
    "last": "last logged value in the source's summary",
    "mean": "mean over the whole run in the source's summary",
    "final": "mean over the end of the run in the source's summary",
    "initial": "mean over the beginning of the run in the source's summary",
}


def values(summary: Mapping[str, Any], read: ReadCard) -> tuple[SummaryValue, ...]:
    """What the card asks of a run's summary. Raises Unreadable for a key that is not there or holds no number."""
    return tuple(found for card in read.summary for found in _of(summary, card))


def nonfinite_from(summary: Mapping[str, Any], read: ReadCard) -> dict[str, int]:
    """Metric -> first step at which the source says that it was not finite."""
    found = {}
    for card in read.summary:
        if card.nonfinite_from is not None:
            step = steps(summary, card.nonfinite_from)
            if step is not None:
                found[card.metric] = step
    return found


def steps(summary: Mapping[str, Any], key: str) -> int | None:
    """A number of steps; None when the source has none."""
    try:
        return whole(_get(summary, key))
    except NoNumber as text:
        raise Unreadable(f"`{key}` is no whole number: {text}") from None


def _of(summary: Mapping[str, Any], card: SummaryCard) -> Iterator[SummaryValue]:
    for kind, words in _WORDS.items():
        key = getattr(card, kind)
        if key is None:
            continue
        try:
            found = number(_get(summary, key))
        except NoNumber as text:
            raise Unreadable(f"`{key}` is no number: {text}{hint(_get(summary, key))}") from None
        value = None if found is None else scaled(found, card.factor)
        meaning = metric(card.metric)
        if meaning is not None and meaning.share and value is not None and not -1e-6 <= value <= 1 + 1e-6:
            raise Unreadable(f"`{card.metric}` is a share, and `{key}` is {value:.6g}; is it in per cent? add `unit: '%'`")
        yield SummaryValue(
            metric=card.metric,
            statistic="initial" if kind == "initial" else "final",
            value=value,
            state="null" if found is None else "nonfinite" if value is None else "value",
            method=f"{words} (`{key}`); no series was imported",
        )


def _get(summary: Mapping[str, Any], key: str) -> Any:
    if key not in summary:
        known = ", ".join(sorted(map(str, summary))[:20])
        raise Unreadable(f"no key `{key}` in the run's summary. It has: {known}")
    return summary[key]
