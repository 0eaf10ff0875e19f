from pathlib import Path

from example_experiment import FAILED, GATED, build

from stages.publish.exclusions import causes, left_out, plain
from stages.publish.experiment import load


def test_a_gate_that_is_not_met_is_said_in_words() -> None:
    reason = "gate zero_signal_share: zero_signal_share is 0.96 in steps 55-60, not below 0.9"
    assert plain(reason) == "zero-signal share is 0.96 in steps 55-60, not below 0.9"
    assert plain("gate steps: 7 of 60 steps done") == "7 of 60 steps done"
    assert plain("failed at step 31 (verifier)") == "failed at step 31 (verifier)"


def test_a_rule_is_named_once_with_all_runs_that_do_not_meet_it(project: Path) -> None:
    runs = load(build(project)).by_name
    one, two = runs["shaped-s1"], runs["shaped-s2"]
    assert one.health and two.health
    reason = "gate truncated: truncated is 0.91 in the final window, not below 0.5"
    for run in (one, two):
        object.__setattr__(run, "health", run.health.model_copy(update={"included": False, "reasons": (reason,)}))  # type: ignore[union-attr]
    object.__setattr__(
        two,
        "health",
        two.health.model_copy(update={"reasons": (reason, "gate steps: 59 of 60 steps")}),
    )
    assert causes([one, two, runs[GATED]]) == (
        "Not met: truncated share below 0.5 in the final window (shaped-s1 and shaped-s2); steps complete (shaped-s2). "
        "inverted-s3: nonfinite: gradient norms are not finite from step 41."
    )
    assert left_out(one) == ("truncated share is 0.91 in the final window, not below 0.5",)
    assert left_out(runs[FAILED]) == ("failed at step 31 (verifier)",)
    assert left_out(runs["zero-s1"]) == ()
