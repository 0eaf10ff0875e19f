"""What signals mean, from `causes.yaml`: one sentence with the measured number, and how to check it.

The table never names a cause that a run's own series cannot show; other explanations stand under `check`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from stages.contracts.algorithms import AnyTrainCard
from stages.contracts.files import load_table
from stages.contracts.health import Signal
from stages.contracts.history import metric_title


class Explanation(NamedTuple):
    means: str
    check: str


@cache
def causes() -> dict[str, dict[str, dict[str, str]]]:
    """Detector -> kind -> phrase, means, check."""
    table: dict[str, dict[str, dict[str, str]]] = load_table(Path(__file__).with_name("causes.yaml"))
    return table


def phrase(signals: Sequence[Signal]) -> str:
    """A few words for signals of one detector on one metric."""
    detector, metric = signals[0].detector, signals[0].metric
    kinds = causes().get(detector, {})
    own = (kinds.get(key, {}).get("phrase") for key in (signals[0].kind, metric, "default"))
    text = next(filter(None, own), None)
    return text.format(metric=metric_title(metric)) if text else detector.replace("_", " ")


def explain(signals: Sequence[Signal], clip: float | None = None) -> Explanation | None:
    """Signals of one detector on one metric, of one run or several; None for mere information. Signals of two kinds, such as an entropy
    that fell in one run and rose in another, give a sentence each. `clip`: the norm to which gradients were clipped, where it is known."""
    kinds: dict[tuple[str, str], list[Signal]] = {}
    for signal in signals:
        if signal.severity != "info" and (key := _kind(signal)) is not None:
            kinds.setdefault(key, []).append(signal)
    if not kinds:
        return None
    explained = [_explained(key, alike, clip) for key, alike in kinds.items()]
    return Explanation(" ".join(explanation.means for explanation in explained), " ".join(explanation.check for explanation in explained))


def _explained(key: tuple[str, str], signals: Sequence[Signal], clip: float | None) -> Explanation:
    entry = causes()[key[0]][key[1]]
    means = entry["means"].format_map(_quantities(signals))
    if key[0] == "spikes" and signals[0].metric == "grad_norm":
        means += _clipping(max(signal.value or 0.0 for signal in signals), clip)
    return Explanation(f"{means[0].upper()}{means[1:]}.", entry["check"])


def _clipping(highest: float, clip: float | None) -> str:
    if clip is None:
        return "; whether clipping was on is not known, nor whether the norm was logged before it"
    effect = "so the update itself was bounded" if highest > clip else "and no spike reached it, so nothing was cut"
    return f"; the norm is logged before clipping, and clipping to {clip:g} was on, {effect}"


def clipped_at(card: AnyTrainCard | None) -> float | None:
    """The norm to which a run's gradients were clipped; None when that is not known (an imported run)."""
    return getattr(card.train, "max_grad_norm", None) if card else None


def _kind(signal: Signal) -> tuple[str, str] | None:
    """The entry that explains a signal; None for a detector without one. A summary's shares are explained as what they are about."""
    detector = signal.detector
    if detector == "summary":
        detector = {"truncated": "truncation", "zero_signal_share": "zero_signal"}.get(signal.metric, detector)
    kinds = causes().get(detector, {})
    return next(((detector, kind) for kind in (signal.kind, signal.metric, "default") if "means" in kinds.get(kind, {})), None)


class _Span:
    """Numbers of several signals: `0.31`, or `0.31 to 0.95`."""

    def __init__(self, numbers: Iterable[float], form: str = ".3g") -> None:
        self._numbers, self._form = sorted(numbers), form

    def __format__(self, form: str) -> str:
        texts = [format(number, form or self._form) for number in self._numbers]
        return " to ".join(dict.fromkeys((texts[0], texts[-1]))) if texts else "an unknown number"


def _quantities(signals: Sequence[Signal]) -> dict[str, object]:
    """What the sentences of `causes.yaml` may name, of the signals of several runs."""
    first, values = signals[0], [signal.value for signal in signals if signal.value is not None]
    # a window that was above the threshold before the end of the run, which is better
    early = [signal for signal in signals if isinstance(signal.evidence.get("first_above"), float)]
    places = {str(signal.evidence.get("in")) for signal in early}
    counted = all("count" in signal.evidence and "rows" in signal.evidence for signal in signals)
    rows = _span(signals, "rows")
    steps = f"{_Span((signal.value or 0.0 for signal in signals), '.0f')}"
    scores = sorted(set(values))
    return {
        "value": _Span(values),
        "size": _Span(map(abs, values)),
        "share": _Span((s.evidence["first_above"] if s in early else s.value or 0.0 for s in signals), ".0%"),
        "where": (f" in {places.pop()}" if len(places) == 1 and len(early) == len(signals) else " in a part of the run") if early else "",
        "metric": metric_title(first.metric),
        "the_metric": "the gradient" if first.metric == "gradient" else f"the {metric_title(first.metric)}",
        "count": f"{_span(signals, 'count')} of {rows} logged step{'s' * (f'{rows}' != '1')}" if counted else "some logged steps",
        "onset": _Span((signal.onset for signal in signals if signal.onset is not None), ".0f"),
        "steps": f"{steps} step{'s' * (steps != '1')}",
        "streak": _span(signals, "streak"),
        "last": _span(signals, "last", ".3g"),
        "cut": _span(signals, "truncated", ".0%"),
        "rule": first.evidence.get("rule"),
        "scores": f"exactly {' or '.join(f'{x:g}' for x in scores)}" if len(scores) < 4 else f"one of {len(scores)} exact ones",
    }


def _span(signals: Sequence[Signal], key: str, form: str = ".0f") -> _Span:
    return _Span((signal.evidence[key] for signal in signals if key in signal.evidence), form)
