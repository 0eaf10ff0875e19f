"""History, completions and evaluation tables: column names, metrics with their units (history.csv), states of a cell.

The tables are Parquet files. `history.parquet` is long: one row a (step, metric, attempt). Four states of a cell stay apart:
`value`, `nonfinite` (logged as NaN, value null, or as Infinity, value inf), `null` (logged as "does not apply"; value null), and absent (no
row).
Parquet metadata holds `octavo.schema`, `octavo.card_id`, `octavo.attempt` (the attempt that wrote the file), and `octavo.infinities` where
the value of an Infinity is kept.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

HISTORY_SCHEMA = "octavo.history/1"
HISTORY_COLUMNS = ("attempt", "step", "tokens", "seconds", "metric", "value", "state")
"""attempt text, step int, tokens int (cumulative, null if unknown), seconds float since the attempt began, value float."""

COMPLETIONS_SCHEMA = "octavo.completions/1"
COMPLETIONS_COLUMNS = ("attempt", "step", "prompt_id", "group", "text", "reward", "tokens", "truncated")
"""step is the training step the text was made for (1-based; 0 in preflight), group counts within a step. Then per gate: gate_columns."""

PROMPT_COLUMN, ANSWER_COLUMN = "prompt", "answer"
"""Of completions and evaluation. prompt: what the model read (of a chat each message under its role); files from before it was kept lack
it. answer, where a reward says how answers are marked: the answer inside `text`; null when it has none."""

EVALUATION_SCHEMA = "octavo.evaluation/1"
EVALUATION_COLUMNS = ("prompt_id", "sample", "text", "tokens", "truncated")
"""Then per score: gate_columns. `attempt` of the adapter is in the metadata; null reward does not exist here."""

State = Literal["value", "nonfinite", "null"]
GRADIENT_METRICS = ("grad_norm", "loss")
"""Metrics whose NaN or Inf means that the gradient of the step was not finite."""
LARGEST = 1e150
"""A number beyond it, logged or imported, counts as not finite: its square would not be, and every spread and interval is made of squares.
float32 ends at 3e38."""
SKIPPED = "skipped"
"""1 marks a step that was skipped because its gradient was not finite."""
INFINITIES = "octavo.infinities"
"""Metadata of a history in which an Infinity is not written as a NaN is; older ones wrote null for both."""
STATUSES = ("pass", "fail", "unknown", "not_reached")


def gate_columns(gate: str) -> tuple[str, str, str]:
    """Columns a gate adds to completions and evaluation: status (one of STATUSES), score (null when unknown), reason."""
    return f"gate.{gate}.status", f"gate.{gate}.score", f"gate.{gate}.reason"


Ends = tuple[float | None, float | None]
"""Lowest and highest; None where it is open."""


def range_words(ends: Ends) -> str:
    """`0.8 to 1.2`, `at most 0.3` or `at least 0`."""
    low, high = ends
    if low is not None and high is not None:
        return f"{low:g} to {high:g}"
    return f"at most {high:g}" if low is None else f"at least {low:g}"


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
    bounds: Ends = (None, None)
    """The least and the most that it can be by definition; of `reward` a condition's own reward says it."""
    healthy: Ends = (None, None)
    """The range in which a step's value is healthy, where a source says one."""
    source: str = ""
    """Of the healthy range."""

    @property
    def share(self) -> bool:
        """Whether values lie in 0..1 by definition."""
        return self.unit == "share"


_GROUPED, _PPO, _SFT = ("grpo", "rloo"), ("ppo",), ("sft",)
SAMPLED = (*_GROUPED, *_PPO)
"""Those that learn from completions that the policy samples."""
_ALGORITHMS = {"all": (), "sampled": SAMPLED, "grouped": _GROUPED, "ppo": _PPO, "sft": _SFT}


def _metrics() -> dict[str, Metric]:
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as table:
        return {
            row["metric"]: Metric(
                row["metric"].removeprefix("gate.{}.").removeprefix("penalty.{}."),
                row["unit"],
                _ALGORITHMS[row["algorithms"]],
                row["title"],
                row["meaning"],
                tuple(row["trl"].split()),
                _ends(row["least"], row["most"]),
                _ends(row["low"], row["high"]),
                row["source"],
            )
            for row in csv.DictReader(table)
        }


def _ends(low: str, high: str) -> Ends:
    return (float(low) if low else None, float(high) if high else None)


_ALL = _metrics()
METRICS = {name: metric for name, metric in _ALL.items() if "{}" not in name}
GATE_METRICS = {metric.name: metric for name, metric in _ALL.items() if name.startswith("gate.")}
"""Measures of a gate; the title has its name in place of `{}`."""
PENALTY_METRICS = {metric.name: metric for name, metric in _ALL.items() if name.startswith("penalty.")}
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


EVALUATION_MEASURES = ("pass_share", "score", "unknown_share")
_NAME = re.compile(r"(?P<where>gate|evaluation|penalty)\.(?P<name>[a-z0-9_]+(?:-[a-z0-9_]+)*)\.(?P<measure>[a-z_]+)")
_MEASURES = {"gate": GATE_METRICS, "penalty": PENALTY_METRICS, "evaluation": {name: GATE_METRICS[name] for name in EVALUATION_MEASURES}}
_PLACES = {"gate": "gate {}, training", "penalty": "penalty {}, training", "evaluation": "gate {}, shared evaluation"}


def metric(name: str) -> Metric | None:
    """What a metric name means: history metrics, `gate.<gate>.<measure>`, `penalty.<penalty>.share` and
    `evaluation.<gate>.<measure>`; None if unknown."""
    parts = _NAME.fullmatch(name)
    if name in METRICS or parts is None:
        return METRICS.get(name)
    meaning = _MEASURES[parts["where"]].get(parts["measure"])
    if meaning is None:
        return None
    return replace(meaning, name=name, title=metric_title(name), says=f"{meaning.says} ({_PLACES[parts['where']].format(parts['name'])})")


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
