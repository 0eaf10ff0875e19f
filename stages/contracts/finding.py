"""`analysis/findings.json`: every computed number that a page may show, and the verdicts that rest on them.

Finding ids are `<subject>/<metric>/<statistic>`. A subject is a run (`shaped-s1`), a condition (`shaped`), a contrast
(`shaped-vs-zero`), `untrained`, or `experiment`. The metric may hold dots, never slashes.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from stages.contracts.artifact import Artifact, Frozen, later


class Source(Frozen):
    """A file a number was computed from."""

    path: str
    sha256: str
    attempt: str | None = None


class SeedValue(Frozen):
    """One run's contribution."""

    run: str
    seed: int
    value: float | None
    included: bool
    why: str = ""
    """Why it is left out, or why the value is null."""


class Finding(Frozen):
    """One number. `value` is null exactly when `reason` says why there is none."""

    id: str
    says: str
    """What the number is, in words, such as `Mean reward over the last 6 of 60 steps`."""
    subject: str
    metric: str
    statistic: str
    """initial, final, change, count, share, difference ..."""
    unit: str
    value: float | None
    reason: str = ""
    low: float | None = None
    high: float | None = None
    """Interval at `level`; null when n is too small or none is defined."""
    level: float | None = None
    method: str = ""
    """How the interval was made, such as `Welch t interval over seeds`, or how the value was computed."""
    n: int | None = None
    """Seeds (or completions, for shares of completions; `method` says which)."""
    k: int | None = None
    """Numerator of a share."""
    window: str = ""
    """Steps covered, such as `steps 55-60`."""
    seeds: tuple[SeedValue, ...] = ()
    sources: tuple[Source, ...] = ()
    equal_seeds: bool = later(False)
    """The seeds that count do not differ, so their spread gives no interval: it is that of their completions, or there is none."""
    detectable: float | None = later(None)
    """Of changes and differences: the smallest true one that these data would have shown (80% power), same unit."""
    with_all: float | None = None
    """The same number with excluded runs counted in; null when nothing was excluded."""


class Verdict(Frozen):
    """What the data say of one claim."""

    claim: str
    verdict: Literal["supported", "refuted", "inconclusive", "void", "open"]
    """open: runs go on, so no verdict is given yet."""
    why: str
    """One plain sentence with the numbers in it."""
    finding: str | None
    """Id of the finding that decides; null when void for lack of data."""
    direction: Literal["above", "below"]
    margin: float
    detectable: float | None = None
    """Smallest difference this many seeds could have shown (80% power), same unit; for inconclusive verdicts."""
    seeds_needed: int | None = None
    """Seeds a condition to decide at the observed spread; for inconclusive verdicts."""
    cause: str = later("")
    """Of a void claim that lacks seeds: which conditions lack how many, without the reasons of each run."""


class RunScore(Frozen):
    """One run against an expectation."""

    run: str
    state: Literal["met", "missed", "due", "not_reached"]
    """due: the run goes on and has not come to the place. not_reached: it ended before the place, or measured nothing there."""
    finding: str
    """Id of the finding with the value."""
    window: str
    why: str
    """A few words, such as `0.31 is above 0.2`."""
    due: int | None = later(None)
    """The step at which it will be scored; null where it has been, or cannot be."""


class Expected(Frozen):
    """An expectation scored over one condition."""

    expectation: str
    condition: str
    metric: str
    place: str
    """`50%` or `step 100`."""
    direction: Literal["above", "below", "between"]
    bound: float
    finding: str
    """Id of the finding that counts the runs that met it."""
    runs: tuple[RunScore, ...]
    upper: float | None = later(None)
    """The upper bound, of an expectation with two; then `bound` is the lower one."""

    @property
    def state(self) -> str:
        """`missed` when any run that got there missed it, else `due` when any is still to come there, else `met` when any met it, else
        `not_reached`."""
        states = {run.state for run in self.runs}
        return next((state for state in ("missed", "due", "met") if state in states), "not_reached")


class Ruled(Frozen):
    """What a stop rule did in one run, evaluated again on its recorded history."""

    run: str
    condition: str
    rule: str
    says: str
    """The rule in words: its condition and its time."""
    state: Literal["quiet", "held_back", "stopped", "would_have_stopped", "unknown"]
    """quiet: it never held. held_back: a green light kept the run going each time. would_have_stopped: the run was trained without
    the rule or went on all the same. unknown: what it asks for was never measured."""
    why: str = ""
    first: str | None = None
    """Id of the finding that holds the first step at which it held."""
    value: str | None = None
    """Id of the finding that holds what was measured there."""
    held: str | None = None
    """Id of the finding that counts the steps at which a green light held it back."""
    lights: tuple[str, ...] = ()
    """Those lights, in words."""
    stop: str | None = None
    """Id of the finding that holds the step at which it stopped the run, or would have."""


class Findings(Artifact):
    SCHEMA: ClassVar[str] = "octavo.findings/1"

    card_id: str
    experiment: str
    claims_tested: int
    findings: tuple[Finding, ...]
    verdicts: tuple[Verdict, ...]
    expectations: tuple[Expected, ...] = later(())
    rules: tuple[Ruled, ...] = later(())
