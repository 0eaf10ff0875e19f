"""Health gates: declared rules that decide from measurements whether a run counts, and why a run is left out.

Of a run that is imported as a summary alone there are single values and no series: they are held against the thresholds of detectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stages.analyse.cells import PERSISTENT_STEPS
from stages.analyse.frames import Run, Window, window_of
from stages.analyse.signals import EXPECTED
from stages.contracts.analysis_card import Bound, DetectorCard, HealthRule, Windows
from stages.contracts.attempt import Outcome
from stages.contracts.health import Detection, Exclusion, GateResult, Signal
from stages.contracts.history import GRADIENT_METRICS, metric_title, of_completions
from stages.contracts.import_card import Imported
from stages.rules import above, below

Answer = tuple[str, bool | None, str]
"""Rule in words, whether the run passes (None: undecided), what was seen."""
SUMMARY = "summary"
FINITE = "non-finite values must not persist"
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
    claimed: Sequence[str] = (),
) -> GateResult:
    """Whether the run passes a gate. `supervised`: it was trained on gold answers. `claimed`: metrics that claims rest on."""
    if rule == "complete":
        words, passed, says = _complete(run, outcome)
    elif rule == "not persistent":
        words, passed, says = FINITE, *_not_persistent(run, detections, imported, claimed)
    elif imported is not None and imported.summary:
        words, passed, says = _summary(name, rule, imported)
    else:
        words, passed, says = _bound(name, rule, run, window_of("final", run.target_steps, windows))
    if isinstance(rule, Bound) and rule.except_null_controls and run.null_control and not passed:
        passed, says = True, f"not applied to null controls ({says})"
    if supervised and passed is None and of_completions(name):
        passed, says = True, f"not applied to supervised fine-tuning, which samples nothing ({says})"
    return GateResult(gate=name, rule=words, passed=passed, says=says)


def failed(
    outcome: Outcome | None, judged: Sequence[tuple[HealthRule, GateResult]], *, lost: bool, goes_on: bool = False
) -> list[Exclusion]:
    """Gates for which the run is left out. What merely follows from an unfinished run, from a rule that stopped it, or from values that
    stay non-finite (`lost`) is not repeated; of a run that goes on, what its end decides is open."""
    finished = outcome is not None and (outcome.finished or (bool(outcome.unknown) and not goes_on))
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
    says, rule = (
        metric_title(gate.gate) + text.removeprefix(gate.gate) if text.startswith(f"{gate.gate} ") else text
        for text in (gate.says, gate.rule)
    )
    return Exclusion(reason=reason, says=says, gate=gate.gate, rule=rule)


def _not_persistent(
    run: Run, detections: Sequence[Detection], imported: Imported | None, claimed: Sequence[str]
) -> tuple[bool | None, str]:
    """Gradient, loss and metrics of claims decide; another metric that breaks is named and lets the run pass."""
    summary = imported is not None and bool(imported.summary)
    if run.steps.empty and not summary:
        return None, "nothing was logged"
    kind, ends = (SUMMARY, " to its last logged value") if summary else ("nonfinite", "")
    signals = [signal for detection in detections if detection.detector == kind for signal in detection.signals]
    lasting = {
        signal.metric: f"{signal.metric} is persistently non-finite{'' if signal.onset is None else f' from step {signal.onset}'}{ends}"
        for signal in signals
        if signal.evidence.get("class") == "persistent"
    }
    deciding = {"gradient", *GRADIENT_METRICS, *claimed}
    if failed_by := [words for metric, words in lasting.items() if metric in deciding]:
        return False, "; ".join(failed_by)
    if lasting:
        return True, f"{'; '.join(lasting.values())}, and no claim rests on it"
    if summary:
        return True, "no metric's last value is NaN or Inf"
    bad, logged = run.gradient, [metric for metric in (*GRADIENT_METRICS, *claimed, "reward") if run.logs(metric)]
    if bad is not None and (bad.k == bad.n or (run.stride > 1 and bad.last == run.last_gradient)):
        which = (
            "the only logged step" if bad.n == 1 else f"all {bad.n} logged steps" if bad.k == bad.n else f"the last of {bad.n} logged steps"
        )
        rows = f"the gradient is not finite in {which}"
        return None, f"cannot decide: {rows}, and {PERSISTENT_STEPS} in a row are needed to say that it stays so"
    if not logged:
        return None, "cannot decide: neither the gradient norm, the loss nor the reward was logged"
    gradient = "" if any(metric in logged for metric in GRADIENT_METRICS) else "; neither the gradient norm nor the loss was logged"
    return True, f"no metric is persistently non-finite{gradient}"


def _complete(run: Run, outcome: Outcome | None) -> Answer:
    target = outcome.target_steps if outcome else run.target_steps
    rule = f"all {target} steps done"
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
    if outcome.finished and done == target - 1:  # of a source that counts from 0 this is the last step
        return rule, None, f"unknown (its source says that it finished, and its last logged step is {done})"
    return rule, False, f"{done} of {target} steps done" + (" although the attempt says finished" if outcome.finished else "")


def _bound(metric: str, bound: Bound, run: Run, window: Window) -> Answer:
    words = f"{bound.direction} {bound.bound:g}"
    rule, values = f"{metric} {words} in {window}", window.rows(run.values(metric))
    if values.empty:
        lost = run.since is not None and run.since <= window.last
        why = f": the gradient is not finite from step {run.since} on, so nothing after counts" if lost else ""
        return rule, None, f"{metric} has no values in {window}{why}"
    mean = float(values.mean())
    passed = below(mean, bound.bound) if bound.direction == "below" else above(mean, bound.bound)  # a mean has the rounding of its sum
    return rule, passed, f"{metric} is {mean:.4g} in {window}" + ("" if passed else f", not {words}")


def _summary(metric: str, bound: Bound, imported: Imported) -> Answer:
    """A bound, of a run whose source gave single values."""
    words = f"{bound.direction} {bound.bound:g}"
    rule = f"{metric} {words} in the source's summary"
    final = next((value for value in imported.summary if (value.metric, value.statistic) == (metric, "final")), None)
    if final is None or final.value is None:
        return rule, None, f"the source's summary has no value of {metric}"
    passed = final.value < bound.bound if bound.direction == "below" else final.value > bound.bound
    return rule, passed, f"{metric} is {final.value:.4g} ({final.method})" + ("" if passed else f", not {words}")


def look_at_summary(imported: Imported, detectors: Sequence[DetectorCard], null_control: bool) -> Detection:
    """Shares above the thresholds of their detectors, and metrics whose last value is not finite."""
    settings = {detector.kind: detector.settings for detector in detectors}
    finals = [value for value in imported.summary if value.statistic == "final"]
    signals: list[dict[str, Any]] = []
    for final in finals:
        kind, words = _SHARES.get(final.metric, ("", ""))
        limits = settings.get(kind)
        if limits is not None and final.value is not None and final.value > limits["warn_above"]:
            expected = null_control and kind == "zero_signal"
            severity = "info" if expected else "severe" if final.value > limits["severe_above"] else "warning"
            says = f"{final.value:.0%} {words} ({final.method}){EXPECTED if expected else ''}"
            own: dict[str, Any] = {"value": final.value, "last": imported.last_step}
            signals.append({"metric": final.metric, "severity": severity, "says": says, **own})
    for final in finals:
        since, lasts = imported.nonfinite_from.get(final.metric), final.state == "nonfinite"
        if lasts or since is not None:
            says = f"{final.metric} was NaN or Inf, first at step {since}, and its last value is finite (the source's summary)"
            if lasts:
                first = f", first at step {since}" if since is not None else ""
                says = f"{final.metric} is NaN or Inf at the end{first} ({final.method})"
            kind, severity = ("persistent", "severe") if lasts else ("transient", "warning")
            own = {"kind": kind, "onset": since, "evidence": {"class": kind}}
            signals.append({"metric": final.metric, "severity": severity, "says": says, **own})
    return Detection(detector=SUMMARY, state="looked", signals=tuple(Signal(detector=SUMMARY, **own) for own in signals))
