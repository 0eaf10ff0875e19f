"""History, completions and evaluation tables: column names, metric names with units, states of a cell.

The tables are Parquet files. `history.parquet` is long: one row a (step, metric, attempt). Four states of a cell stay apart:
`value`, `nonfinite` (logged as NaN or Inf; value null), `null` (logged as "does not apply"; value null), and absent (no row).
Parquet metadata holds `octavo.schema`, `octavo.card_id` and `octavo.attempt` (the attempt that wrote the file).
"""

from __future__ import annotations

import re
from typing import Literal

from stages.contracts.artifact import Frozen

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


class Metric(Frozen):
    """A named column of history."""

    name: str
    unit: str
    says: str
    share: bool = False
    """True when values lie in 0..1 by definition."""
    algorithms: tuple[str, ...] = ()
    """The training algorithms that log it; none: all do."""


def _metric(name: str, unit: str, says: str, share: bool = False, of: tuple[str, ...] = ()) -> tuple[str, Metric]:
    return name, Metric(name=name, unit=unit, says=says, share=share, algorithms=of)


_GROUPED, _PPO, _SFT = ("grpo", "rloo"), ("ppo",), ("sft",)
SAMPLED = (*_GROUPED, *_PPO)
"""Those that learn from completions that the policy samples."""


METRICS: dict[str, Metric] = dict(
    [
        _metric("reward", "reward", "Mean reward of the step's completions; unknown ones left out", of=SAMPLED),
        _metric("group_range", "reward", "Mean over groups of (highest - lowest reward): what GRPO can compare", of=_GROUPED),
        _metric("zero_signal_share", "share", "Share of groups whose known rewards are all equal", share=True, of=_GROUPED),
        _metric("unknown_share", "share", "Share of completions whose reward is unknown", share=True, of=SAMPLED),
        _metric("truncated", "share", "Share of completions cut at max_completion_length", share=True, of=SAMPLED),
        _metric("completion_tokens", "tokens", "Mean length of completions", of=SAMPLED),
        _metric(
            "loss",
            "loss",
            "Logged loss; of SFT: mean negative log-probability of a gold token, in nats; on-policy it is not progress "
            "(minus advantage-length covariance + beta x KL)",
        ),
        _metric("grad_norm", "norm", "Gradient norm before clipping"),
        _metric("learning_rate", "1", "Learning rate of the step"),
        _metric("entropy", "nats per token", "Mean token entropy of the policy; SFT: at the tokens of gold answers"),
        _metric(
            "kl", "nats per token", "KL to the reference model; GRPO and PPO: k3 estimator, RLOO: k1; absent when beta is 0", of=SAMPLED
        ),
        _metric("reward_std", "reward", "Standard deviation over the whole batch as TRL logs it (since 0.27)", of=_GROUPED),
        _metric("skipped", "count", "1 when an optimizer step was skipped for a non-finite gradient, else 0"),
        _metric(
            "invalid_logits", "count", "Token positions whose logits were not all finite and were repaired before sampling", of=SAMPLED
        ),
        _metric("reward_seconds", "s", "Wall time of scoring the step's completions", of=SAMPLED),
        _metric(
            "generation_seconds",
            "s",
            "Wall time of sampling the step's completions; 0 in steps that use those of an earlier one",
            of=SAMPLED,
        ),
        _metric(
            "update_seconds",
            "s",
            "Wall time of the rest of the step: log-probabilities, gradients, optimizer; with sampling and scoring it is the whole step",
            of=SAMPLED,
        ),
        _metric(
            "mean_token_accuracy",
            "share",
            "Share of gold tokens that the model would have chosen itself, given those before",
            share=True,
            of=_SFT,
        ),
        _metric("step_seconds", "s", "Wall time of the step"),
        _metric(
            "objective.kl", "nats per completion", "KL to the reference model in the penalty, its estimator (k1 may be negative)", of=_PPO
        ),
        _metric("objective.kl_token", "nats per token", "The same, mean over tokens", of=_PPO),
        _metric("objective.entropy", "nats per completion", "Minus the log-probability of the sampled completions", of=_PPO),
        _metric("objective.scores", "reward", "Mean score of completions before the KL penalty; unknown ones left out", of=_PPO),
        _metric("objective.non_score_reward", "reward", "Mean KL penalty of a completion: minus kl_coef times its KL", of=_PPO),
        _metric("objective.rlhf_reward", "reward", "What is maximised: mean of score and KL penalty; unknown ones left out", of=_PPO),
        _metric("kl_coef", "reward per nat", "Coefficient of the KL penalty in the step", of=_PPO),
        _metric("loss.policy", "loss", "Clipped policy loss, mean over the update's optimizer steps", of=_PPO),
        _metric("loss.value", "reward squared", "Clipped value loss before vf_coef, mean over the update's optimizer steps", of=_PPO),
        _metric("policy.approxkl", "nats per token", "Half the mean square log-ratio of new and old policy", of=_PPO),
        _metric("policy.clipfrac", "share", "Share of tokens whose clipped policy term decided", share=True, of=_PPO),
        _metric("policy.ratio", "ratio", "Mean probability ratio of new and old policy", of=_PPO),
        _metric("policy.first_ratio", "ratio", "The same in the first optimizer step: 1, or sampling and training disagree", of=_PPO),
        _metric(
            "value.explained_variance",
            "part of the variance",
            "1 - Var(returns - values) / Var(returns), before the update; below 0: worse than a constant",
            of=_PPO,
        ),
        _metric("value.clipfrac", "share", "Share of tokens whose clipped value error decided", share=True, of=_PPO),
        _metric("value.error", "reward squared", "Mean square of returns - values, before the update", of=_PPO),
        _metric("value.mean", "reward", "Mean value", of=_PPO),
        _metric("returns", "reward", "Mean return of a token", of=_PPO),
        _metric("advantages", "reward", "Mean advantage of a token, before whitening", of=_PPO),
        _metric("optimizer_steps", "count", "Optimizer steps of the update; fewer than planned when target_kl ended it", of=_PPO),
    ]
)


REWARD_UNITS = frozenset({"reward", "reward squared"})
"""Units of a condition's own reward: two conditions can be compared on metrics in them only when they share the reward."""

POLICY_LOSSES = frozenset({"loss", "loss.policy"})
"""Losses of a policy that learns from its own samples: on-policy they are minus the covariance of advantage and length plus beta x KL, and
fall or rise while the policy gets better. No verdict rests on them; the `loss` of supervised fine-tuning is another number."""


def of_completions(name: str) -> bool:
    """Whether a metric is measured on completions that a policy samples while it trains: of gold answers it is never logged."""
    found = METRICS.get(name)
    return name.startswith(("gate.", "penalty.")) or (found is not None and found.algorithms != () and "sft" not in found.algorithms)


GATE_METRICS: dict[str, Metric] = dict(
    [
        _metric("reach_share", "share", "Share of completions that reached the gate", share=True),
        _metric("pass_share", "share", "Share of completions that passed the gate, of those with a known answer", share=True),
        _metric("unknown_share", "share", "Share of completions for which the gate did not know, of those that reached it", share=True),
        _metric("score", "score", "Mean unweighted score of the gate over the completions it knew"),
        _metric("seconds", "s", "Wall time the gate took in the step"),
    ]
)

PENALTY_METRICS: dict[str, Metric] = dict(
    [_metric("share", "share", "Share of completions that the penalty held for, of those where that is known", share=True)]
)

_PENALTY = re.compile(r"penalty\.(?P<penalty>[a-z0-9_]+(?:-[a-z0-9_]+)*)\.(?P<measure>[a-z_]+)")
_GATE = re.compile(r"(?:gate|evaluation)\.(?P<gate>[a-z0-9_]+(?:-[a-z0-9_]+)*)\.(?P<measure>[a-z_]+)")
EVALUATION_MEASURES = ("pass_share", "score", "unknown_share")


def metric(name: str) -> Metric | None:
    """What a metric name means: history metrics, `gate.<gate>.<measure>`, `penalty.<penalty>.share` and
    `evaluation.<gate>.<measure>`; None if unknown."""
    if name in METRICS:
        return METRICS[name]
    held = _PENALTY.fullmatch(name)
    if held and held["measure"] in PENALTY_METRICS:
        found = PENALTY_METRICS[held["measure"]]
        return Metric(name=name, unit=found.unit, says=f"{found.says} (penalty {held['penalty']}, training)", share=found.share)
    match = _GATE.fullmatch(name)
    if not match or match["measure"] not in GATE_METRICS:
        return None
    if name.startswith("evaluation.") and match["measure"] not in EVALUATION_MEASURES:
        return None
    meaning = GATE_METRICS[match["measure"]]
    where = "shared evaluation" if name.startswith("evaluation.") else "training"
    return Metric(name=name, unit=meaning.unit, says=f"{meaning.says} (gate {match['gate']}, {where})", share=meaning.share)
