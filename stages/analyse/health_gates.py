"""Health gates: declared rules that decide from measurements whether a run counts, and why a run is left out.

Of a run that is imported as a summary alone there are single values and no series: they are held against the thresholds of detectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stages.analyse.frames import Run, Window, window_of
from stages.analyse.signals import EXPECTED, looked
from stages.contracts.analysis_card import Bound, DetectorCard, HealthRule, Windows
from stages.contracts.attempt import Outcome
from stages.contracts.health import Detection, Exclusion, GateResult, Signal
from stages.contracts.history import metric_title, of_completions
from stages.contracts.import_card import Imported, SummaryValue
from stages.rules import above, below

Answer = tuple[str, bool | None, str]
"""Rule in words, whether the run passes (None: undecided), what was seen."""
SUMMARY = "summary"
NO_SERIES = "only a summary was imported: there is no series to look at"
_SHARES = {
    "truncated": ("truncation", "of completions were cut at the length limit"),
    "zero_signal_share": ("zero_signal", "of groups had no reward spread"),
}
"""Metric -> the detector whose thresholds it is held against, and its words."""


def judge(
    name: str,
    rule: HealthRule,
    run: Run,
    outcome: Outcome | None,
    detections: Sequence[Detection],
    windows: Windows,
    imported: Imported | None = None,
    *,
    supervised: bool = False,
) -> GateResult:
    """Whether the run passes a gate. `supervised`: it was trained on gold answers."""
    if imported is not None and imported.summary and rule != "complete":
        words, passed, says = _summary(name, rule, imported)
    elif rule == "not persistent":
        words, passed, says = _not_persistent(run, detections)
    elif rule == "complete":
        words, passed, says = _complete(run, outcome)
    else:
        words, passed, says = _bound(name, rule, run, window_of("final", run.target_steps, windows))
    if isinstance(rule, Bound) and rule.except_null_controls and run.null_control and not passed:
        passed, says = True, f"not applied to null controls ({says})"
    if supervised and passed is None and of_completions(name):
        passed, says = True, f"not applied to supervised fine-tuning, which samples nothing ({says})"
    return GateResult(gate=name, rule=words, passed=passed, says=says)


def failed(outcome: Outcome | None, judged: Sequence[tuple[HealthRule, GateResult]], *, lost: bool) -> list[Exclusion]:
    """Gates for which the run is left out. What merely follows from an unfinished run, from a rule that stopped it, or from values that
    stay non-finite (`lost`) is not repeated."""
    finished = outcome is not None and (outcome.finished or bool(outcome.unknown))
    stopped = outcome is not None and outcome.stopped is not None and any(rule == "complete" for rule, _ in judged)
    explained = stopped or (lost and any(rule == "not persistent" and result.passed is False for rule, result in judged))
    return [
        exclusion(f"gate {result.gate}: {result.says}", result)
        for rule, result in judged
        if not result.passed
        and not (not finished and (result.passed is None or rule == "complete"))
        and not (explained and result.passed is None)
    ]


def exclusion(reason: str, gate: GateResult | None = None) -> Exclusion:
    """A reason with its plain words for the page: without the gate's name, its metric in words."""
    if gate is None:
        return Exclusion(reason=reason, says=reason.replace("_", " ") if reason.startswith("the last attempt failed") else reason)
    return Exclusion(reason=reason, says=_plain(gate.gate, gate.says), gate=gate.gate, rule=_plain(gate.gate, gate.rule))


def _plain(gate: str, text: str) -> str:
    return metric_title(gate) + text.removeprefix(gate) if text.startswith(f"{gate} ") else text


def _not_persistent(run: Run, detections: Sequence[Detection]) -> Answer:
    rule = "non-finite values must not persist"
    if run.steps.empty:
        return rule, None, "nothing was logged"
    signals = [signal for detection in detections if detection.detector == "nonfinite" for signal in detection.signals]
    lasting = [f"{s.metric} is persistently non-finite from step {s.onset}" for s in signals if s.evidence["class"] == "persistent"]
    return rule, not lasting, "; ".join(lasting) or "no metric is persistently non-finite"


def _complete(run: Run, outcome: Outcome | None) -> Answer:
    target, rule = run.target_steps, f"all {run.target_steps} steps done"
    if outcome is None:
        return rule, None, f"unknown (log ends at {run.last_step})" if run.last_step else "unknown (no log)"
    done = outcome.steps_done
    if max(done, run.last_step) > target:
        return rule, False, f"contaminated: {max(done, run.last_step)} steps of {target}, so a finished run was trained on"
    if outcome.unknown:
        return rule, None, f"unknown ({outcome.unknown})"
    if outcome.stopped is not None:
        return rule, False, f"{done} of {target} steps done: stopped by {outcome.stopped.rule} at step {outcome.stopped.step}"
    if outcome.finished and done == target:
        return rule, True, f"{done} of {target} steps done"
    return rule, False, f"{done} of {target} steps done" + (" although the attempt says finished" if outcome.finished else "")


def _bound(metric: str, bound: Bound, run: Run, window: Window) -> Answer:
    words = f"{bound.direction} {bound.bound:g}"
    rule = f"{metric} {words} in {window}"
    values = run.values(metric).loc[window.first : window.last]
    if values.empty:
        lost = run.since is not None and run.since <= window.last
        why = f": the gradient is not finite from step {run.since} on, so nothing after counts" if lost else ""
        return rule, None, f"{metric} has no values in {window}{why}"
    mean = float(values.mean())
    passed = below(mean, bound.bound) if bound.direction == "below" else above(mean, bound.bound)  # a mean has the rounding of its sum
    return rule, passed, f"{metric} is {mean:.4g} in {window}" + ("" if passed else f", not {words}")


def _summary(metric: str, gate: HealthRule, imported: Imported) -> Answer:
    """A health gate other than `steps: complete`, of a run whose source gave single values."""
    if isinstance(gate, str):
        rule = "non-finite values must not persist"
        lasting = [
            f"{signal.metric} is persistently non-finite{'' if signal.onset is None else f' from step {signal.onset}'}"
            for signal in _nonfinite(imported)
            if signal.severity == "severe"
        ]
        says = "; ".join(f"{words} to its last logged value" for words in lasting) or "no metric's last value is NaN or Inf"
        return rule, not lasting, says
    words = f"{gate.direction} {gate.bound:g}"
    rule = f"{metric} {words} in the source's summary"
    final = next((value for value in _finals(imported) if value.metric == metric), None)
    if final is None or final.value is None:
        return rule, None, f"the source's summary has no value of {metric}"
    passed = final.value < gate.bound if gate.direction == "below" else final.value > gate.bound
    says = f"{metric} is {final.value:.4g} ({final.method})" + ("" if passed else f", not {words}")
    return rule, passed, says


def look_at_summary(imported: Imported, detectors: Sequence[DetectorCard], null_control: bool) -> Detection:
    """Shares above the thresholds of their detectors, and metrics whose last value is not finite."""
    settings = {detector.kind: detector.settings for detector in detectors}
    return looked(SUMMARY, *_shares(imported, settings, null_control), *_nonfinite(imported))


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
        yield Signal(detector=SUMMARY, metric=value.metric, severity=severity, says=says, value=value.value, last=imported.last_step)


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
            {"detector": SUMMARY, "metric": value.metric, "kind": kind, "severity": severity, "says": says}
            | {"onset": since, "evidence": {"class": kind}}
        )
