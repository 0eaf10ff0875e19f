"""Questions to a page: in the spec and on the page's card. A closed set of computed sections answers them, or any metric."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from stages.contracts.artifact import Frozen

Section = Literal["signal", "reward", "loss", "anomalies", "completion", "claims", "attempts"]
"""signal: groups without a reward signal, and collapse. reward: each condition by its own reward. loss: the logged loss, and why it decides
nothing. anomalies: what every detector saw. completion: steps done by each run. claims: the verdicts. attempts: how attempts ended."""

Asked = Literal["anomalies", "completion", "signal"]
"""Sections whose answers need findings that nothing else on a page needs."""


class ShownMetric(Frozen):
    """A metric's movement in each condition."""

    metric: str = Field(min_length=1, max_length=200, description="A history metric such as `entropy`, or `evaluation.<score>.pass_share`.")


Show = Annotated[
    Annotated[Section, Tag("(section)")] | Annotated[ShownMetric, Tag("(metric)")],
    Discriminator(lambda value: "(metric)" if isinstance(value, dict | ShownMetric) else "(section)"),
]


class Question(Frozen):
    """A question with what is computed to answer it."""

    ask: str = Field(min_length=1, max_length=1000, description="The question, as the page shows it.")
    show: Show = Field(
        description="What answers it: `signal`, `reward`, `loss`, `anomalies`, `completion`, `claims`, `attempts`, or {metric: name}."
    )
