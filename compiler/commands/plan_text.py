"""A plan as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from compiler.build.base_models import MADE
from stages.contracts.layout import MODELS
from stages.contracts.plan import Cost, ExperimentPlan, Plan, Reason, StagePlan

IMPORTED = "import-"
"""How the stages begin that import a run."""
NAMES = 4
REASONS = 6
STATES = {
    "runs": "runs",
    "restored": "put back by DVC, which remembers it from an earlier run",
    "may_run": "may run, if a stage before it writes other bytes",
}


def text(of: Plan) -> str:
    """All of it, counts first."""
    lines = [headline(of), *(f"note: {note}" for note in of.notes)]
    for one in of.experiments:
        lines += ["", f"{one.name}  ({one.spec})", *(f"  {line}" for line in counts(one)), *_stages(one.stages)]
        if one.claims:
            lines.append("  claims at risk:")
            lines += [f"    {claim.claim} ({claim.verdict or 'no verdict here'}): {'; '.join(claim.why)}" for claim in one.claims]
        lines.append(f"  page: {PAGE[one.page]}")
    shared = [stage for stage in of.shared if stage.state != "stays"]
    if shared:
        lines += ["", "shared", *_stages(of.shared)]
    lines += [f"\n{name}: no longer live; nothing runs it and nothing deletes it" for name in of.removed_experiments]
    return "\n".join(lines) + "\n"


PAGE = {
    "new": "new",
    "changes": "the published page is made again",
    "may_change": "the published page may be made again",
    "stays": "stays as it is",
}


def headline(of: Plan) -> str:
    """One line: how much trains."""
    against = f"compared with {_revision(of.base, of.base_name)}" if of.base and of.base_name else "compared with what is on disk"
    trains, runs = len(of.training), sum(stage.state == "runs" for stage in of.stages)
    if not runs:
        return f"Nothing certainly runs, {against}."
    return f"{plural(runs, 'stage runs', 'stages run')}, {trains or 'none'} of them {'trains' if trains == 1 else 'train'}, {against}."


def _revision(base: str, name: str) -> str:
    """A branch or tag with its commit. A commit by its own name is cut: all 40 digits look like a key, which comments do not show."""
    return base[:12] if base.startswith(name) else f"{name} ({base[:12]})"


def _gone(of: ExperimentPlan) -> list[str]:
    return [f"no longer in the spec: {names(of.removed_runs)} (nothing runs it and nothing deletes it)"] if of.removed_runs else []


def counts(of: ExperimentPlan) -> list[str]:
    """Runs and stages by what happens to them, and the cost."""
    imports = [stage for stage in of.stages if stage.stage.startswith(IMPORTED)]
    if imports:
        anew, stay = (sum(stage.state == state for stage in imports) for state in ("runs", "stays"))
        first = sum(stage.stage.removeprefix(IMPORTED) in of.new_runs for stage in imports if stage.state == "runs")
        said = f"{anew} of {plural(len(imports), 'run is', 'runs are')} imported{f' ({first} new)' if first else ''}"
        return [f"{said}, {stay} {'stays' if stay == 1 else 'stay'}", *_gone(of)]
    trained = [stage for stage in of.stages if stage.run and stage.state == "runs"]
    new = [stage for stage in trained if stage.run in of.new_runs]
    back = sum(1 for stage in of.stages if stage.run and stage.state == "restored")
    may = sum(1 for stage in of.stages if stage.run and stage.state == "may_run")
    stay = sum(1 for stage in of.stages if stage.run and stage.state == "stays")
    found = [
        f"{len(trained) - len(new)} of {sum(1 for stage in of.stages if stage.run)} runs train again"
        + (f", {len(new)} new {'is' if len(new) == 1 else 'are'} trained" if new else "")
        + (f", {may} may" if may else "")
        + (f", {back} {'is' if back == 1 else 'are'} put back" if back else "")
        + f", {stay} {'stays' if stay == 1 else 'stay'}"
    ]
    found += _gone(of)
    if of.cost.runs:
        found.append(f"cost: {cost(of.cost)}")
    return found


def cost(of: Cost) -> str:
    """Hours with where they come from."""
    if of.basis == "attempts":
        source = f"{plural(of.attempts, 'finished attempt', 'finished attempts')} of this experiment"
        return f"{_hours(of.median)} {of.unit} (range {_hours(of.low)} to {_hours(of.high)}; from {source})"
    if of.basis == "resources":
        return f"{_hours(of.median)} {of.unit} (as the spec's resources declare; no history)"
    return f"{of.unit} unknown: no history, and the spec's resources declare no hours"


def groups(stages: Iterable[StagePlan], state: str) -> list[tuple[list[StagePlan], tuple[Reason, ...]]]:
    """Stages of one state, those with equal reasons together. Stages that may run are told apart by what they wait for only."""
    found: dict[tuple[str, ...], list[StagePlan]] = {}
    for stage in stages:
        if stage.state == state:
            found.setdefault(tuple(reason.says for reason in shown_reasons(stage)), []).append(stage)
    return [(together, shown_reasons(together[0])) for together in found.values()]


def shown_reasons(of: StagePlan) -> tuple[Reason, ...]:
    """Reasons of its own; what a certain stage may get from those before it says nothing new."""
    own = tuple(reason for reason in of.reasons if reason.kind != "upstream")
    return own or of.reasons


def names(found: Sequence[str], limit: int = NAMES) -> str:
    """A list cut short, with how many were left out."""
    return ", ".join(found[:limit]) + (f" and {len(found) - limit} more" if len(found) > limit else "")


def plural(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"


def said(reasons: Sequence[Reason], limit: int = REASONS) -> list[str]:
    """One line a reason, with its place; upstream reasons in one line."""
    upstream = [(reason.path or "").rpartition(":")[2] for reason in reasons if reason.kind == "upstream"]
    lines = [f"{reason.says}{f'   {reason.place}' if reason.place else ''}" for reason in reasons if reason.kind != "upstream"]
    hidden = len(lines) - limit
    lines = lines[:limit] + ([f"and {hidden} more"] if hidden > 0 else [])
    return lines + ([f"after {names(upstream)}"] if upstream else [])


def _stages(stages: Sequence[StagePlan]) -> list[str]:
    lines = []
    for state, title in STATES.items():
        found = groups(stages, state)
        if found:
            lines.append(f"  {title}:")
        for together, reasons in found:
            lines.append(f"    {names([called(stage) for stage in together])}")
            lines += [f"      {line}" for line in said(reasons)]
    stays = sum(stage.state == "stays" for stage in stages)
    lines.append(f"  stays: {plural(stays, 'stage', 'stages')}")
    return lines


def called(of: StagePlan) -> str:
    """A stage's name; of several stages of one name, such as those that make base models, with what each makes."""
    model = Path(of.pipeline).parent
    return f"{of.stage} {MADE}{model.name}" if model.parent == MODELS else of.stage


def _hours(value: float | None) -> str:
    if value is None:
        return "?"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2g}"
