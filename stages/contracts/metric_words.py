"""Names of metrics as people say them, for titles of figures and tables; the key stays beside them."""

from __future__ import annotations

import re

_WORDS = {
    "reward": "reward",
    "group_range": "reward range within a group",
    "zero_signal_share": "zero-signal share",
    "unknown_share": "share of unknown rewards",
    "truncated": "truncated share",
    "completion_tokens": "completion length",
    "mean_token_accuracy": "share of gold tokens predicted",
    "grad_norm": "gradient norm",
    "learning_rate": "learning rate",
    "kl": "KL to the reference model",
    "reward_std": "reward spread over the batch",
    "skipped": "skipped optimizer steps",
    "generation_seconds": "time of sampling",
    "reward_seconds": "time of scoring",
    "update_seconds": "time of the update",
    "step_seconds": "time of a step",
    "objective.kl": "KL in the penalty",
    "objective.kl_token": "KL in the penalty, a token",
    "objective.entropy": "surprise of completions",
    "objective.scores": "score before the KL penalty",
    "objective.non_score_reward": "KL penalty",
    "objective.rlhf_reward": "score and KL penalty",
    "kl_coef": "KL coefficient",
    "loss.policy": "policy loss",
    "loss.value": "value loss",
    "policy.approxkl": "distance of new and old policy",
    "policy.clipfrac": "share of clipped tokens, policy",
    "policy.ratio": "ratio of new and old policy",
    "policy.first_ratio": "ratio before the first optimizer step",
    "value.explained_variance": "explained variance of the value head",
    "value.clipfrac": "share of clipped tokens, value",
    "value.error": "error of the value head",
    "value.mean": "mean value",
    "returns": "mean return",
    "advantages": "mean advantage",
    "optimizer_steps": "optimizer steps of an update",
}
_MEASURES = {
    "reach_share": "share that reaches {}",
    "pass_share": "share that passes {}",
    "unknown_share": "share that {} does not know",
    "score": "score of {}",
    "seconds": "time of {}",
}
_GATE = re.compile(r"(?P<where>gate|evaluation)\.(?P<gate>.+)\.(?P<measure>[a-z_]+)")


def words(metric: str) -> str:
    """`zero-signal share` of `zero_signal_share`; a name without words of its own loses its underscores only."""
    match = _GATE.fullmatch(metric)
    if match and match["measure"] in _MEASURES:
        said = _MEASURES[match["measure"]].format(match["gate"])
        return f"{said}, shared evaluation" if match["where"] == "evaluation" else said
    return _WORDS.get(metric, metric.replace("_", " "))
