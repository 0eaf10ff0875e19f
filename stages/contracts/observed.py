"""What detectors see of a run beyond its own series: its resumes, its adapter, the null controls and the other seeds beside it.

Series itself is in the code of training stages (stop rules, imports), so what only analysis asks for has a module of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from stages.contracts.health import Detection
from stages.contracts.series import NonFinite, Series, Share, classify, stride
from stages.contracts.window_length import window_length

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


SILENT = "zero_signal_share"


class Resume(NamedTuple):
    """A later attempt's first step, and the last step before it that counts (0: none)."""

    first: int
    before: int
    again: int = 0
    """Steps that the earlier attempt had made too; the later attempt's count."""


class Rows(NamedTuple):
    """The finite values of a metric that may enter statistics, as arrays by rising steps. The compiler imports detectors for their
    settings, and numpy is not to be paid for then: it is imported where it is used."""

    steps: NDArray[np.int64]
    values: NDArray[np.float64]

    @property
    def n(self) -> int:
        return len(self.steps)

    def at(self, steps: NDArray[np.int64], missing: float) -> NDArray[np.float64]:
        """The values at these steps, `missing` where there is none."""
        import numpy as np

        if len(steps) == len(self.steps) and (steps is self.steps or (steps == self.steps).all()):
            return self.values
        if not len(self.steps):
            return np.full(len(steps), missing)
        places = np.minimum(np.searchsorted(self.steps, steps), len(self.steps) - 1)
        return np.where(self.steps[places] == steps, self.values[places], missing)

    def kept(self, mask: NDArray[np.bool_]) -> Rows:
        """The rows for which the mask is true."""
        return Rows(self.steps[mask], self.values[mask])

    def pairs(self) -> list[tuple[int, float]]:
        """(step, value)."""
        return list(zip(self.steps.tolist(), self.values.tolist(), strict=True))


def usual_distance(steps: NDArray[np.int64]) -> int:
    """The most common distance between steps that rise (`stride` of an array)."""
    gaps = steps[1:] - steps[:-1]
    return int(gaps[0]) if len(gaps) and bool((gaps == gaps[0]).all()) else stride(steps.tolist())


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
    elsewhere: str | None = None
    """A run of another condition with the same sampled series."""
    twin_counts: bool = True
    """Whether that run counts; of two that are both left out, each is left out for its own reasons."""
    siblings: int = 0
    """Other runs of the same condition."""
    imported: bool = False
    """The run was trained elsewhere: what was not mapped or not exported is absent too."""

    @cached_property
    def _rows(self) -> dict[str, Rows]:
        return {}

    def nulls(self, metric: str) -> frozenset[int]:
        """Steps at which the metric was logged as "does not apply", in the valid range."""
        return frozenset(step for step, _, state in self.cells(metric) if state == "null" and self.valid(step))

    @cached_property
    def unscored(self) -> frozenset[int]:
        """Steps of which the log says that no completion was scored: its reward is null, or its spread where it has no reward."""
        return self.nulls("reward" if self.logs("reward") else "reward_std")

    def values(self, metric: str) -> list[tuple[int, float]]:
        """As Series has it; but where no completion was scored no group has a signal, whatever was logged as their share (TRL logs 0.0)."""
        found = super().values(metric)
        unscored = self.unscored if metric == SILENT else ()
        return [(step, max(value, 1.0) if step in unscored else value) for step, value in found] if unscored else found

    def rows(self, metric: str) -> Rows:
        """`values` as arrays."""
        import numpy as np

        if metric not in self._rows:
            found = self.values(metric)
            self._rows[metric] = Rows(
                np.array([step for step, _ in found], dtype=np.int64), np.array([value for _, value in found], dtype=np.float64)
            )
        return self._rows[metric]

    def lacks(self, detector: str, metric: str, meaning: str) -> Detection:
        """What a detector says of a run without its metric. octavo logs a metric wherever it exists, so its absence means something; an
        import leaves out what the source did not log or the spec does not map, so there it means nothing."""
        if self.logs(metric):
            return Detection(detector=detector, state="not_observable", reason=self.why_none(metric))
        if self.imported:
            reason = f"{metric} was not imported: the source did not log it, or the spec maps no name to it"
            return Detection(detector=detector, state="not_observable", reason=reason)
        return Detection(detector=detector, state="not_applicable", reason=f"{metric} was not logged: {meaning}")

    def why_none(self, metric: str) -> str:
        """Why `rows` of a metric holds nothing: not logged, no number, and no step that counts are three different things."""
        if not self.logs(metric):
            return f"{metric} was not logged"
        if not self.numbers(metric):
            return f"no logged value of {metric} is a number: each is null, NaN or Inf"
        return f"{metric} has no value at a step that counts: the gradient is not finite wherever it was logged"

    def no_share(self, metric: str) -> str:
        """Why a metric that is a share cannot be taken for one; empty when all of its values lie from 0 to 1."""
        rows = self.rows(metric)
        odd = rows.kept((rows.values < -1e-6) | (rows.values > 1 + 1e-6)).pairs()
        return f"{metric} is {odd[0][1]:.4g} at step {odd[0][0]}, and a share lies from 0 to 1: look at its unit" if odd else ""

    def shares(self, counted: Sequence[Share]) -> list[Share]:
        return super().shares(counted) if self.bad_steps or self.gradient.since is not None else list(counted)

    def logs(self, metric: str) -> bool:
        """Whether the metric has a cell, be it null or not finite."""
        return bool(self.cells(metric))

    def numbers(self, metric: str) -> bool:
        """Whether a cell of the metric holds a number, in the valid range or not."""
        return any(value is not None for _, value, _ in self.cells(metric))

    def varies(self, metric: str) -> bool:
        """Whether two cells of the metric differ in value or state."""
        return len({cell[1:] for cell in self.cells(metric)}) > 1

    def spread_of_nonfinite(self, metric: str) -> NonFinite:
        """Class of a metric's NaN and Inf."""
        cells = self.cells(metric)
        return classify((step for step, _, _ in cells), (step for step, _, state in cells if state == "nonfinite"))

    def window(self, share: float = 0.1) -> int:
        """Steps of the first and last window."""
        return window_length(self.target_steps, share)

    def ends(self, metric: str, share: float = 0.1) -> tuple[list[float], list[float]]:
        """Finite values in the first and in the last window of the target steps; a run that stopped early has none in the last, and what
        was logged beyond the target is in neither."""
        length, rows = self.window(share), self.rows(metric)
        last: Any = rows.values[(rows.steps > self.target_steps - length) & (rows.steps <= self.target_steps)]
        return rows.values[(rows.steps >= 1) & (rows.steps <= length)].tolist(), last.tolist()
