"""The objective of PPO: the score minus the KL penalty. The score may rise while what is maximised falls; only the latter is progress.

Each change is the last window minus the first, with a standard error from batch means, because steps of one run are correlated.
"""

from __future__ import annotations

import math

from pydantic import Field

from stages.contracts.amounts import at_end
from stages.contracts.artifact import Frozen
from stages.contracts.batch_means import level
from stages.contracts.health import Detection, Signal
from stages.contracts.observed import Observed

NAME = "true_objective"
NEEDS_COMPLETIONS = True
SCORE, PENALTY, OBJECTIVE = "objective.scores", "objective.non_score_reward", "objective.rlhf_reward"


class Settings(Frozen):
    errors: float = Field(
        4.0,
        gt=0,
        description="A change counts when it is larger than so many of its standard errors.",
        json_schema_extra={"unit": "standard errors", "source": "octavo's own choice; batch means of short windows are rough"},
    )


def detect(settings: Settings, series: Observed) -> Detection:
    """One signal: a warning when the objective falls although the score does not, else both changes as information."""
    if not series.metrics:
        return Detection(detector=NAME, state="not_observable", reason="nothing was logged")
    if not series.logs(SCORE) and not series.logs(OBJECTIVE):
        return series.lacks(NAME, OBJECTIVE, "there is no KL penalty in the reward (PPO only)")
    score, objective = _change(series, SCORE), _change(series, OBJECTIVE)
    if score is None or objective is None:
        missing = [series.why_none(name) for name in (SCORE, OBJECTIVE) if not series.rows(name).n]
        reason = "; ".join(missing) or f"four steps with {SCORE} and {OBJECTIVE} are needed in the first and in the last window"
        return Detection(detector=NAME, state="not_observable", reason=reason)
    fell = objective[0] < -settings.errors * objective[1]
    against = fell and score[0] >= -settings.errors * score[1]
    says = f"score {score[0]:+.3g} (standard error {score[1]:.2g}), score minus KL penalty {objective[0]:+.3g} ({objective[1]:.2g}), "
    says += f"{at_end(series.window())} minus the first"
    says += ": the penalty costs more than the score gains" if against else ""
    signal = Signal(
        detector=NAME,
        metric=OBJECTIVE,
        severity="warning" if against and not series.null_control else "info",
        says=says,
        last=int(series.rows(OBJECTIVE).steps[-1]),
        value=objective[0],
        evidence={"score": score[0], "penalty": objective[0] - score[0]},
    )
    return Detection(detector=NAME, state="looked", signals=(signal,))


def _change(series: Observed, metric: str) -> tuple[float, float] | None:
    """Change and its standard error."""
    before, after = (level(values) for values in series.ends(metric))
    return (after.mean - before.mean, math.hypot(before.error, after.error)) if before and after else None
