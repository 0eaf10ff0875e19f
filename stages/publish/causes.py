"""Each kind of anomaly in one plain sentence: what was measured, what that means for the reader, what to do; and what would confirm it.

A table, not a guess: an entry holds by the definition of its detector whatever the run. What else could have made the same numbers is said
as what would confirm or rule it out; nothing here claims a cause that a run's own series cannot carry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stages.contracts.algorithms import AnyTrainCard
from stages.contracts.health import Signal
from stages.contracts.metric_words import words


@dataclass(frozen=True)
class Explanation:
    says: str
    """One sentence."""
    confirm: str
    """What would confirm it, or rule it out."""


@dataclass(frozen=True)
class _Cause:
    means: str
    """`{measured}` stands for what was measured, in a few words with its number."""
    confirm: str
    measured: Callable[[Signal], str] = lambda signal: ""


def _share(of: str) -> Callable[[Signal], str]:
    return lambda signal: f"{signal.value or 0:.0%} of {of}"


def _metric(signal: Signal) -> str:
    return "the gradient" if signal.metric == "gradient" else f"the {words(signal.metric)}"


_CAUSES: dict[tuple[str, str], _Cause] = {
    ("truncation", ""): _Cause(
        "{measured} hit the length limit: the reward is judged on cut answers; raise max_completion_length or shorten prompts",
        "the texts end in the middle of an answer, and the share falls with a higher limit; texts that repeat "
        "themselves would go on anyway",
        _share("completions"),
    ),
    ("zero_signal", "zero_signal_share"): _Cause(
        "{measured} had equal rewards throughout, so they gave no gradient; choose prompts of mixed difficulty, or grade answers in parts",
        "rewards at the maximum say that prompts are too easy, rewards at 0 too hard; the gates' pass shares tell which",
        _share("groups"),
    ),
    ("zero_signal", "reward"): _Cause(
        "no completion was ever scored, so nothing was learnt from the reward; repair the reward function or its columns",
        "`octavo preflight` of the same reward shows whether its gates answer at all",
    ),
    ("zero_signal", "reward_std"): _Cause(
        "the spread of the batch lies between prompts and none within groups, so scaling by the batch hides that no group has a signal",
        "group_range is 0 at the same steps",
    ),
    ("collapse", ""): _Cause(
        "for {measured} no group had unequal rewards, so only the KL term, if any, moved the policy; stop there, or "
        "take harder or easier prompts",
        "texts of one group read alike, or rewards sit at 0 or at the maximum from the onset on",
        lambda signal: f"{signal.value or 0:.0f} steps",
    ),
    ("nonfinite", ""): _Cause(
        "{measured} was not a finite number, so those steps count in no statistic; lower the learning rate, clip gradients or use float32",
        "a spike of the gradient norm just before says that the update blew up; without one, look at the reward and at logits",
        _metric,
    ),
    ("spikes", ""): _Cause(
        "{measured} left its usual range for single steps; read the completions of those steps before changing anything",
        "a spike without an effect in the steps after it is noise of one batch; one that shifts reward or entropy is not",
        _metric,
    ),
    ("atoms", ""): _Cause(
        "one partial reward, {measured}, is earned by very many completions: the cheapest way to that score may have "
        "been found; read those texts",
        "texts of that score have the same form and do not try the task; honest partial answers differ from each other",
        lambda signal: f"exactly {signal.value or 0:g}",
    ),
    ("degenerate", ""): _Cause(
        "the reward is full while {measured} has shrunk to its floor: a higher reward cannot tell better answers any more; read the texts",
        "the shared evaluation falls or stands still while the reward is full; right answers that are short keep it up",
        lambda signal: "the variety of texts" if signal.metric == "texts" else _metric(signal),
    ),
    ("entropy_change", ""): _Cause(
        "entropy at the end is {measured} that of the run's own start: exploration changed by that much; hold it with a "
        "KL term or a lower rate",
        "texts of one prompt read alike (too low) or fall apart (too high); the null control shows what happens without a reward",
        lambda signal: f"{signal.value:.2g} times" if signal.value is not None else "outside the declared band, not a multiple of",
    ),
    ("kl_reference", "negative"): _Cause(
        "the KL to the reference is estimated as {measured} nats per token, and a KL is never negative: sampling and scoring differ",
        "sample with temperature 1 and top_p 1: the estimate is then positive on average",
        lambda signal: f"{signal.value or 0:.3g}",
    ),
    ("kl_reference", ""): _Cause(
        "the policy is {measured} nats per token from the reference model at the end, which is far; a larger beta or a "
        "lower rate holds it nearer",
        "the shared evaluation says whether the distance is used for anything; the null control's KL is movement without a reward",
        lambda signal: f"{signal.value or 0:.3g}",
    ),
    ("kl_sign", ""): _Cause(
        "the KL in the penalty fell to {measured} nats, so the penalty paid for moving away; score what was sampled (temperature, top_p)",
        "sample with temperature 1 and top_p 1: the estimate is then positive on average",
        lambda signal: f"{signal.value or 0:.3g}",
    ),
    ("update_size", "policy.first_ratio"): _Cause(
        "before any update the ratio of new and old policy is {measured} instead of 1: sampling and training compute "
        "different probabilities",
        "the same batch scored twice by the trainer alone gives exactly 1; another precision or another engine for sampling does not",
        lambda signal: f"{signal.value or 0:.3g}",
    ),
    ("update_size", ""): _Cause(
        "{measured} is {value} on average: much of an update is cut off or goes far; lower the learning rate or take fewer epochs a batch",
        "the measure falls with half the learning rate on the same seed",
        _metric,
    ),
    ("gradient", "adapter"): _Cause(
        "the adapter adds nothing to the model, so every number after training is the untrained model's; check "
        "target_modules and what is trained",
        "the evaluation after training equals the untrained model's, text by text",
    ),
    ("gradient", ""): _Cause(
        "rewards differ within groups and {measured} of those steps have a gradient of exactly 0: the adapter is "
        "disconnected, not the reward",
        "no parameter of the adapter requires a gradient, or its weights are the same at the end; masked completions would also give 0",
        lambda signal: f"{signal.value or 0:.0%}",
    ),
    ("value_fit", ""): _Cause(
        "the value head explains {measured} of the returns' variance, less than a constant, so advantages are mostly "
        "noise; train it more slowly",
        "the value loss falls with a lower rate or a longer warm-up of the head alone",
        lambda signal: f"{signal.value or 0:.2g}",
    ),
    ("true_objective", ""): _Cause(
        "what PPO maximises, score minus KL penalty, went by {measured} while the score held: the penalty outweighs the "
        "score; lower kl_coef",
        "the KL in the penalty grows over the same steps",
        lambda signal: f"{signal.value or 0:+.3g}",
    ),
    ("resume_faults", "step"): _Cause(
        "the log of this run has a seam at a resume; the course over it is not one measurement",
        "the ledger of attempts lists from which checkpoint each began",
    ),
    ("resume_faults", ""): _Cause(
        "{measured} jumps where the run was resumed, more than anywhere else: state may have been lost; compare with an uninterrupted seed",
        "an uninterrupted run of the same seed has no jump at that step; a checkpoint without optimizer or random state would give one",
        _metric,
    ),
    ("duplicates", ""): _Cause(
        "two seeds hold the same numbers, so they are one run: the number of seeds is one lower; give each run its own seed and folder",
        "their completions are the same text by text",
    ),
    ("throughput", ""): _Cause(
        "{measured} have no known reward, so the mean reward is that of the rest; see which gate did not know, and raise its limits",
        "the gates' unknown shares name the gate, its reasons say time-out or crash",
        _share("completions"),
    ),
}
_SUMMARY = {"truncated": ("truncation", ""), "zero_signal_share": ("zero_signal", "zero_signal_share")}


def clipped_at(card: AnyTrainCard | None) -> float | None:
    """The norm to which a run's gradients were clipped; None when that is not known (an imported run)."""
    return getattr(card.train, "max_grad_norm", None) if card else None


def explain(signals: Sequence[Signal], clip: float | None = None) -> Explanation | None:
    """Of signals of one detector on one metric, the one with the largest value explained; None for mere information. `clip` is the norm to
    which gradients were clipped, where it is known."""
    told = [signal for signal in signals if signal.severity != "info"]
    if not told:
        return None
    signal = max(told, key=lambda one: abs(one.value or 0.0))
    key = (signal.detector, signal.metric)
    if signal.detector == "kl_reference" and (signal.value or 0.0) < 0:
        key = ("kl_reference", "negative")
    if signal.detector == "summary":  # single values of an imported summary: what its words are about
        key = _SUMMARY.get(signal.metric, ("nonfinite", ""))
    cause = _CAUSES.get(key) or _CAUSES.get((key[0], ""))
    if cause is None:
        return None
    value = f"{signal.value or 0:.3g}"
    says = cause.means.format(measured=cause.measured(signal), value=value)
    if key == ("spikes", "grad_norm"):
        on = (
            f"clipping to {clip:g} was on, so the update itself was bounded" if clip is not None else "whether clipping was on is not known"
        )
        says += f"; the norm is logged before clipping, and {on}"
    return Explanation(f"{says[0].upper()}{says[1:]}.", f"{cause.confirm[0].upper()}{cause.confirm[1:]}.")
