"""Health gates: declared rules that decide from measurements whether a run counts."""

from __future__ import annotations

from collections.abc import Sequence

from stages.analyse import summaries
from stages.analyse.tables import History
from stages.analyse.windows import Window, final_window
from stages.contracts.amounts import above, below
from stages.contracts.analysis_card import HealthGate, RunRef, Windows
from stages.contracts.attempt import Outcome
from stages.contracts.health import Detection, GateResult
from stages.contracts.history import of_completions
from stages.contracts.import_card import Imported
from stages.contracts.magnitude import mean


def judge(
    gate: HealthGate,
    *,
    run: RunRef,
    null_control: bool,
    history: History,
    outcome: Outcome | None,
    detections: Sequence[Detection],
    windows: Windows,
    imported: Imported | None = None,
    supervised: bool = False,
) -> GateResult:
    """Whether the run passes. `passed` is null when it cannot be decided. `supervised`: the run was trained on gold answers."""
    if imported is not None and imported.summary and gate.rule != "complete":
        rule, passed, says = summaries.judged(gate, imported)
    else:
        rule, passed, says = _RULES[gate.rule](gate, run, history, outcome, detections, final_window(run.target_steps, windows.final))
    if gate.except_null_controls and null_control and not passed:
        passed, says = True, f"not applied to null controls ({says})"
    if supervised and passed is None and of_completions(gate.metric or ""):
        passed, says = True, f"not applied to supervised fine-tuning, which samples nothing ({says})"
    return GateResult(gate=gate.name, rule=rule, passed=passed, says=says)


_Answer = tuple[str, bool | None, str]


def _not_persistent(
    gate: HealthGate, run: RunRef, history: History, outcome: Outcome | None, detections: Sequence[Detection], window: Window
) -> _Answer:
    rule = "non-finite values must not persist"
    found = next((detection for detection in detections if detection.detector == "nonfinite"), None)
    if found is not None and found.state == "looked":
        lasting = [signal for signal in found.signals if signal.evidence.get("class") == "persistent"]
        if lasting:
            return rule, False, "; ".join(f"{signal.metric} is persistently non-finite from step {signal.onset}" for signal in lasting)
        return rule, True, "no metric is persistently non-finite"
    if history.gradient.since is not None:
        return rule, False, f"gradient is persistently non-finite from step {history.gradient.since}"
    if not history.columns:
        return rule, None, "nothing was logged"
    return rule, True, "the gradient is not persistently non-finite"


def _complete(
    gate: HealthGate, run: RunRef, history: History, outcome: Outcome | None, detections: Sequence[Detection], window: Window
) -> _Answer:
    rule = f"all {run.target_steps} steps done"
    if outcome is None:
        return rule, None, f"unknown (log ends at {history.last_step})" if history.last_step else "unknown (no log)"
    done = outcome.steps_done
    if done > run.target_steps or history.last_step > run.target_steps:
        beyond = max(done, history.last_step)
        return rule, False, f"contaminated: {beyond} steps of {run.target_steps}, so a finished run was trained on"
    if outcome.unknown:
        return rule, None, f"unknown ({outcome.unknown})"
    if outcome.stopped is not None:
        return rule, False, f"{done} of {run.target_steps} steps done: stopped by {outcome.stopped.rule} at step {outcome.stopped.step}"
    if outcome.finished and done == run.target_steps:
        return rule, True, f"{done} of {run.target_steps} steps done"
    return rule, False, f"{done} of {run.target_steps} steps done" + (" although the attempt says finished" if outcome.finished else "")


def _bound(
    gate: HealthGate, run: RunRef, history: History, outcome: Outcome | None, detections: Sequence[Detection], window: Window
) -> _Answer:
    rule = f"{gate.metric} {gate.rule} {gate.bound:g} in {window}"
    values = history.values(gate.metric or "", window.first, window.last)
    if gate.bound is None or not len(values):
        since = history.gradient.since
        why = f": the gradient is not finite from step {since} on, so nothing after counts" if since and since <= window.last else ""
        return rule, None, f"{gate.metric} has no values in {window}{why}"
    found = mean(values.tolist())
    passed = below(found, gate.bound) if gate.rule == "below" else above(found, gate.bound)  # a mean has the rounding of its sum
    return rule, passed, f"{gate.metric} is {found:.4g} in {window}" + ("" if passed else f", not {gate.rule} {gate.bound:g}")


_RULES = {"not_persistent": _not_persistent, "complete": _complete, "below": _bound, "above": _bound}
