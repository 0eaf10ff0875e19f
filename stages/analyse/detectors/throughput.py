"""Throughput: seconds a step, the part that scoring takes, tokens a second, steps that grow slow, and rewards that no verifier knew.

Always reports what it measured. Times of generation and update are said where they were logged apart (`generation_seconds`,
`update_seconds`); what remains of a step is called the rest, not guessed. Wall times depend on the machine and its neighbours: what they
say is said as information, and only rewards that nobody knew are a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from pydantic import Field

from stages.contracts.amounts import above, at_end, counted
from stages.contracts.artifact import Frozen
from stages.contracts.health import Detection, Signal
from stages.contracts.observed import Observed, Rows

NAME = "throughput"
PARTS = {"generation_seconds": "generation", "reward_seconds": "scoring", "update_seconds": "the update"}


class Settings(Frozen):
    slower: float = Field(
        3.0,
        gt=1,
        description="A median step of the last window more than so many times that of the first is said.",
        json_schema_extra={"unit": "ratio", "source": "octavo's own choice; longer completions alone make steps slower"},
    )
    scoring: float = Field(
        0.5,
        gt=0,
        lt=1,
        description="A larger share of the time of all steps that goes into scoring is said.",
        json_schema_extra={"unit": "share of time", "source": "octavo's own choice"},
    )
    unknown: float = Field(
        0.05,
        ge=0,
        lt=1,
        description="A larger mean share of completions without a known reward is a warning.",
        json_schema_extra={"unit": "share of completions", "source": "octavo's own choice"},
    )


def detect(settings: Settings, series: Observed) -> Detection:
    """One signal about time where it was logged, and one about unknown rewards where there are too many."""
    times, unknown = series.rows("step_seconds"), series.rows("unknown_share")
    timed = times.n > 0
    if not timed and not unknown.n:
        return Detection(detector=NAME, state="not_observable", reason=_why_none(series))
    if unknown.n and (reason := series.no_share("unknown_share")):
        return Detection(detector=NAME, state="not_applicable", reason=reason)
    signals = [*(_time(settings, series, times) if timed else ()), *_unknown(settings, unknown)]
    return Detection(detector=NAME, state="looked", reason="" if timed else series.why_none("step_seconds"), signals=tuple(signals))


def _why_none(series: Observed) -> str:
    logged = [series.why_none(metric) for metric in ("step_seconds", "unknown_share") if series.logs(metric)]
    return "; ".join(logged) or "neither the time of steps nor the share of unknown rewards was logged"


def _time(settings: Settings, series: Observed, times: Rows) -> Iterator[Signal]:
    every = times.values.tolist()
    typical, whole = median(every), sum(every)
    before, after = series.ends("step_seconds")
    ratio = median(after) / median(before) if before and after and median(before) > 0 else None
    shares = {name: _part(series.rows(name), times) for name in PARTS}
    says = f"a step takes {typical:.3g} s (median of {counted(len(every), 'step')}, {_lasting(whole)} in all)"
    says += "".join(f", {share:.0%} of it in {PARTS[name]}" for name, share in shares.items() if share is not None)
    rate = _rate(series, times)
    says += f"; {rate:.{0 if rate >= 100 else 1}f} generated tokens a second" if rate is not None else ""
    window = series.window()
    slow = ratio is not None and above(ratio, settings.slower)
    costly = above(shares["reward_seconds"] or 0.0, settings.scoring)
    says += f"; more than {settings.scoring:.0%} of the time goes into scoring" if costly else ""
    says += f"; {at_end(window)} {'takes' if window == 1 else 'take'} {ratio:.2g} times as long as the first" if slow else ""
    known = {"last_to_first": ratio, "scoring_share": shares["reward_seconds"], "tokens_per_second": rate}
    yield Signal(
        detector=NAME,
        metric="step_seconds",
        severity="info",
        says=says,
        last=int(times.steps[-1]),
        value=typical,
        evidence={name: value for name, value in known.items() if value is not None} | {"steps": len(every)},
    )


def _lasting(seconds: float) -> str:
    """`120 s`, `42 min`, `1.7 h`."""
    return f"{seconds:.3g} s" if seconds < 600 else f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _part(part: Rows, times: Rows) -> float | None:
    """Share of the steps' time, over the steps that logged both; None when there are none."""
    seconds = times.at(part.steps, float("nan"))
    both = seconds == seconds  # not NaN
    whole = sum(seconds[both].tolist())
    return sum(part.values[both].tolist()) / whole if whole > 0 else None


def _rate(series: Observed, times: Rows) -> float | None:
    """Generated tokens a second: mean length times completions of a step, over the time of those steps."""
    made = {share.step: share.n for share in series.completions.truncated} if series.completions else {}
    if not made:
        return None
    length = series.rows("completion_tokens")
    inside = length.kept((length.steps >= min(made)) & (length.steps <= max(made)))
    rows = zip(*inside, times.at(inside.steps, float("nan")), strict=True)
    both = [(tokens * made[step], seconds) for step, tokens, seconds in rows if step in made and seconds == seconds]
    whole = sum(seconds for _, seconds in both)
    return float(sum(tokens for tokens, _ in both) / whole) if whole > 0 else None


def _unknown(settings: Settings, unknown: Rows) -> Iterator[Signal]:
    n = unknown.n
    mean = sum(unknown.values.tolist()) / n if n else 0.0
    if above(mean, settings.unknown):
        yield Signal(
            detector=NAME,
            metric="unknown_share",
            severity="warning",
            says=f"no reward is known for {mean:.1%} of completions on average: no gate knew their score",
            onset=int(unknown.steps[unknown.values > 0][0]),
            last=int(unknown.steps[-1]),
            value=mean,
            evidence={"steps": n},
        )
