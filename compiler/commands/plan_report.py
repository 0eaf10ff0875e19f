"""What `octavo plan` reports: as JSON, as text for a terminal, and as the comment of a pull request.

Its strings come from specs, cards and file names. In a comment nothing of them means anything to Markdown, HTML or GitHub.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from compiler.build.inputs import MADE
from compiler.problems import listed, sentence
from stages.contracts.artifact import Artifact, Frozen, later
from stages.contracts.layout import MODELS

NAMES, REASONS, ROWS = 4, 6, 60
"""Names in one line, reasons of one stage, and rows of the table that are shown."""
MARKER = "<!-- octavo-plan -->"
"""First line of a comment: by it a workflow finds its own comment and edits it instead of adding another one."""
LIMIT, _SPARE = 60_000, 400
"""Characters of a comment; GitHub takes 65,536."""
_STATES = {
    "runs": "runs",
    "restored": "put back by DVC, which remembers it from an earlier run",
    "may_run": "may run, if a stage before it writes other bytes",
}
_PAGE = {
    "new": "new",
    "changes": "the published page is made again",
    "may_change": "the published page may be made again",
    "stays": "stays as it is",
}
_COLUMNS = ("runs made again", "new", "may be made", "put back", "stay", "removed", "cost", "claims at risk", "page")
_PLAIN = re.compile(r"[^A-Za-z0-9 ,;/()-]")

PageState = Literal["new", "changes", "may_change", "stays"]
ReasonKind = Literal["new", "card", "code", "data", "file", "retry", "command", "missing", "output", "upstream"]


class Reason(Frozen):
    """Why a stage is not up to date, in one line such as `train.learning_rate 0.001 -> 0.0005`."""

    kind: ReasonKind
    says: str
    path: str | None = None
    """File concerned; of kind upstream: the stage that may change what this one reads."""
    key: str | None = None
    """Key of the card."""
    old: str | None = None
    new: str | None = None
    """Values as JSON, cut if long; null: the key is not there."""
    place: str | None = None
    """file:line:column in a spec."""


class StagePlan(Frozen):
    """One stage. runs: certain. may_run: only if a stage before it writes other bytes. restored: DVC puts back what it remembers."""

    pipeline: str
    stage: str
    run: str | None = None
    """Name of the run that it trains."""
    trains: bool
    """Whether it trains a model: a run, or a base model."""
    state: Literal["runs", "may_run", "restored", "stays"]
    reasons: tuple[Reason, ...] = ()

    @property
    def imports(self) -> bool:
        """Whether it imports a run."""
        return self.stage.startswith("import-")

    @property
    def makes(self) -> str | None:
        """Name of the run whose data it makes, by training or by an import."""
        return self.stage.removeprefix("import-") if self.imports else self.run


class Cost(Frozen):
    """Device hours of the runs that train. attempts: from this experiment's own finished attempts; resources: as the spec declares."""

    unit: Literal["GPU-hours", "CPU-hours"]
    runs: int
    basis: Literal["attempts", "resources", "no history"]
    attempts: int = 0
    """Finished attempts that the numbers come from."""
    median: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def hours(self) -> tuple[float, float, float]:
        """Median and range; 0 for what is not known."""
        return self.median or 0.0, self.low or 0.0, self.high or 0.0


class ClaimAtRisk(Frozen):
    """A claim whose verdict rests on what changes. Its verdict is null if this machine has not concluded it."""

    claim: str
    verdict: Literal["supported", "refuted", "inconclusive", "void"] | None
    why: tuple[str, ...]


class ExperimentPlan(Frozen):
    name: str
    spec: str
    stages: tuple[StagePlan, ...]
    new_runs: tuple[str, ...] = ()
    removed_runs: tuple[str, ...] = ()
    cost: Cost
    claims: tuple[ClaimAtRisk, ...] = ()
    page: PageState


class Forecast(Frozen):
    """When the runs that train would be done on a machine. Hours are null where those of a run are not known."""

    machine: str
    runs: int
    at_once: int | None
    """Runs side by side; null: the machine does not say."""
    gpus: int
    """Of one run; 0: it trains on a CPU. The most, where runs differ."""
    device_hours: float | None
    hours: float | None
    """Until the last run ends."""


class Plan(Artifact):
    """What `octavo plan --json` prints."""

    SCHEMA: ClassVar[str] = "octavo.plan/1"

    base: str | None
    """Commit that the specs are compared with; null: what lies on disk."""
    base_name: str | None = None
    experiments: tuple[ExperimentPlan, ...]
    shared: tuple[StagePlan, ...]
    """Stages of no experiment: base models, the site."""
    removed_experiments: tuple[str, ...] = ()
    forecast: Forecast | None = later(None)
    """With --on."""
    notes: tuple[str, ...] = ()
    """What could not be compared and why, in plain sentences."""

    @property
    def stages(self) -> tuple[StagePlan, ...]:
        return (*(stage for experiment in self.experiments for stage in experiment.stages), *self.shared)

    @property
    def training(self) -> tuple[StagePlan, ...]:
        """Stages that certainly train."""
        return tuple(stage for stage in self.stages if stage.trains and stage.state == "runs")


def text(plan: Plan) -> str:
    """All of it, for a terminal."""
    lines = [_headline(plan), *([_forecast(plan.forecast)] if plan.forecast else []), *(f"note: {note}" for note in plan.notes)]
    for experiment in plan.experiments:
        lines += ["", f"{experiment.name}  ({experiment.spec})", *(f"  {line}" for line in _counts(experiment)), *_details(experiment)]
        lines.append(f"  page: {_PAGE[experiment.page]}")
    if any(stage.state != "stays" for stage in plan.shared):
        lines += ["", "shared", *_stages(plan.shared)]
    lines += [f"\n{name}: no longer live; nothing runs it and nothing deletes it" for name in plan.removed_experiments]
    return "\n".join(lines) + "\n"


def markdown(plan: Plan) -> str:
    """A comment of at most LIMIT characters. What does not fit is counted, not shown."""
    lines = [
        MARKER,
        f"### octavo plan: {_safe(_headline(plan))}",
        *([f"\n{_safe(_forecast(plan.forecast))}"] if plan.forecast else []),
        "",
        f"| experiment | {' | '.join(_COLUMNS)} |",
    ]
    lines.append(f"|---|{'---:|' * 6}---|---:|---|")
    for experiment in plan.experiments[:ROWS]:
        cost = _safe(_cost(experiment.cost)) if experiment.cost.runs else "none"
        cells = (*_numbers(experiment), len(experiment.removed_runs), cost, len(experiment.claims), _PAGE[experiment.page])
        lines.append(f"| <code>{_safe(experiment.name)}</code> | {' | '.join(map(str, cells))} |")
    lines += [f"\nand {len(plan.experiments) - ROWS} more experiments"] if len(plan.experiments) > ROWS else []
    lines += [f"\nNote: {_safe(note[:500])}" for note in plan.notes[:ROWS]]
    gone = "is no longer live; nothing runs it and nothing deletes it."
    lines += [f"\n<code>{_safe(name)}</code> {gone}" for name in plan.removed_experiments[:ROWS]]
    comment, hidden = "\n".join(lines) + "\n", 0
    sections = [(f"{each.name}: what runs, why, and which claims it touches", list(_details(each))) for each in plan.experiments]
    for title, details in [*sections, *([("base models and site", list(_stages(plan.shared)))] if plan.shared else [])]:
        opened, closed = f"\n<details><summary>{_safe(title)}</summary>\n\n<pre>\n", "</pre>\n\n</details>\n"
        room, shown = LIMIT - _SPARE - len(comment) - len(opened) - len(closed), ""
        for line in map(_safe, details):
            if len(shown) + len(line) + 1 > room:
                break
            shown += f"{line}\n"
        hidden += len(details) - shown.count("\n")
        comment += f"{opened}{shown}{closed}" if shown else ""
    return comment + (f"\n{hidden} more lines do not fit into a comment. All of it: <code>octavo plan</code>\n" if hidden else "")


def _safe(text: str) -> str:
    """Every character that could mean something to Markdown, HTML or GitHub, as a reference."""
    return _PLAIN.sub(lambda match: match[0] if ord(match[0]) > 127 else f"&#{ord(match[0])};", sentence(text))


def _headline(plan: Plan) -> str:
    """One line: how much trains. A commit that was named by its id is cut: 40 digits look like a key, which comments do not show."""
    against = "what is on disk"
    if plan.base and plan.base_name:
        against = plan.base[:12] if plan.base.startswith(plan.base_name) else f"{plan.base_name} ({plan.base[:12]})"
    trains, runs = len(plan.training), sum(stage.state == "runs" for stage in plan.stages)
    if not runs:
        return f"Nothing certainly runs, compared with {against}."
    train = f"{trains or 'none'} of them {'trains' if trains == 1 else 'train'}"
    return f"{_plural(runs, 'stage runs', 'stages run')}, {train}, compared with {against}."


def _forecast(forecast: Forecast) -> str:
    """One line, such as `on box: 12 runs, 2 at once, in about 4.2 h; 8.1 CPU-hours`."""
    if not forecast.runs:
        return f"on {forecast.machine}: nothing to train"
    line = f"on {forecast.machine}: {_plural(forecast.runs, 'run', 'runs')}"
    line += f", {forecast.at_once} at once" if forecast.at_once is not None else ""
    if forecast.device_hours is None:
        return f"{line}; how long a run takes is unknown: set `resources.hours`"
    line += f", in about {_hours(forecast.hours)} h" if forecast.hours is not None else ""
    return f"{line}; {_hours(forecast.device_hours)} {'GPU-hours' if forecast.gpus else 'CPU-hours'}"


def _hours(hours: float) -> str:
    return f"{hours:.0f}" if hours >= 100 else f"{hours:.1f}" if hours >= 10 else f"{hours:.2g}"


def _numbers(experiment: ExperimentPlan) -> tuple[int, int, int, int, int]:
    """How many runs are made again, are new, may be made, are put back, and stay."""
    makes = [stage for stage in experiment.stages if stage.makes]
    runs, may_run, back, stay = (sum(stage.state == state for stage in makes) for state in ("runs", "may_run", "restored", "stays"))
    new = sum(stage.state == "runs" and stage.makes in experiment.new_runs for stage in makes)
    return runs - new, new, may_run, back, stay


def _counts(experiment: ExperimentPlan) -> Iterator[str]:
    """Runs by what happens to them, and the cost."""
    again, new, may_run, back, stay = _numbers(experiment)
    if imports := sum(stage.imports for stage in experiment.stages):
        line = f"{again + new} of {_plural(imports, 'run is', 'runs are')} imported{f' ({new} new)' if new else ''}"
    else:
        line = f"{again} of {again + new + may_run + back + stay} runs train again"
        line += f", {new} new {'is' if new == 1 else 'are'} trained" if new else ""
        line += f", {may_run} may" if may_run else ""
        line += f", {_plural(back, 'is', 'are')} put back" if back else ""
    yield f"{line}, {_plural(stay, 'stays', 'stay')}"
    if experiment.removed_runs:
        yield f"no longer in the spec: {listed(experiment.removed_runs, NAMES)} (nothing runs it and nothing deletes it)"
    if experiment.cost.runs and not imports:
        yield f"cost: {_cost(experiment.cost)}"


def _cost(cost: Cost) -> str:
    """Hours with where they come from."""
    median, low, high = map(_hours, cost.hours)
    if cost.basis == "attempts":
        source = f"{_plural(cost.attempts, 'finished attempt', 'finished attempts')} of this experiment"
        return f"{median} {cost.unit} (range {low} to {high}; from {source})"
    if cost.basis == "resources":
        return f"{median} {cost.unit} (as the spec's resources declare; no history)"
    return f"{cost.unit} unknown: no history, and the spec's resources declare no hours"


def _details(experiment: ExperimentPlan) -> Iterator[str]:
    """Stages with their reasons, and claims at risk."""
    yield from _stages(experiment.stages)
    yield from ["  claims at risk:"] if experiment.claims else []
    yield from (f"    {claim.claim} ({claim.verdict or 'no verdict here'}): {'; '.join(claim.why)}" for claim in experiment.claims)


def _stages(stages: Sequence[StagePlan]) -> Iterator[str]:
    """Names and reasons of stages by state, those with equal reasons together."""
    for state, title in _STATES.items():
        groups: dict[tuple[str, ...], tuple[list[str], tuple[Reason, ...]]] = {}
        for stage in stages:
            if stage.state == state:  # what a certain stage may get from those before it says nothing new
                reasons = tuple(reason for reason in stage.reasons if reason.kind != "upstream") or stage.reasons
                groups.setdefault(tuple(reason.says for reason in reasons), ([], reasons))[0].append(_name(stage))
        yield from [f"  {title}:"] if groups else []
        for names, reasons in groups.values():
            yield f"    {listed(names, NAMES)}"
            yield from (f"      {line}" for line in _lines(reasons))
    yield f"  stays: {_plural(sum(stage.state == 'stays' for stage in stages), 'stage', 'stages')}"


def _lines(reasons: Sequence[Reason]) -> list[str]:
    """One line a reason, with its place; upstream reasons in one line."""
    upstream = [(reason.path or "").rpartition(":")[2] for reason in reasons if reason.kind == "upstream"]
    lines = [f"{reason.says}{f'   {reason.place}' if reason.place else ''}" for reason in reasons if reason.kind != "upstream"]
    more = [f"and {len(lines) - REASONS} more"] if len(lines) > REASONS else []
    return lines[:REASONS] + more + ([f"after {listed(upstream, NAMES)}"] if upstream else [])


def _name(stage: StagePlan) -> str:
    """A stage's name; for stages of one name, such as those that make base models, with what each makes."""
    model = Path(stage.pipeline).parent
    return f"{stage.stage} {MADE}{model.name}" if model.parent == MODELS else stage.stage


def _plural(count: int, singular: str, several: str) -> str:
    return f"{count} {singular if count == 1 else several}"
