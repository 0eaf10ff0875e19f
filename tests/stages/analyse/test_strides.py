"""Rows are not steps: a run of others, logged every k steps as TRL does (means over the k steps, and the gradient of the last one)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_from import ask, seen

from stages.analyse.frames import Run
from stages.contracts.plugin import DETECTORS, kinds, load

KINDS = kinds(DETECTORS)


def logged(
    seed: int, stride: int, steps: int, first: int, dropped: frozenset[str] = frozenset(), silent: float = 0.7, **fixed: float
) -> Run:
    """A healthy run of `steps` steps of 10 seconds, with rows at `first` (where it is not 0), stride, 2 x stride, ..."""
    rng = np.random.default_rng(seed)
    shares = rng.binomial(4, silent, steps) / 4
    courses: dict[str, Any] = {
        "reward": rng.normal(0.5, 0.05, steps), "zero_signal_share": shares, "truncated": rng.binomial(8, 0.1, steps) / 8,
        "step_seconds": np.full(steps, 10.0), "kl": rng.normal(0.02, 0.002, steps), "entropy": rng.normal(0.8, 0.02, steps),
        "grad_norm": np.where(shares < 1, rng.uniform(0.2, 0.4, steps), 0.0),
    } | {name: np.full(steps, value) for name, value in fixed.items()}  # fmt: skip
    rows = sorted({*range(stride, steps + 1, stride), *([first] if first else [])})
    cells: dict[str, dict[int, float]] = {name: {} for name in courses if name not in dropped}
    for before, step in zip([0, *rows], rows, strict=False):
        for name in cells:
            part = courses[name][before:step]
            cells[name][step] = float(part[-1] if name == "grad_norm" else part.mean())
    return seen(around={"target_steps": steps, "imported": True}, **cells)


COLUMNS = st.frozensets(
    st.sampled_from(("reward", "truncated", "step_seconds", "kl", "entropy", "grad_norm", "zero_signal_share")), max_size=5
)


@settings(deadline=None, max_examples=120)
@given(st.integers(0, 9), st.integers(1, 50), st.integers(3, 12), st.booleans(), COLUMNS)
def test_cases_46_and_47_a_healthy_run_is_healthy_at_every_stride(
    seed: int, stride: int, rows: int, first: bool, dropped: frozenset[str]
) -> None:
    """Nothing but its groups without signal is warned of, and no detector that needs single steps says that it looked and found none."""
    run = logged(seed, stride, stride * rows, int(first), dropped)
    detections = {kind: ask(load(DETECTORS, kind), run) for kind in KINDS}
    warned = {kind for kind, own in detections.items() if any(signal.severity != "info" for signal in own.signals)}
    assert warned <= {"zero_signal", "collapse"}
    assert all(own.state == "looked" or (own.reason and not own.signals) for own in detections.values())
    assert all(len(end) or metric in dropped for metric in ("reward", "kl") for end in run.ends(metric)), "windows hold a row"
    if run.stride > 1:
        assert not {kind for kind in ("nonfinite", "spikes", "kl_sign") if detections[kind].state == "looked"}
        assert "not observable at this stride" in detections["nonfinite"].reason
    if detections["throughput"].signals and not first:
        minutes = f"about {10 * stride * rows} s" if stride * rows < 60 else f"about {10 * stride * rows / 60:.0f} min"
        assert run.stride == 1 or minutes in detections["throughput"].signals[0].says or stride * rows >= 720


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 50), st.integers(3, 12), st.sampled_from(("truncated", "zero_signal_share")))
def test_case_47_a_fault_of_the_first_row_begins_there(stride: int, rows: int, metric: str) -> None:
    run = logged(0, stride, stride * rows, 0, **{metric: 0.925})
    (signal,) = ask(load(DETECTORS, "truncation" if metric == "truncated" else "zero_signal"), run).signals
    assert signal.onset == stride and signal.detected is not None
    assert signal.detected == min(step for step in run.steps.index if step >= min(10, stride * rows)), "known when a window is full"


@pytest.mark.parametrize("stride", [2, 5, 10, 50])
def test_case_46_a_dead_gradient_is_seen_where_the_shares_leave_no_doubt(stride: int) -> None:
    """Every step had a group with a spread; a row whose mean may hold one step without any tells nothing."""
    run = logged(1, stride, stride * 12, 0, silent=0.0, grad_norm=0.0, truncated=0.0)
    (signal,) = ask(load(DETECTORS, "gradient"), run).signals
    assert (signal.severity, signal.onset, signal.last) == ("severe", stride, stride * 12) and "in 12 of the 12 steps" in signal.says
    doubtful = logged(1, stride, stride * 12, 0, zero_signal_share=1 / stride, grad_norm=0.0, truncated=0.0)
    (signal,) = ask(load(DETECTORS, "gradient"), doubtful).signals
    assert (
        signal.severity == "warning"
        and "exactly 0 in all 12 logged steps" in signal.says
        and "not observable at this stride" in signal.says
    )
