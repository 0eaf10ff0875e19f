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
    "grad_norm": "gradient norm",
    "learning_rate": "learning rate",
    "kl": "KL to the reference model",
    "reward_std": "reward spread over the batch",
    "skipped": "skipped optimizer steps",
    "reward_seconds": "time of scoring",
    "step_seconds": "time of a step",
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
