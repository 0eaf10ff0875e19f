"""Runs of which only a summary was imported: single values, no series. Detectors cannot look; what the values say is still said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stages.contracts.analysis_card import DetectorCard, HealthGate
from stages.contracts.health import Detection, Signal
from stages.contracts.import_card import Imported, SummaryValue

NAME = "summary"
_SHARES = {
    "truncated": ("truncation", "of completions were cut at the length limit"),
    "zero_signal_share": ("zero_signal", "of groups had no reward spread"),
}
"""Metric -> the detector whose thresholds it is held against, and its words."""


def unobservable(detector: str) -> Detection:
    """What every detector says of such a run."""
    return Detection(detector=detector, state="not_observable", reason="only a summary was imported: there is no series to look at")


def look(imported: Imported, detectors: Sequence[DetectorCard], null_control: bool) -> Detection:
    """Shares above the thresholds of their detectors, and metrics whose last value is not finite."""
    settings = {detector.kind: detector.settings for detector in detectors}
    signals = [*_shares(imported, settings, null_control), *_nonfinite(imported)]
    return Detection(detector=NAME, state="looked", signals=tuple(signals))


def _finals(imported: Imported) -> Iterator[SummaryValue]:
    return (value for value in imported.summary if value.statistic == "final")


def _shares(imported: Imported, settings: dict[str, dict[str, Any]], null_control: bool) -> Iterator[Signal]:
    for value in _finals(imported):
        kind, words = _SHARES.get(value.metric, ("", ""))
        limits = settings.get(kind)
        if limits is None or value.value is None or value.value <= limits["warn_above"]:
            continue
        expected = null_control and kind == "zero_signal"
        severity = "info" if expected else "severe" if value.value > limits["severe_above"] else "warning"
        says = f"{value.value:.0%} {words} ({value.method})" + ("; expected for a null control" if expected else "")
        yield Signal.model_validate(
            {"detector": NAME, "metric": value.metric, "severity": severity, "says": says, "value": value.value, "last": imported.last_step}
        )


def _nonfinite(imported: Imported) -> Iterator[Signal]:
    for value in _finals(imported):
        since = imported.nonfinite_from.get(value.metric)
        if value.state == "nonfinite":
            first = f", first at step {since}" if since is not None else ""
            says = f"{value.metric} is NaN or Inf at the end{first} ({value.method})"
            yield Signal(detector=NAME, metric=value.metric, severity="severe", says=says, onset=since, evidence={"class": "persistent"})
        elif since is not None:
            says = f"{value.metric} was NaN or Inf, first at step {since}, and its last value is finite (the source's summary)"
            yield Signal(detector=NAME, metric=value.metric, severity="warning", says=says, onset=since, evidence={"class": "transient"})


def judged(gate: HealthGate, imported: Imported) -> tuple[str, bool | None, str]:
    """(rule, whether the run passes it, what was seen) of a health gate, but for `steps: complete`."""
    if gate.rule == "not_persistent":
        rule = "non-finite values must not persist"
        lasting = [one for one in _nonfinite(imported) if one.severity == "severe"]
        if lasting:
            return (
                rule,
                False,
                "; ".join(f"{one.metric} is persistently non-finite{_from(one)} to its last logged value" for one in lasting),
            )
        return rule, True, "no metric's last value is NaN or Inf"
    rule = f"{gate.metric} {gate.rule} {gate.bound:g} in the source's summary"
    found = next((value for value in _finals(imported) if value.metric == gate.metric), None)
    if found is None or found.value is None or gate.bound is None:
        return rule, None, f"the source's summary has no value of {gate.metric}"
    passed = found.value < gate.bound if gate.rule == "below" else found.value > gate.bound
    says = f"{gate.metric} is {found.value:.4g} ({found.method})" + ("" if passed else f", not {gate.rule} {gate.bound:g}")
    return rule, passed, says


def _from(signal: Signal) -> str:
    return f" from step {signal.onset}" if signal.onset is not None else ""
