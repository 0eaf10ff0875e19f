"""The runs of a condition with their values of one estimand."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from stages.analyse.evidence import Evidence, Measured, RunEvidence
from stages.contracts.finding import SeedValue

_GATE = re.compile(r"gate ([\w.-]+): ")
"""How screen begins the reason that a gate gives."""


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
    def gates(self) -> set[str]:
        """Health gates that alone keep a run out whose value is known."""
        return {gate for run, m in self._pairs() if m.value is not None and (gate := _only_gate(run)) is not None}

    def values_without(self, gate: str) -> list[float]:
        """Values of the runs that would count without this gate."""
        return [m.value for run, m in self._pairs() if m.value is not None and (run.included or _only_gate(run) == gate)]

    @property
    def pooled(self) -> tuple[int, int] | None:
        """Completions that passed, of all, over the runs that count; None when their values are no shares of completions."""
        used = [m for run, m in self._pairs() if m.value is not None and (run.included or self.everyone)]
        known = [(m.k, m.n) for m in used if m.k is not None and m.n]
        return (sum(k for k, _ in known), sum(n for _, n in known)) if known and len(known) == len(used) else None

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


def _only_gate(run: RunEvidence) -> str | None:
    """The health gate that is the only reason why a run does not count."""
    reasons = run.health.reasons if run.health else ()
    named = {match[1] if (match := _GATE.match(reason)) else None for reason in reasons}
    return named.pop() if len(named) == 1 else None


def group(evidence: Evidence, condition: str, name: str, statistic: str, *, everyone: bool = False) -> Group:
    """A condition's runs with their values."""
    runs = tuple(evidence.of(condition))
    return Group(condition, runs, tuple(evidence.value(run, name, statistic) for run in runs), everyone)
