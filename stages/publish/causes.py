"""Each kind of anomaly in one plain sentence: what was measured, what that means for the reader, what to do; and what would confirm it.

A table, not a guess: an entry holds by the definition of its detector whatever the run. What else could have made the same numbers is said
as what would confirm or rule it out; nothing here claims a cause that a run's own series cannot carry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from stages.contracts.health import Signal
from stages.contracts.metric_words import words


@dataclass(frozen=True)
class Cause:
    means: str
    """`{measured}` stands for what was measured, in a few words with its number."""
    confirm: str
    measured: Callable[[Sequence[Signal]], str] = lambda signals: ""
    """Of the signals of several runs: a span holds them all."""


def _span(found: Iterable[float], form: str = ".3g") -> str:
    """`0.31`, or `0.31 to 0.95` of several runs."""
    texts = list(dict.fromkeys(format(value, form) for value in sorted(found)))
    return " to ".join(dict.fromkeys((texts[0], texts[-1]))) if texts else "an unknown number"


def _values(form: str = ".3g") -> Callable[[Sequence[Signal]], str]:
    return lambda signals: _span((signal.value for signal in signals if signal.value is not None), form)


def _share(of: str) -> Callable[[Sequence[Signal]], str]:
    """Of the end of a run, or of the window that was first above the threshold, where the end is better than that."""

    def words_of(signals: Sequence[Signal]) -> str:
        early = [signal for signal in signals if isinstance(signal.evidence.get("first_above"), float)]
        worst = _span((float(s.evidence["first_above"]) if s in early else s.value or 0.0 for s in signals), ".0%")
        places = dict.fromkeys(str(signal.evidence["in"]) for signal in early)
        where = f" in {next(iter(places))}" if len(places) == 1 and len(early) == len(signals) else " in a part of the run" if early else ""
        return f"{worst} of {of}{where}"

    return words_of


def _counts(signals: Sequence[Signal]) -> str:
    """`3 of 300 logged steps`."""
    if not all("count" in signal.evidence and "rows" in signal.evidence for signal in signals):
        return "some logged steps"
    rows = [int(signal.evidence["rows"]) for signal in signals]
    return f"{_span((signal.evidence['count'] for signal in signals), '.0f')} of {_span(rows, '.0f')} logged step{'s' * (rows != [1])}"


def _metric(signals: Sequence[Signal]) -> str:
    metric = signals[0].metric
    return "the gradient" if metric == "gradient" else f"the {words(metric)}"


def _onsets(signals: Sequence[Signal]) -> str:
    return _span((signal.onset for signal in signals if signal.onset is not None), ".0f")


def _steps(signals: Sequence[Signal]) -> str:
    found = _span((signal.value or 0.0 for signal in signals), ".0f")
    return f"{found} step{'s' * (found != '1')}"


def _scores(signals: Sequence[Signal]) -> str:
    values = sorted({signal.value for signal in signals if signal.value is not None})
    return "exactly " + " or ".join(f"{value:g}" for value in values[:3]) if len(values) < 4 else f"one of {len(values)} exact ones"


CAUSES: dict[tuple[str, str], Cause] = {
    ("truncation", ""): Cause(
        "{measured} hit the length limit: the reward is judged on cut answers; raise max_completion_length or shorten prompts",
        "the texts end in the middle of an answer, and the share falls with a higher limit; texts that repeat "
        "themselves would go on anyway",
        _share("completions"),
    ),
    ("zero_signal", "zero_signal_share"): Cause(
        "{measured} had equal rewards, so the reward taught nothing there; choose prompts of mixed difficulty, or grade answers in parts",
        "rewards at the maximum say that prompts are too easy, rewards at 0 too hard; the gates' pass shares tell which",
        _share("groups"),
    ),
    ("zero_signal", "reward"): Cause(
        "no step has a known reward, so nothing here shows that anything was learnt; repair the reward function or its columns",
        "`octavo preflight` of the same reward shows whether its gates answer at all",
    ),
    ("zero_signal", "reward_std"): Cause(
        "the spread of the batch lies between prompts and none within groups, so scaling by the batch hides that no group has a signal",
        "group_range is 0 at the same steps",
    ),
    ("collapse", ""): Cause(
        "for {measured} no group had unequal rewards, so the reward taught nothing in them; stop there, or take harder or easier prompts",
        "texts of one group read alike, or rewards sit at 0 or at the maximum from the onset on",
        _steps,
    ),
    ("collapse", "declared"): Cause(
        "for {measured}, by which the spec means that there is no signal; stop there, or take harder or easier prompts",
        "rewards of every group are equal at the same steps; a threshold on another measure may also be met while they differ",
        lambda signals: f"{_steps(signals)} the declared rule held ({signals[0].evidence.get('rule')})",
    ),
    ("nonfinite", "gradient"): Cause(
        "the gradient was not a finite number in {measured}, so those steps count in no statistic; lower the learning rate, clip "
        "gradients or use float32",
        "a spike of the gradient norm just before says that the update blew up; without one, look at the reward and at logits",
        _counts,
    ),
    ("nonfinite", ""): Cause(
        "{measured}, so its statistics leave those steps out; look at what computes it",
        "the gradient is finite at the same steps: then this number alone is broken; where it is not, those steps are",
        lambda signals: f"{_metric(signals)} was not a finite number in {_counts(signals)}",
    ),
    ("summary", "persistent"): Cause(
        "the last logged value of {measured} is not a finite number, so the summary's other values may hold broken steps; import the "
        "series, which shows from where on",
        "in the series nothing is finite from the first such step on, and the loss reads 0 or NaN there",
        _metric,
    ),
    ("summary", "transient"): Cause(
        "{measured} was not a finite number for some steps and was one at the end, so the summary's other values may hold such steps; "
        "import the series, which leaves them out",
        "the series is finite again after them, and goes on where it was",
        _metric,
    ),
    ("spikes", ""): Cause(
        "{measured} left its usual range for single steps; read what those steps were trained on before changing anything",
        "a spike without an effect in the steps after it is noise of one batch; one that shifts reward or entropy is not",
        _metric,
    ),
    ("spikes", "level"): Cause(
        "{measured}, so these rows are the way to another level and no single steps; look at what changed there before anything else",
        "the series stays at the new level; a resume, a phase of a curriculum or another learning rate at that step would do it",
        lambda signals: f"{_metric(signals)} left its usual range for many rows in a row from step {_onsets(signals)} on",
    ),
    ("atoms", ""): Cause(
        "one reward, {measured}, neither 0 nor the highest, was earned by very many completions: a cheap way to it may have been found; "
        "read those texts",
        "texts of that score have the same form and do not try the task; honest partial answers differ from each other",
        _scores,
    ),
    ("degenerate", ""): Cause(
        "the reward is full while {measured} has shrunk to its floor: a higher reward cannot tell better answers any more; read the texts",
        "the shared evaluation falls or stands still while the reward is full; right answers that are short keep it up",
        lambda signals: "the variety of texts" if signals[0].metric == "texts" else _metric(signals),
    ),
    ("entropy_change", "fallen"): Cause(
        "entropy at the end is {measured} times that of the run's own start: the policy is surer of each token than it was; hold it with a "
        "KL term or a lower rate",
        "texts of one prompt read alike; the null control shows what happens without a reward",
        _values(".2g"),
    ),
    ("entropy_change", "risen"): Cause(
        "entropy at the end is {measured} times that of the run's own start: the policy is less sure of each token than it was; hold it "
        "with a KL term or a lower rate",
        "texts of one prompt fall apart; the null control shows what happens without a reward",
        _values(".2g"),
    ),
    ("entropy_change", ""): Cause(
        "entropy at the end is {measured}; hold it with a KL term or a lower rate",
        "texts of one prompt read alike (too low) or fall apart (too high); the null control shows what happens without a reward",
        lambda signals: f"{_span(s.evidence['last'] for s in signals if 'last' in s.evidence)} nats per token, outside the declared band",
    ),
    ("kl_reference", "negative"): Cause(
        "the KL to the reference is estimated as {measured} nats per token, and a KL is never negative: sampling and scoring differ; give "
        "both the same temperature and top_p",
        "sample with temperature 1 and top_p 1: the estimate is then positive on average",
        _values(),
    ),
    ("kl_reference", ""): Cause(
        "the policy is {measured} nats per token from the reference model at the end, beyond the bound; a larger beta or a "
        "lower rate holds it nearer",
        "the shared evaluation says whether the distance is used for anything; the null control's KL is movement without a reward",
        _values(),
    ),
    ("kl_sign", ""): Cause(
        "the KL in the penalty fell to {measured} nats per completion, and a KL is never negative: the penalty paid where it should cost; "
        "score what was sampled (temperature, top_p)",
        "sample with temperature 1 and top_p 1: the estimate is then positive on average",
        _values(),
    ),
    ("update_size", "policy.first_ratio"): Cause(
        "before any update the ratio of new and old policy is {measured} instead of 1: sampling and training compute "
        "different probabilities; use one precision and one engine for both",
        "the same batch scored twice by the trainer alone gives exactly 1; another precision or another engine for sampling does not",
        _values(".4g"),
    ),
    ("update_size", "clipped"): Cause(
        "{measured} of the tokens of a window were clipped, so they no longer teach; lower the learning rate or take fewer epochs a batch",
        "the share falls with half the learning rate on the same seed",
        _values(".0%"),
    ),
    ("update_size", ""): Cause(
        "{measured} on average over a window, so updates go far; lower the learning rate or take fewer epochs a batch",
        "the measure falls with half the learning rate on the same seed",
        lambda signals: f"{_metric(signals)} is {_values()(signals)}",
    ),
    ("gradient", "adapter"): Cause(
        "the adapter adds nothing to the model, so every number after training is the untrained model's; check "
        "target_modules and what is trained",
        "the evaluation after training equals the untrained model's, but for the chance of sampling",
    ),
    ("gradient", ""): Cause(
        "in {measured} of the steps whose rewards differ within groups the gradient is exactly 0, so they taught nothing: the adapter is "
        "disconnected, not the reward",
        "no parameter of the adapter requires a gradient, or its weights are the same at the end; masked completions would also give 0",
        _values(".0%"),
    ),
    ("gradient", "gradient"): Cause(
        "the gradient is 0 in every logged step, so nothing was learnt from the loss: either no group had unequal rewards, or no trained "
        "weight is connected with it",
        "the share of groups without signal tells the two apart; import it, or look at the rewards within groups",
    ),
    ("gradient", "lost"): Cause(
        "for {measured} in a row the gradient is exactly 0 although rewards differ within groups, so they taught nothing: the adapter was "
        "disconnected then, not the reward",
        "the streak begins at a resume, or at a step that changed what requires a gradient; masked completions would also give 0",
        lambda signals: f"{_span((signal.evidence['streak'] for signal in signals), '.0f')} steps",
    ),
    ("value_fit", ""): Cause(
        "the value head's explained variance is {measured} and a constant guess has 0, so as a baseline it adds noise to the advantages; "
        "train it more slowly",
        "the value loss falls with a lower rate or a longer warm-up of the head alone",
        _values(".2g"),
    ),
    ("true_objective", ""): Cause(
        "what PPO maximises, score minus KL penalty, fell by {measured} while the score did not fall: the penalty grew by more than the "
        "score; lower kl_coef",
        "the KL in the penalty grows over the same steps",
        lambda signals: _span(abs(signal.value or 0.0) for signal in signals),
    ),
    ("resume_faults", "step"): Cause(
        "steps are missing where the run was resumed, so means over them are means of the rest; look for the log of the attempt before",
        "the ledger of attempts lists from which checkpoint each began",
    ),
    ("resume_faults", "rows"): Cause(
        "some steps were written more than once within one attempt, and of each only the last counts; see why the log holds them again",
        "equal values were written again, different ones were made again",
    ),
    ("resume_faults", ""): Cause(
        "{measured} jumps where the run was resumed, more than anywhere else: state may have been lost; compare with an uninterrupted seed",
        "an uninterrupted run of the same seed has no jump at that step; a checkpoint without optimizer or random state would give one",
        _metric,
    ),
    ("duplicates", ""): Cause(
        "two seeds hold the same numbers, so they are one run and count once at most; give each run its own seed and folder",
        "their completions are the same text by text",
    ),
    ("duplicates", "series"): Cause(
        "two conditions hold the same numbers, so one of the logs is not its run's, and what is said of either condition may be wrong; "
        "look at the paths of both",
        "the sources are the same file under two names, or were exported from one run",
    ),
    ("throughput", ""): Cause(
        "{measured} have no known reward, so the mean reward is that of the rest; see which gate did not know, and raise its limits",
        "the gates' unknown shares name the gate, its reasons say time-out or crash",
        _share("completions"),
    ),
}
