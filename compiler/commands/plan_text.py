"""A plan as text for a terminal, and as the comment of a pull request: counts first, nothing in it that GitHub would act on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from compiler.build.inputs import MADE
from compiler.commands.plan_cost import Cost
from compiler.commands.plan_reasons import Reason, StagePlan
from compiler.commands.plan_report import ExperimentPlan, Plan
from compiler.problems import listed, sentence
from stages.contracts.layout import MODELS

IMPORTED = "import-"
"""How the names of stages begin that import a run."""
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
        lines += [
            "",
            f"{experiment.name}  ({experiment.spec})",
            *(f"  {line}" for line in _counts(experiment)),
            *_stages(experiment.stages),
        ]
        lines += ["  claims at risk:"] if experiment.claims else []
        lines += [f"    {claim.claim} ({claim.verdict or 'no verdict here'}): {'; '.join(claim.why)}" for claim in experiment.claims]
        lines.append(f"  page: {PAGE[experiment.page]}")
    if any(stage.state != "stays" for stage in plan.shared):
        lines += ["", "shared", *_stages(plan.shared)]
    lines += [f"\n{name}: no longer live; nothing runs it and nothing deletes it" for name in plan.removed_experiments]
    return "\n".join(lines) + "\n"


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


def _counts(experiment: ExperimentPlan) -> list[str]:
    """Runs by what happens to them, and the cost."""
    imports = [stage for stage in experiment.stages if stage.stage.startswith(IMPORTED)]
    makes = imports or [stage for stage in experiment.stages if stage.run]
    state = {name: sum(stage.state == name for stage in makes) for name in ("runs", "may_run", "restored", "stays")}
    new = sum(_run(stage) in experiment.new_runs for stage in makes if stage.state == "runs")
    if imports:
        first = f" ({new} new)" if new else ""
        line = f"{state['runs']} of {_plural(len(imports), 'run is', 'runs are')} imported{first}"
    else:
        line = f"{state['runs'] - new} of {len(makes)} runs train again"
        line += f", {new} new {'is' if new == 1 else 'are'} trained" if new else ""
        line += f", {state['may_run']} may" if state["may_run"] else ""
        line += f", {_plural(state['restored'], 'is', 'are')} put back" if state["restored"] else ""
    lines = [f"{line}, {_plural(state['stays'], 'stays', 'stay')}"]
    if experiment.removed_runs:
        lines.append(f"no longer in the spec: {listed(experiment.removed_runs, NAMES)} (nothing runs it and nothing deletes it)")
    return lines + ([f"cost: {_cost(experiment.cost)}"] if experiment.cost.runs and not imports else [])


def _run(stage: StagePlan) -> str:
    return stage.run or stage.stage.removeprefix(IMPORTED)


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


def _stages(stages: Sequence[StagePlan]) -> Iterator[str]:
    for state, title in STATES.items():
        groups = _groups(stages, state)
        yield from [f"  {title}:"] if groups else []
        for names, lines in groups:
            yield f"    {names}"
            yield from (f"      {line}" for line in lines)
    yield f"  stays: {_plural(sum(stage.state == 'stays' for stage in stages), 'stage', 'stages')}"


def _groups(stages: Sequence[StagePlan], state: str) -> list[tuple[str, list[str]]]:
    """Names and lines of the stages of one state, those with equal reasons together."""
    groups: dict[tuple[str, ...], list[StagePlan]] = {}
    for stage in stages:
        if stage.state == state:
            groups.setdefault(tuple(reason.says for reason in _shown(stage)), []).append(stage)
    return [(listed([_called(stage) for stage in together], NAMES), _lines(_shown(together[0]))) for together in groups.values()]


def _shown(stage: StagePlan) -> tuple[Reason, ...]:
    """Reasons of its own; what a certain stage may get from those before it says nothing new."""
    return tuple(reason for reason in stage.reasons if reason.kind != "upstream") or stage.reasons


def _lines(reasons: Sequence[Reason]) -> list[str]:
    """One line a reason, with its place; upstream reasons in one line."""
    upstream = [(reason.path or "").rpartition(":")[2] for reason in reasons if reason.kind == "upstream"]
    lines = [f"{reason.says}{f'   {reason.place}' if reason.place else ''}" for reason in reasons if reason.kind != "upstream"]
    more = [f"and {len(lines) - REASONS} more"] if len(lines) > REASONS else []
    return lines[:REASONS] + more + ([f"after {listed(upstream, NAMES)}"] if upstream else [])


def _called(stage: StagePlan) -> str:
    """A stage's name; for stages of one name, such as those that make base models, with what each makes."""
    model = Path(stage.pipeline).parent
    return f"{stage.stage} {MADE}{model.name}" if model.parent == MODELS else stage.stage


def _plural(count: int, singular: str, several: str) -> str:
    return f"{count} {singular if count == 1 else several}"


def markdown(plan: Plan) -> str:
    """A comment of at most LIMIT characters. What does not fit is counted, not shown."""
    head = [MARKER, f"### octavo plan: {_safe(headline(plan))}", "", *_table(plan.experiments)]
    head += [f"\nNote: {_safe(note[:500])}" for note in plan.notes[:ROWS]]
    head += [f"\n{_code(name)} is no longer live; nothing runs it and nothing deletes it." for name in plan.removed_experiments[:ROWS]]
    comment, hidden = "\n".join(head) + "\n", 0
    sections = [
        (f"{experiment.name}: what runs, why, and which claims it touches", list(_section(experiment))) for experiment in plan.experiments
    ]
    sections.append(("base models and site", list(_list(plan.shared)) if plan.shared else []))
    for title, lines in sections:
        opened, closed = f"\n<details><summary>{_safe(title)}</summary>\n\n", "\n</details>\n"
        room, kept = LIMIT - _SPARE - len(comment) - len(opened) - len(closed), 0
        while kept < len(lines) and (room := room - len(lines[kept]) - 1) >= 0:
            kept += 1
        hidden += len(lines) - kept
        comment += f"{opened}{chr(10).join(lines[:kept])}\n{closed}" if kept else ""
    return comment + (f"\n{hidden} more lines do not fit into a comment. All of it: <code>octavo plan</code>\n" if hidden else "")


def _table(experiments: Sequence[ExperimentPlan]) -> Iterator[str]:
    yield "| experiment | runs made again | new | may be made | put back | stay | removed | cost | claims at risk | page |"
    yield "|---|---:|---:|---:|---:|---:|---:|---|---:|---|"
    for experiment in experiments[:ROWS]:
        runs = [stage for stage in experiment.stages if stage.run or stage.stage.startswith(IMPORTED)]
        again = [stage for stage in runs if stage.state == "runs"]
        new = sum(_run(stage) in experiment.new_runs for stage in again)
        rest = [sum(stage.state == state for stage in runs) for state in ("may_run", "restored", "stays")]
        numbers = map(str, (len(again) - new, new, *rest, len(experiment.removed_runs)))
        cost = _safe(_cost(experiment.cost)) if experiment.cost.runs else "none"
        yield f"| {' | '.join((_code(experiment.name), *numbers, cost, str(len(experiment.claims)), PAGE[experiment.page]))} |"
    if len(experiments) > ROWS:
        yield f"\nand {len(experiments) - ROWS} more experiments"


def _section(experiment: ExperimentPlan) -> Iterator[str]:
    yield from ["**Claims at risk**"] if experiment.claims else []
    for claim in experiment.claims:
        yield f"- {_code(claim.claim)} ({claim.verdict or 'no verdict here'}): {_safe('; '.join(claim.why))}"
    for title, runs in (("New runs", experiment.new_runs), ("Runs no longer in the spec", experiment.removed_runs)):
        yield from [f"\n**{title}:** {_safe(listed(runs, 20))}"] if runs else []
    yield from _list(experiment.stages)


def _list(stages: Sequence[StagePlan]) -> Iterator[str]:
    for state, title in STATES.items():
        groups = _groups(stages, state)
        yield from [f"\n**{title[0].upper()}{title[1:]}**"] if groups else []
        for names, lines in groups:
            yield f"- {_safe(names)}"
            yield from (f"  - {_code(line)}" for line in lines)
    yield f"\nStages that stay: {sum(stage.state == 'stays' for stage in stages)}"


def _code(text: str) -> str:
    """Text of somebody else in a fixed font: GitHub links no names or numbers in it."""
    return f"<code>{_safe(text)}</code>"


def _safe(text: str) -> str:
    """Every character that could mean something to Markdown, HTML or GitHub, as a reference."""
    return _PLAIN.sub(lambda match: match[0] if ord(match[0]) > 127 else f"&#{ord(match[0])};", sentence(text))
