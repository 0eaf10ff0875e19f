"""What can answer a question on a page: a closed set of computed sections, and any metric."""

from __future__ import annotations

from typing import Literal

from stages.contracts.artifact import Frozen

Section = Literal["signal", "reward", "loss", "anomalies", "completion", "claims", "attempts"]
"""signal: groups without a reward signal, and collapse. reward: each condition by its own reward. loss: the logged loss, and why it decides
nothing. anomalies: what every detector saw. completion: steps done by each run. claims: the verdicts. attempts: how attempts ended."""

Asked = Literal["anomalies", "completion", "signal"]
"""Sections whose answers need findings that nothing else on a page needs."""


class QuestionWords(Frozen):
    """A question on a page. Exactly one of `show` and `metric` says what answers it."""

    ask: str
    show: Section | None = None
    metric: str | None = None
