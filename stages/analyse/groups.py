"""The runs of a condition with their values of one estimand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stages.analyse.evidence import Evidence, Measured, RunEvidence
from stages.contracts.finding import SeedValue


@dataclass(frozen=True)
class Group:
    condition: str
    runs: tuple[RunEvidence, ...]
    measured: tuple[Measured, ...]
    everyone: bool
    """Excluded runs count too."""

    @property
    def values(self) -> list[float]:
        """Values of the runs that count."""
        return [m.value for run, m in self._pairs() if m.value is not None and (run.included or self.everyone)]

    @property
    def all_values(self) -> list[float]:
        return [m.value for m in self.measured if m.value is not None]

    @property
    def any_excluded(self) -> bool:
        return any(m.value is not None and not run.included for run, m in self._pairs())

    @property
    def seeds(self) -> tuple[SeedValue, ...]:
        return tuple(
            SeedValue(
                run=run.ref.name,
                seed=run.ref.seed,
                value=m.value,
                included=(run.included or self.everyone) and m.value is not None,
                why=run.why_not if not run.included else m.why,
            )
            for run, m in self._pairs()
        )

    @property
    def nothing(self) -> str:
        """Why the group has no value: each run's reason once."""
        reasons = [f"{seed.run}: {seed.why}" for seed in self.seeds if seed.why]
        return f"no run of {self.condition} counts ({'; '.join(reasons)})" if reasons else f"{self.condition} has no runs"

    def _pairs(self) -> Iterable[tuple[RunEvidence, Measured]]:
        return zip(self.runs, self.measured, strict=True)


def group(evidence: Evidence, condition: str, name: str, statistic: str, *, everyone: bool = False) -> Group:
    """A condition's runs with their values."""
    runs = tuple(evidence.of(condition))
    return Group(condition, runs, tuple(evidence.value(run, name, statistic) for run in runs), everyone)
