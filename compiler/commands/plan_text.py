"""A plan as text for a terminal, and as the comment of a pull request: counts first, nothing in it that GitHub would act on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from compiler.build.inputs import MADE
from compiler.commands.plan_report import Cost, ExperimentPlan, Plan, Reason, StagePlan
from compiler.problems import listed, sentence
from stages.contracts.layout import MODELS

NAMES, REASONS = 4, 6
STATES = {
    "runs": "runs",
    "restored": "put back by DVC, which remembers it from an earlier run",
    "may_run": "may run, if a stage before it writes other bytes",
}
PAGE = {
    "new": "new",
    "changes": "the published page is made again",
    "may_change": "the published page may be made again",
    "stays": "stays as it is",
}
MARKER = "<!-- octavo-plan -->"
"""First line of a comment: by it a workflow finds its own comment and edits it instead of adding another one."""
LIMIT = 60_000
"""Characters of a comment; GitHub takes 65,536."""
ROWS = 60
_SPARE = 400
_PLAIN = re.compile(r"[^A-Za-z0-9 ,;/()-]")


def text(plan: Plan) -> str:
    """All of it, for a terminal."""
    lines = [headline(plan), *(f"note: {note}" for note in plan.notes)]
    for experiment in plan.experiments:
        counts = [f"  {line}" for line in _counts(experiment)]
        lines += ["", f"{experiment.name}  ({experiment.spec})", *counts, *_details(experiment), f"  page: {PAGE[experiment.page]}"]
    if any(stage.state != "stays" for stage in plan.shared):
        lines += ["", "shared", *_stages(plan.shared)]
    lines += [f"\n{name}: no longer live; nothing runs it and nothing deletes it" for name in plan.removed_experiments]
    return "\n".join(lines) + "\n"


def markdown(plan: Plan) -> str:
    """A comment of at most LIMIT characters. What does not fit is counted, not shown."""
    comment = "\n".join([MARKER, f"### octavo plan: {_safe(headline(plan))}", "", *_table(plan.experiments)])
    comment += "".join(f"\n\nNote: {_safe(note[:500])}" for note in plan.notes[:ROWS])
    gone = [f"\n\n{_code(name)} is no longer live; nothing runs it and nothing deletes it." for name in plan.removed_experiments[:ROWS]]
    comment, hidden = comment + "".join(gone) + "\n", 0
    sections = [(f"{each.name}: what runs, why, and which claims it touches", list(_details(each))) for each in plan.experiments]
    for title, lines in [*sections, ("base models and site", list(_stages(plan.shared)) if plan.shared else [])]:
        opened, closed = f"\n<details><summary>{_safe(title)}</summary>\n\n<pre>\n", "</pre>\n\n</details>\n"
        room, shown = LIMIT - _SPARE - len(comment) - len(opened) - len(closed), ""
        for line in map(_safe, lines):
            if len(shown) + len(line) + 1 > room:
                break
            shown += f"{line}\n"
        hidden += len(lines) - shown.count("\n")
        comment += f"{opened}{shown}{closed}" if shown else ""
    return comment + (f"\n{hidden} more lines do not fit into a comment. All of it: <code>octavo plan</code>\n" if hidden else "")


def headline(plan: Plan) -> str:
    """One line: how much trains. A commit that was named by its id is cut: 40 digits look like a key, which comments do not show."""
    against = "what is on disk"
    if plan.base and plan.base_name:
        against = plan.base[:12] if plan.base.startswith(plan.base_name) else f"{plan.base_name} ({plan.base[:12]})"
    trains, runs = len(plan.training), sum(stage.state == "runs" for stage in plan.stages)
    if not runs:
        return f"Nothing certainly runs, compared with {against}."
    train = f"{trains or 'none'} of them {'trains' if trains == 1 else 'train'}"
    return f"{_plural(runs, 'stage runs', 'stages run')}, {train}, compared with {against}."


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
    if cost.basis == "attempts":
        source = f"{_plural(cost.attempts, 'finished attempt', 'finished attempts')} of this experiment"
        return f"{_hours(cost.median)} {cost.unit} (range {_hours(cost.low)} to {_hours(cost.high)}; from {source})"
    if cost.basis == "resources":
        return f"{_hours(cost.median)} {cost.unit} (as the spec's resources declare; no history)"
    return f"{cost.unit} unknown: no history, and the spec's resources declare no hours"


def _hours(value: float | None) -> str:
    if value is None:
        return "?"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2g}"


def _details(experiment: ExperimentPlan) -> Iterator[str]:
    """Stages with their reasons, and claims at risk."""
    yield from _stages(experiment.stages)
    yield from ["  claims at risk:"] if experiment.claims else []
    yield from (f"    {claim.claim} ({claim.verdict or 'no verdict here'}): {'; '.join(claim.why)}" for claim in experiment.claims)


def _stages(stages: Sequence[StagePlan]) -> Iterator[str]:
    """Names and reasons of stages by state, those with equal reasons together."""
    for state, title in STATES.items():
        groups: dict[tuple[str, ...], list[StagePlan]] = {}
        for stage in stages:
            if stage.state == state:
                groups.setdefault(tuple(reason.says for reason in _shown(stage)), []).append(stage)
        yield from [f"  {title}:"] if groups else []
        for together in groups.values():
            yield f"    {listed(map(_name, together), NAMES)}"
            yield from (f"      {line}" for line in _lines(_shown(together[0])))
    yield f"  stays: {_plural(sum(stage.state == 'stays' for stage in stages), 'stage', 'stages')}"


def _shown(stage: StagePlan) -> tuple[Reason, ...]:
    """Reasons of its own; what a certain stage may get from those before it says nothing new."""
    return tuple(reason for reason in stage.reasons if reason.kind != "upstream") or stage.reasons


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


def _table(experiments: Sequence[ExperimentPlan]) -> Iterator[str]:
    yield "| experiment | runs made again | new | may be made | put back | stay | removed | cost | claims at risk | page |"
    yield "|---|---:|---:|---:|---:|---:|---:|---|---:|---|"
    for experiment in experiments[:ROWS]:
        numbers = map(str, (*_numbers(experiment), len(experiment.removed_runs)))
        cost = _safe(_cost(experiment.cost)) if experiment.cost.runs else "none"
        yield f"| {' | '.join((_code(experiment.name), *numbers, cost, str(len(experiment.claims)), PAGE[experiment.page]))} |"
    if len(experiments) > ROWS:
        yield f"\nand {len(experiments) - ROWS} more experiments"


def _code(text: str) -> str:
    """Text of somebody else in a fixed font: GitHub links no names or numbers in it."""
    return f"<code>{_safe(text)}</code>"


def _safe(text: str) -> str:
    """Every character that could mean something to Markdown, HTML or GitHub, as a reference."""
    return _PLAIN.sub(lambda match: match[0] if ord(match[0]) > 127 else f"&#{ord(match[0])};", sentence(text))
