"""Runs that are imported as a summary alone: single values, no series. Detectors cannot look; values are held against thresholds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stages.analyse.signals import EXPECTED, looked
from stages.contracts.analysis_card import DetectorCard, HealthRule
from stages.contracts.health import Detection, Signal
from stages.contracts.import_card import Imported, SummaryValue

NAME = "summary"
NO_SERIES = "only a summary was imported: there is no series to look at"
_SHARES = {
    "truncated": ("truncation", "of completions were cut at the length limit"),
    "zero_signal_share": ("zero_signal", "of groups had no reward spread"),
}
"""Metric -> the detector whose thresholds it is held against, and its words."""


def look(imported: Imported, detectors: Sequence[DetectorCard], null_control: bool) -> Detection:
    """Shares above the thresholds of their detectors, and metrics whose last value is not finite."""
    settings = {detector.kind: detector.settings for detector in detectors}
    return looked(NAME, *_shares(imported, settings, null_control), *_nonfinite(imported))


def _finals(imported: Imported) -> Iterator[SummaryValue]:
    return (value for value in imported.summary if value.statistic == "final")


def _shares(imported: Imported, settings: Mapping[str, Mapping[str, Any]], null_control: bool) -> Iterator[Signal]:
    for value in _finals(imported):
        kind, words = _SHARES.get(value.metric, ("", ""))
        limits = settings.get(kind)
        if limits is None or value.value is None or value.value <= limits["warn_above"]:
            continue
        expected = null_control and kind == "zero_signal"
        severity: Any = "info" if expected else "severe" if value.value > limits["severe_above"] else "warning"
        says = f"{value.value:.0%} {words} ({value.method}){EXPECTED if expected else ''}"
        yield Signal(detector=NAME, metric=value.metric, severity=severity, says=says, value=value.value, last=imported.last_step)


def _nonfinite(imported: Imported) -> Iterator[Signal]:
    for value in _finals(imported):
        since, lasts = imported.nonfinite_from.get(value.metric), value.state == "nonfinite"
        if not lasts and since is None:
            continue
        says = f"{value.metric} was NaN or Inf, first at step {since}, and its last value is finite (the source's summary)"
        if lasts:
            first = f", first at step {since}" if since is not None else ""
            says = f"{value.metric} is NaN or Inf at the end{first} ({value.method})"
        kind, severity = ("persistent", "severe") if lasts else ("transient", "warning")
        yield Signal.model_validate(
            {"detector": NAME, "metric": value.metric, "kind": kind, "severity": severity, "says": says}
            | {"onset": since, "evidence": {"class": kind}}
        )


def judge(metric: str, gate: HealthRule, imported: Imported) -> tuple[str, bool | None, str]:
    """A health gate other than `steps: complete`: see health_gates.Answer."""
    if isinstance(gate, str):
        rule = "non-finite values must not persist"
        lasting = [
            f"{signal.metric} is persistently non-finite{'' if signal.onset is None else f' from step {signal.onset}'}"
            for signal in _nonfinite(imported)
            if signal.severity == "severe"
        ]
        if lasting:
            return rule, False, "; ".join(f"{says} to its last logged value" for says in lasting)
        return rule, True, "no metric's last value is NaN or Inf"
    words = f"{gate.direction} {gate.limit:g}"
    rule = f"{metric} {words} in the source's summary"
    final = next((value for value in _finals(imported) if value.metric == metric), None)
    if final is None or final.value is None:
        return rule, None, f"the source's summary has no value of {metric}"
    passed = final.value < gate.limit if gate.direction == "below" else final.value > gate.limit
    says = f"{metric} is {final.value:.4g} ({final.method})" + ("" if passed else f", not {words}")
    return rule, passed, says
