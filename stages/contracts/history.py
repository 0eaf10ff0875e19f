"""History, completions and evaluation tables: column names, metric names with units, states of a cell.

The tables are Parquet files. `history.parquet` is long: one row a (step, metric, attempt). Four states of a cell stay apart:
`value`, `nonfinite` (logged as NaN or Inf; value null), `null` (logged as "does not apply"; value null), and absent (no row).
Parquet metadata holds `octavo.schema`, `octavo.card_id` and `octavo.attempt` (the attempt that wrote the file).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

HISTORY_SCHEMA = "octavo.history/1"
HISTORY_COLUMNS = ("attempt", "step", "tokens", "seconds", "metric", "value", "state")
"""attempt text, step int, tokens int (cumulative, null if unknown), seconds float since the attempt began, value float."""

COMPLETIONS_SCHEMA = "octavo.completions/1"
COMPLETIONS_COLUMNS = ("attempt", "step", "prompt_id", "group", "text", "reward", "tokens", "truncated")
"""step is the training step the text was made for (1-based; 0 in preflight), group counts within a step. Then per gate: gate_columns."""

EVALUATION_SCHEMA = "octavo.evaluation/1"
EVALUATION_COLUMNS = ("prompt_id", "sample", "text", "tokens", "truncated")
"""Then per score: gate_columns. `attempt` of the adapter is in the metadata; null reward does not exist here."""

State = Literal["value", "nonfinite", "null"]
GRADIENT_METRICS = ("grad_norm", "loss")
"""Metrics whose NaN or Inf means that the gradient of the step was not finite."""
SKIPPED = "skipped"
"""1 marks a step that was skipped because its gradient was not finite."""
STATUSES = ("pass", "fail", "unknown", "not_reached")


def gate_columns(gate: str) -> tuple[str, str, str]:
    """Columns a gate adds to completions and evaluation: status (one of STATUSES), score (null when unknown), reason."""
    return f"gate.{gate}.status", f"gate.{gate}.score", f"gate.{gate}.reason"


@dataclass(frozen=True)
class Metric:
    """A named column of history."""

    name: str
    unit: str
    algorithms: tuple[str, ...]
    """The training algorithms that log it; none: all do."""
    title: str
    """As people say it, for figures and tables; the key stays beside it."""
    says: str
    trl: tuple[str, ...] = ()
    """What TRL calls it in its logs, where the name is another one: what people have at hand when they map an import."""

    @property
    def share(self) -> bool:
        """Whether values lie in 0..1 by definition."""
        return self.unit == "share"


_GROUPED, _PPO, _SFT = ("grpo", "rloo"), ("ppo",), ("sft",)
SAMPLED = (*_GROUPED, *_PPO)
"""Those that learn from completions that the policy samples."""
_ALGORITHMS = {"all": (), "sampled": SAMPLED, "grouped": _GROUPED, "ppo": _PPO, "sft": _SFT}


def _metrics(table: str) -> dict[str, Metric]:
    metrics = {}
    for row in table.strip().splitlines():
        name, unit, algorithms, title, says, *trl = (" ".join(cell.split()) for cell in row.split(" | "))
        metrics[name] = Metric(name, unit, _ALGORITHMS[algorithms], title, says, tuple(" ".join(trl).split()))
    return metrics


METRICS = _metrics("""
reward | reward | sampled | reward | Mean reward of the step's completions; unknown ones left out
group_range | reward | grouped | reward range within a group | Mean over groups of (highest - lowest reward): what GRPO can compare
zero_signal_share | share | grouped | zero-signal share | Share of groups whose known rewards are all equal | frac_reward_zero_std
unknown_share | share | sampled | share of unknown rewards | Share of completions whose reward is unknown
truncated | share | sampled | truncated share | Share of completions cut at max_completion_length | completions/clipped_ratio
completion_tokens | tokens | sampled | completion length | Mean length of completions | completions/mean_length
loss | loss | all | loss | Logged loss; of SFT: mean negative log-probability of a gold token, in nats; on-policy it is not progress \
    (minus advantage-length covariance + beta x KL)
grad_norm | norm | all | gradient norm | Gradient norm before clipping
learning_rate | 1 | all | learning rate | Learning rate of the step
entropy | nats per token | all | entropy | Mean token entropy of the policy; SFT: at the tokens of gold answers
kl | nats per token | sampled | KL to the reference model | KL to the reference model; GRPO and PPO: k3 estimator, RLOO: k1; absent when \
    beta is 0
reward_std | reward | grouped | reward spread over the batch | Standard deviation over the whole batch as TRL logs it (since 0.27)
skipped | count | all | skipped optimizer steps | 1 when an optimizer step was skipped for a non-finite gradient, else 0
invalid_logits | count | sampled | invalid logits | Token positions whose logits were not all finite and were repaired before sampling
reward_seconds | s | sampled | time of scoring | Wall time of scoring the step's completions
generation_seconds | s | sampled | time of sampling | Wall time of sampling the step's completions; 0 in steps that use those of an \
    earlier one
update_seconds | s | sampled | time of the update | Wall time of the rest of the step: log-probabilities, gradients, optimizer; with \
    sampling and scoring it is the whole step
mean_token_accuracy | share | sft | share of gold tokens predicted | Share of gold tokens that the model would have chosen itself, given \
    those before
step_seconds | s | all | time of a step | Wall time of the step | step_time
objective.kl | nats per completion | ppo | KL in the penalty | KL to the reference model in the penalty, its estimator (k1 may be \
    negative) | objective/kl
objective.kl_token | nats per token | ppo | KL in the penalty, a token | The same, mean over tokens
objective.entropy | nats per completion | ppo | surprise of completions | Minus the log-probability of the sampled completions | \
    objective/entropy
objective.scores | reward | ppo | score before the KL penalty | Mean score of completions before the KL penalty; unknown ones left out | \
    objective/scores
objective.non_score_reward | reward | ppo | KL penalty | Mean KL penalty of a completion: minus kl_coef times its KL | \
    objective/non_score_reward
objective.rlhf_reward | reward | ppo | score and KL penalty | What is maximised: mean of score and KL penalty; unknown ones left out | \
    objective/rlhf_reward
kl_coef | reward per nat | ppo | KL coefficient | Coefficient of the KL penalty in the step
loss.policy | loss | ppo | policy loss | Clipped policy loss, mean over the update's optimizer steps | loss/policy_avg
loss.value | reward squared | ppo | value loss | Clipped value loss before vf_coef, mean over the update's optimizer steps | \
    loss/value_avg
policy.approxkl | nats per token | ppo | distance of new and old policy | Half the mean square log-ratio of new and old policy | \
    policy/approxkl_avg
policy.clipfrac | share | ppo | share of clipped tokens, policy | Share of tokens whose clipped policy term decided | \
    clip_ratio/region_mean policy/clipfrac_avg
policy.ratio | ratio | ppo | ratio of new and old policy | Mean probability ratio of new and old policy | val/ratio
policy.first_ratio | ratio | ppo | ratio before the first optimizer step | The same in the first optimizer step: 1, or sampling and \
    training disagree
value.explained_variance | part of the variance | ppo | explained variance of the value head | 1 - Var(returns - values) / Var(returns), \
    before the update; below 0: worse than a constant
value.clipfrac | share | ppo | share of clipped tokens, value | Share of tokens whose clipped value error decided | val/clipfrac_avg
value.error | reward squared | ppo | error of the value head | Mean square of returns - values, before the update
value.mean | reward | ppo | mean value | Mean value
returns | reward | ppo | mean return | Mean return of a token
advantages | reward | ppo | mean advantage | Mean advantage of a token, before whitening
optimizer_steps | count | ppo | optimizer steps of an update | Optimizer steps of the update; fewer than planned when target_kl ended it
""")
"""Name | unit | the algorithms that log it | title | what it is | names in logs of TRL."""
TRL_NAMES = {name: metric.name for metric in METRICS.values() for name in metric.trl}
"""TRL's name -> octavo's metric, of GRPO, RLOO, SFT and PPO; names that are the same in both (`reward`, `kl`, `loss`) are left out."""

REWARD_UNITS = frozenset({"reward", "reward squared"})
"""Units of a condition's own reward: two conditions can be compared on metrics in them only when they share the reward."""

POLICY_LOSSES = frozenset({"loss", "loss.policy"})
"""Losses of a policy that learns from its own samples: on-policy they are minus the covariance of advantage and length plus beta x KL, and
fall or rise while the policy gets better. No verdict rests on them; the `loss` of supervised fine-tuning is another number."""


def of_completions(name: str) -> bool:
    """Whether a metric is measured on completions that a policy samples while it trains: of gold answers it is never logged."""
    algorithms = METRICS[name].algorithms if name in METRICS else ()
    return name.startswith(("gate.", "penalty.")) or (algorithms != () and "sft" not in algorithms)


GATE_METRICS = _metrics("""
reach_share | share | all | share that reaches {} | Share of completions that reached the gate
pass_share | share | all | share that passes {} | Share of completions that passed the gate, of those with a known answer
unknown_share | share | all | share that {} does not know | Share of completions for which the gate did not know, of those that reached it
score | score | all | score of {} | Mean unweighted score of the gate over the completions it knew
seconds | s | all | time of {} | Wall time the gate took in the step
""")
"""Measures of a gate; the title has its name in place of `{}`."""
PENALTY_METRICS = _metrics("share | share | all | share | Share of completions that the penalty held for, of those where that is known")

_PENALTY = re.compile(r"penalty\.(?P<penalty>[a-z0-9_]+(?:-[a-z0-9_]+)*)\.(?P<measure>[a-z_]+)")
_GATE = re.compile(r"(?P<where>gate|evaluation)\.(?P<gate>[a-z0-9_]+(?:-[a-z0-9_]+)*)\.(?P<measure>[a-z_]+)")
EVALUATION_MEASURES = ("pass_share", "score", "unknown_share")


def metric(name: str) -> Metric | None:
    """What a metric name means: history metrics, `gate.<gate>.<measure>`, `penalty.<penalty>.share` and
    `evaluation.<gate>.<measure>`; None if unknown."""
    if name in METRICS:
        return METRICS[name]
    if (penalty := _PENALTY.fullmatch(name)) and penalty["measure"] in PENALTY_METRICS:
        meaning, place = PENALTY_METRICS[penalty["measure"]], f"penalty {penalty['penalty']}, training"
    elif (gate := _GATE.fullmatch(name)) and gate["measure"] in (EVALUATION_MEASURES if gate["where"] == "evaluation" else GATE_METRICS):
        place = f"gate {gate['gate']}, {'shared evaluation' if gate['where'] == 'evaluation' else 'training'}"
        meaning = GATE_METRICS[gate["measure"]]
    else:
        return None
    return replace(meaning, name=name, title=metric_title(name), says=f"{meaning.says} ({place})")


def metric_title(name: str) -> str:
    """`zero-signal share` of `zero_signal_share`; a name without words of its own loses its underscores only."""
    gate = re.fullmatch(r"(gate|evaluation)\.(.+)\.([a-z_]+)", name)
    if gate and gate[3] in GATE_METRICS:
        words = GATE_METRICS[gate[3]].title.format(gate[2])
        return f"{words}, shared evaluation" if gate[1] == "evaluation" else words
    return METRICS[name].title if name in METRICS else name.replace("_", " ")


def metric_of_trl(name: str) -> str | None:
    """octavo's metric of a name in a log of TRL, with or without `train/` before it."""
    plain = name.removeprefix("train/")
    if plain not in TRL_NAMES and plain.startswith("rewards/") and plain.endswith("/mean"):
        function = plain.removeprefix("rewards").removesuffix("/mean").removeprefix("/").lower()
        gate = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in function)
        return f"gate.{gate}.score" if gate else None
    return TRL_NAMES.get(plain)
