"""A plan as the comment of a pull request: counts first, the rest folded, within GitHub's limit, nothing in it that GitHub would act on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from compiler.commands.plan_text import IMPORTED, PAGE, STATES, called, cost, groups, headline, names, said
from compiler.problems import sentence
from stages.contracts.plan import ExperimentPlan, Plan, StagePlan

MARKER = "<!-- octavo-plan -->"
"""First line: by it a workflow finds its own comment and edits it instead of adding another one."""
LIMIT = 60_000
"""Characters, all told; GitHub takes 65,536."""
ROWS = 60
_SPARE = 400
_PLAIN = re.compile(r"[^A-Za-z0-9 ,;/()-]")


def markdown(of: Plan) -> str:
    """The comment, at most LIMIT characters long. What does not fit is counted, not shown."""
    head = [MARKER, f"### octavo plan: {_safe(headline(of))}", "", *_table(of.experiments)]
    head += [f"\nNote: {_safe(note[:500])}" for note in of.notes[:ROWS]]
    head += [f"\n{_code(name)} is no longer live; nothing runs it and nothing deletes it." for name in of.removed_experiments[:ROWS]]
    text = "\n".join(head) + "\n"
    sections = [(f"{one.name}: what runs, why, and which claims it touches", _experiment(one)) for one in of.experiments]
    sections.append(("base models and site", _stages(of.shared)))
    hidden = 0
    for title, lines in sections:
        if not lines:
            continue
        opened, closed = f"\n<details><summary>{_safe(title)}</summary>\n\n", "\n</details>\n"
        room = LIMIT - _SPARE - len(text) - len(opened) - len(closed)
        kept: list[str] = []
        for line in lines:
            room -= len(line) + 1
            if room < 0:
                break
            kept.append(line)
        hidden += len(lines) - len(kept)
        if kept:
            text += opened + "\n".join(kept) + "\n" + closed
    if hidden:
        text += f"\n{hidden} more lines do not fit into a comment. All of it: <code>octavo plan</code>\n"
    return text


def _table(experiments: Sequence[ExperimentPlan]) -> list[str]:
    lines = ["| experiment | runs made again | new | may be made | put back | stay | removed | cost | claims at risk | page |"]
    lines.append("|---|---:|---:|---:|---:|---:|---:|---|---:|---|")
    for one in experiments[:ROWS]:
        runs = [stage for stage in one.stages if stage.run or stage.stage.startswith(IMPORTED)]
        trained = [stage for stage in runs if stage.state == "runs"]
        new = sum((stage.run or stage.stage.removeprefix(IMPORTED)) in one.new_runs for stage in trained)
        count = {state: sum(stage.state == state for stage in runs) for state in ("may_run", "restored", "stays")}
        hours = _safe(cost(one.cost)) if one.cost.runs else "none"
        numbers = (len(trained) - new, new, count["may_run"], count["restored"], count["stays"], len(one.removed_runs))
        cells = (_code(one.name), *map(str, numbers), hours, str(len(one.claims)), PAGE[one.page])
        lines.append(f"| {' | '.join(cells)} |")
    if len(experiments) > ROWS:
        lines.append(f"\nand {len(experiments) - ROWS} more experiments")
    return lines


def _experiment(of: ExperimentPlan) -> list[str]:
    lines = []
    if of.claims:
        lines.append("**Claims at risk**")
        lines += [f"- {_code(claim.claim)} ({claim.verdict or 'no verdict here'}): {_safe('; '.join(claim.why))}" for claim in of.claims]
    for title, runs in (("New runs", of.new_runs), ("Runs no longer in the spec", of.removed_runs)):
        if runs:
            lines.append(f"\n**{title}:** {_safe(names(runs, 20))}")
    return lines + _stages(of.stages)


def _stages(stages: Iterable[StagePlan]) -> list[str]:
    found = list(stages)
    lines: list[str] = []
    for state, title in STATES.items():
        together = groups(found, state)
        if together:
            lines.append(f"\n**{title[0].upper()}{title[1:]}**")
        for some, reasons in together:
            lines.append(f"- {_safe(names([called(stage) for stage in some]))}")
            lines += [f"  - {_code(line)}" for line in said(reasons)]
    stays = sum(stage.state == "stays" for stage in found)
    lines.append(f"\nStages that stay: {stays}")
    return lines if found else []


def _code(text: str) -> str:
    """Text of somebody else in a fixed font: GitHub links no names or numbers in it."""
    return f"<code>{_safe(text)}</code>"


def _safe(text: str) -> str:
    """Every character that could mean something to Markdown, HTML or GitHub, as a reference."""
    return _PLAIN.sub(lambda match: match[0] if ord(match[0]) > 127 else f"&#{ord(match[0])};", sentence(text))
