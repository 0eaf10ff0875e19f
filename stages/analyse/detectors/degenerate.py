"""Degenerate optimum: the reward is at its attainable maximum at the end while length, diversity or entropy is at its floor.

A reward for short answers ended at 1.94 of 2.0 with one-word answers: a reward curve alone shows success. A short right answer looks the
same to this rule, so its signal asks for the texts and never says that the answers are wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from stages.contracts.amounts import above, at_end, below
from stages.contracts.artifact import Frozen
from stages.contracts.health import Detection, Signal
from stages.contracts.observed import Observed

NAME = "degenerate"
NEEDS_COMPLETIONS = True


class Settings(Frozen):
    maximum: float = Field(
        1.0,
        gt=0,
        description="Highest reward that can be reached; a higher one that was observed takes its place.",
        json_schema_extra={"unit": "reward", "source": "gates score from 0 to 1"},
    )
    near: float = Field(
        0.95,
        gt=0,
        le=1,
        description="The mean reward of the last window is at its maximum from this share of it on.",
        json_schema_extra={"unit": "share of the maximum", "source": "octavo's own choice; the case that it is made after held 0.97"},
    )
    tokens: float = Field(
        5.0,
        gt=0,
        description="Completions of fewer tokens on average are at their floor, where the first window's were at least twice as long.",
        json_schema_extra={"unit": "tokens", "source": "octavo's own choice: one word and the end of text"},
    )
    same_text: float = Field(
        0.5,
        gt=0,
        le=1,
        description="Diversity is at its floor when the most common text of a step holds a larger share of it, over different prompts.",
        json_schema_extra={"unit": "share of completions", "source": "octavo's own choice"},
    )
    entropy: float = Field(
        0.05,
        gt=0,
        lt=1,
        description="Entropy is at its floor below this share of the run's own first window.",
        json_schema_extra={"unit": "ratio to the first window", "source": "octavo's own choice"},
    )


def detect(settings: Settings, series: Observed) -> Detection:
    """One signal a floor, at the end of the run."""
    _, rewards = series.ends("reward")
    if not series.logs("reward"):
        return Detection(detector=NAME, state="not_observable", reason="reward was not logged")
    if not rewards:
        return Detection(detector=NAME, state="not_observable", reason="reward has no value in the last window")
    if not series.same_text and not any(series.logs(name) for name in ("completion_tokens", "entropy")):
        return Detection(detector=NAME, state="not_observable", reason="neither length, texts nor entropy were logged")
    mean = sum(rewards) / len(rewards)
    if below(mean, settings.near * settings.maximum):
        return Detection(detector=NAME, state="looked")
    maximum = _maximum(settings, series)
    if below(mean, settings.near * maximum):
        return Detection(detector=NAME, state="looked")
    reached = f"reward is {mean:.4g} of {maximum:.4g} in {at_end(series.window())}"
    signals = tuple(
        Signal(
            detector=NAME,
            metric=metric,
            severity="info" if series.null_control else "warning",
            says=f"{reached} while {words}" + ("; expected for a null control" if series.null_control else ""),
            onset=max(1, series.target_steps - series.window() + 1),
            last=series.target_steps,
            value=value,
            evidence={"reward": mean, "examples": _examples(series)},
        )
        for metric, value, words in _floors(settings, series)
    )
    return Detection(detector=NAME, state="looked", signals=signals)


def _maximum(settings: Settings, series: Observed) -> float:
    """The declared one, unless a completion (or, where none were recorded, a step's mean) earned more."""
    counts = series.completions.rewards if series.completions else ()
    seen = [count.reward for count in counts if series.valid(count.step)] or series.rows("reward").values.tolist()
    return max(settings.maximum, *seen)


def _floors(settings: Settings, series: Observed) -> Iterator[tuple[str, float, str]]:
    before, after = series.ends("completion_tokens")
    if before and after:
        first, last = sum(before) / len(before), sum(after) / len(after)
        if below(last, settings.tokens) and not above(last, first / 2):
            yield "completion_tokens", last, f"completions are {last:.3g} tokens long on average, {first:.3g} in the first window"
    begin = series.target_steps - series.window()
    texts = [share for share in series.shares(series.same_text) if share.step > begin]
    n = sum(share.n for share in texts)
    if n and (k := sum(share.k for share in texts)) / n > settings.same_text:
        yield "texts", k / n, f"{k / n:.0%} of completions ({k} of {n}) are one text of their step, whatever the prompt"
    before, after = series.ends("entropy")
    if before and after:
        first, last = sum(before) / len(before), sum(after) / len(after)
        if first > 0 and last >= 0 and below(last / first, settings.entropy):
            yield "entropy", last / first, f"entropy is {last / first:.2g} times that of the first window ({first:.3g} to {last:.3g})"


def _examples(series: Observed) -> list[str]:
    """Latest texts of the highest reward (untrusted, escape before showing)."""
    held = series.completions.examples if series.completions else {}
    return list(held[max(held)]) if held else []
