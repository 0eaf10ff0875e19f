from pathlib import Path

from example_experiment import FAILED, GATED, build

from stages.contracts.health import Exclusion
from stages.publish.exclusions import causes, left_out
from stages.publish.experiment import load


def test_a_rule_is_named_once_with_all_runs_that_do_not_meet_it(project: Path) -> None:
    runs = load(build(project)).by_name
    one, two = runs["shaped-s1"], runs["shaped-s2"]
    assert one.health and two.health
    truncated = Exclusion(
        gate="truncated",
        rule="truncated share below 0.5 in the final window",
        reason="gate truncated: truncated is 0.91 in the final window, not below 0.5",
        says="truncated share is 0.91 in the final window, not below 0.5",
    )
    steps = Exclusion(gate="steps", rule="steps complete", reason="gate steps: 59 of 60 steps", says="59 of 60 steps")
    for run, failed in ((one, (truncated,)), (two, (truncated, steps))):
        update = {"included": False, "exclusions": failed, "reasons": tuple(exclusion.reason for exclusion in failed)}
        object.__setattr__(run, "health", run.health.model_copy(update=update))  # type: ignore[union-attr]
    assert causes([one, two, runs[GATED]]) == (
        "Not met: truncated share below 0.5 in the final window (shaped-s1 and shaped-s2); steps complete (shaped-s2). "
        "inverted-s3: nonfinite: gradient norms are not finite from step 41."
    )
    assert left_out(one) == ["truncated share is 0.91 in the final window, not below 0.5"]
    assert left_out(runs[FAILED]) == ["failed at step 31 (verifier)"]
    assert left_out(runs["zero-s1"]) == []
