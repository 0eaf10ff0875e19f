from pathlib import Path

from example_experiment import FAILED, GATED, build

from stages.contracts.health import GateResult
from stages.publish.exclusions import causes, left_out
from stages.publish.experiment import load


def test_a_rule_is_named_once_with_all_runs_that_do_not_meet_it(project: Path) -> None:
    runs = load(build(project)).by_name
    one, two = runs["shaped-s1"], runs["shaped-s2"]
    assert one.health and two.health
    truncated = GateResult(
        gate="truncated",
        rule="truncated below 0.5 in the final window",
        passed=False,
        says="truncated is 0.91 in the final window, not below 0.5",
    )
    steps = GateResult(gate="steps", rule="steps complete", passed=False, says="59 of 60 steps")
    for run, failed in ((one, (truncated,)), (two, (truncated, steps))):
        reasons = tuple(f"gate {gate.gate}: {gate.says}" for gate in failed)
        health = run.health.model_copy(update={"included": False, "gates": failed, "reasons": reasons})  # type: ignore[union-attr]
        object.__setattr__(run, "health", health)
    assert causes([one, two, runs[GATED]]) == (
        "Not met: truncated share below 0.5 in the final window (shaped-s1 and shaped-s2); steps complete (shaped-s2). "
        "inverted-s3: nonfinite: gradient norms are not finite from step 41."
    )
    assert left_out(one) == ["truncated share is 0.91 in the final window, not below 0.5"]
    assert left_out(runs[FAILED]) == ["failed at step 31 (verifier)"]
    assert left_out(runs["zero-s1"]) == []
