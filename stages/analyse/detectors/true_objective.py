"""The objective of PPO: the score minus the KL penalty. The score may rise while what is maximised falls; only the latter is progress.

Each change is the last window minus the first, with a standard error from batch means, because steps of one run are correlated.
"""

import math

from stages.analyse.signals import OWN, Answer, Event, NotObservable, Run, Thresholds, at_end, needed, threshold

NEEDS_COMPLETIONS = True
SCORE, OBJECTIVE = "objective.scores", "objective.rlhf_reward"


class Settings(Thresholds):
    errors: float = threshold(4.0, "standard errors", f"{OWN}; batch means of short windows are rough", gt=0)
    """A change counts when it is larger than this number of its standard errors."""


def detect(settings: Settings, run: Run) -> Answer:
    """One event: a warning when the objective falls although the score does not, else both changes as information."""
    from stages.analyse.statistics import batch_means

    if not run.logs(SCORE) and not run.logs(OBJECTIVE):
        needed(run, OBJECTIVE, "there is no KL penalty in the reward (PPO only)")
    ends = [[batch_means(values) for values in run.ends(metric)] for metric in (SCORE, OBJECTIVE)]
    changes = [(after[0] - before[0], math.hypot(before[1], after[1])) for before, after in ends if before and after]
    if len(changes) < 2:
        missing = "; ".join(run.why_none(name) for name in (SCORE, OBJECTIVE) if run.values(name).empty)
        raise NotObservable(missing or f"four steps with {SCORE} and {OBJECTIVE} are needed in the first and in the last window")
    score, objective = changes
    against = objective[0] < -settings.errors * objective[1] and score[0] >= -settings.errors * score[1]
    says = f"score {score[0]:+.3g} (standard error {score[1]:.2g}), score minus KL penalty {objective[0]:+.3g} ({objective[1]:.2g}), "
    says += f"{at_end(run.window())} minus the first" + (": the penalty costs more than the score gains" if against else "")
    evidence = {"score": score[0], "penalty": objective[0] - score[0]}
    dates = (None, None, run.values(OBJECTIVE).index[-1])
    yield Event(OBJECTIVE, "warning" if against else "info", says, objective[0], dates, evidence, null="info")
