"""The stages after training: they are the same for runs that octavo trains and for imported ones, and differ in what they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from compiler.build.stage import Stage, paths
from stages.contracts.layout import ExperimentFolder, RunFolder

TEMPLATES = Path("stages/publish/templates")
"""Templates are no Python, so no code version covers them."""
RUN = RunFolder(Path())
"""Names of a run's files; a thousand runs as paths of their own would be most of a compile's time."""


@dataclass(frozen=True)
class Analysed:
    """What the stages read. Files of a run are names in its folder, the others paths."""

    folder: ExperimentFolder
    runs: Sequence[str]
    prose: str | None
    screened: Sequence[Path]
    """Of each run, beside its history and completions."""
    before: Sequence[Path]
    """What preflight found; nothing where there is none."""
    compared: Sequence[Path | str]
    """What conclude reads beside the histories: shared evaluations, or what was imported."""
    facts: Sequence[Path | str]
    """What the page shows beside findings and figures."""


def of_runs(folder: ExperimentFolder, names: Sequence[str], *files: Path) -> list[str]:
    """The files of every run, run by run."""
    root, texts = folder.root.as_posix(), paths(*files)
    return [f"{root}/{name}/{file}" for name in names for file in texts]


def analysis(of: Analysed) -> list[Stage]:
    """Screen, conclude, draw and page, in the order in which a reader follows them."""
    folder, argument = of.folder, (of.folder.root.as_posix(),)
    histories, completions, healths = (of_runs(folder, of.runs, file) for file in (RUN.history, RUN.completions, RUN.health))
    return [
        Stage(
            "screen",
            "stages.analyse.screen",
            argument,
            paths(folder.screen_card, *of_runs(folder, of.runs, RUN.history, RUN.completions, *of.screened)),
            paths(*healths),
            "health of every run",
        ),
        Stage(
            "conclude",
            "stages.analyse.conclude",
            argument,
            paths(folder.conclude_card, *of.before, *histories, *completions, *of.compared, *healths),
            paths(folder.findings),
            "findings and verdicts",
        ),
        Stage(
            "draw",
            "stages.analyse.draw",
            argument,
            paths(folder.draw_card, folder.findings, *of.before, *histories, *healths),
            paths(folder.figures),
            "figures",
        ),
        Stage(
            "page",
            "stages.publish.page",
            argument,
            paths(folder.page_card, TEMPLATES, of.prose, folder.findings, folder.figures, *of.facts),
            paths(folder.page),
            "the page, with the lineage of every number",
        ),
    ]
