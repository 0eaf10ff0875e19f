"""What detectors see of a run beyond its own series: its resumes, its adapter, the null controls and the other seeds beside it.

Series itself is in the code of training stages (stop rules, imports), so what only analysis asks for has a module of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from stages.contracts.series import NonFinite, Series, Share, classify


class Resume(NamedTuple):
    """A later attempt's first step, and the last step before it that counts (0: none)."""

    first: int
    before: int
    again: int = 0
    """Steps that the earlier attempt had made too; the later attempt's count."""


@dataclass(frozen=True)
class Observed(Series):
    """A run with what lies around it."""

    resumes: tuple[Resume, ...] = ()
    repeated: int = 0
    """Rows of one attempt that repeat a metric and a step; the last of them counts."""
    adapter: Literal["unknown", "changed", "zero"] = "unknown"
    """Of the adapter at the end: zero when every number of its second factor (lora_B) is 0, so that it adds nothing to the model."""
    same_text: tuple[Share, ...] = ()
    """Per step with two prompts or more: completions with the step's most common text (k) of all (n)."""
    null_finals: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """By metric the means over the final window of the null controls' runs; empty for a null control itself."""
    twin: str | None = None
    """An earlier run of the same condition with the same sampled series."""
    siblings: int = 0
    """Other runs of the same condition."""
    classes: Mapping[str, NonFinite] | None = None
    """How each metric's NaN and Inf are spread, where the reader has counted them already."""

    def spread_of_nonfinite(self, metric: str) -> NonFinite:
        """Class of a metric's NaN and Inf."""
        if self.classes is not None and metric in self.classes:
            return self.classes[metric]
        cells = self.cells(metric)
        return classify((step for step, _, _ in cells), (step for step, _, state in cells if state == "nonfinite"))

    def window(self, share: float = 0.1) -> int:
        """Steps of the first and last window: this share of the target, at least one."""
        return max(1, min(self.target_steps, int(self.target_steps * share + 0.5)))

    def ends(self, metric: str, share: float = 0.1) -> tuple[list[float], list[float]]:
        """Finite values in the first and in the last window of the target steps; a run that stopped early has none in the last."""
        length, rows = self.window(share), self.values(metric)
        last = [value for step, value in rows if step > self.target_steps - length]
        return [value for step, value in rows if step <= length], last
