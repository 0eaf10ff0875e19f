"""Detectors of PPO runs, on both sides of their thresholds, and those of GRPO on a PPO run."""

from __future__ import annotations

import pandas as pd
from test_detectors import series

from stages.analyse.detectors import collapse, kl_sign, value_fit, zero_signal

EXPLAINED = "value.explained_variance"


def fit(values, role="treatment"):
    course = dict(enumerate(values, 1))
    return value_fit.detect(value_fit.Settings(), series(role, **{EXPLAINED: course, "loss.value": dict.fromkeys(course, 1.0)}))


def test_a_value_head_worse_than_a_constant_at_the_end():
    (signal,) = fit([0.5] * 20 + [-2.0] * 11 + [0.3] * 9).signals
    assert (signal.severity, signal.value, signal.onset, signal.last) == ("warning", -2.0, 21, 40)
    assert "median explained variance -2 in steps 21-40" in signal.says


def test_a_few_bad_updates_are_not_a_bad_fit():
    found = fit([-9.0] * 20 + [-90.0] * 9 + [0.2] * 11)
    assert found.state == "looked" and found.signals == ()


def test_without_a_value_head_or_without_returns_that_vary():
    assert value_fit.detect(value_fit.Settings(), series(reward={1: 0.5})).state == "not_applicable"
    assert fit([None, None]).state == "not_observable"


def kl(values):
    return kl_sign.detect(kl_sign.Settings(), series(**{"objective.kl": dict(enumerate(values, 1))}))


def test_the_negative_kl_of_a_report():
    (signal,) = kl([2.0] * 478 + [-1.0] * 121 + [-30.55]).signals  # 122 of 600 updates
    assert (signal.severity, signal.value, signal.onset, signal.last) == ("warning", -30.55, 479, 600)
    assert "below -0.5 nats per completion in 122 of 600 steps, lowest -30.6 at step 600" in signal.says and signal.evidence == {
        "k": 122,
        "n": 600,
    }


def test_a_kl_around_zero_has_either_sign():
    assert kl([-0.4, 0.4] * 50).signals == ()
    assert kl([-1.0] * 5 + [1.0] * 95).signals == () and len(kl([-1.0] * 6 + [1.0] * 94).signals) == 1
    assert kl_sign.detect(kl_sign.Settings(), series(reward={1: 0.5})).state == "not_applicable"


def test_detectors_of_groups_do_not_judge_single_completions():
    single = series(reward={1: 1.0, 2: 1.0})
    single.completions = pd.DataFrame({"step": [1, 1, 2, 2], "group": [0, 1, 0, 1], "reward": 1.0, "truncated": False, "text": "x"})
    assert single.silent.empty
    found = zero_signal.detect(zero_signal.Settings(), single)
    assert (found.state, found.signals) == ("not_applicable", ()) and "one completion a prompt" in found.reason
    assert collapse.detect(collapse.Settings(), single).state == "not_observable"
