"""The runs of a condition with their values of one estimand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stages.analyse.counted import Count, over_seeds
from stages.analyse.evidence import Evidence, Measured, RunEvidence
from stages.contracts.finding import SeedValue


@dataclass(frozen=True)
class Group:
    condition: str
    runs: tuple[RunEvidence, ...]
    measured: tuple[Measured, ...]
    everyone: bool
    """Excluded runs count too."""
    change: bool
    evaluated: bool
    """Values are of the shared evaluation; a change begins at the untrained model, which is the same for all seeds."""

    @property
    def values(self) -> list[float]:
        """Values of the runs that count."""
        return [m.value for m in self._used if m.value is not None]

    @property
    def scale(self) -> float:
        """Size of the largest number that these values were computed from."""
        return max((m.scale for m in self._used), default=0.0)

    @property
    def all_values(self) -> list[float]:
        return [m.value for m in self.measured if m.value is not None]

    @property
    def gates(self) -> set[str]:
        """Health gates that alone keep a run out whose value is known."""
        return {gate for run, m in self._pairs() if m.value is not None and (gate := only_gate(run)) is not None}

    def values_without(self, gate: str) -> list[float]:
        """Values of the runs that would count without this gate."""
        return [m.value for run, m in self._pairs() if m.value is not None and (run.included or only_gate(run) == gate)]

    @property
    def count(self) -> Count | None:
        """What the values of the runs that count are shares of (of changes: their later parts); None where that is not known of all."""
        return self._over([m.count for m in self._used])

    @property
    def start(self) -> Count | None:
        """The same of the earlier parts of changes."""
        begun = [m.start for m in self._used]
        return begun[0] if begun and self.evaluated else self._over(begun)

    @property
    def _used(self) -> list[Measured]:
        return [m for run, m in self._pairs() if m.value is not None and (run.included or self.everyone)]

    def _over(self, counts: list[Count | None]) -> Count | None:
        known = [count for count in counts if count is not None]
        return over_seeds(known, once=self.evaluated) if known and len(known) == len(counts) else None

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
                why=_why(run, m),
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


def _why(run: RunEvidence, measured: Measured) -> str:
    """Why a run is left out and, of a value that counts only with left-out runs, over what part of the window it is."""
    return measured.part or measured.why if run.included else "; ".join(part for part in (run.why_not, measured.part) if part)


def only_gate(run: RunEvidence) -> str | None:
    """The health gate that is the only reason why a run does not count."""
    return next((answer.gate for answer in run.health.gates if answer.alone), None) if run.health else None


def group(evidence: Evidence, condition: str, name: str, statistic: str, *, everyone: bool = False) -> Group:
    """A condition's runs with their values."""
    runs = tuple(evidence.of(condition))
    return Group(
        condition=condition,
        runs=runs,
        measured=tuple(evidence.value(run, name, statistic) for run in runs),
        everyone=everyone,
        change=statistic == "change",
        evaluated=name.startswith("evaluation."),
    )
