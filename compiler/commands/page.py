"""`octavo page --now`: the page of an experiment whose runs go on, from everything that can be said so far."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from compiler.build.inputs import Inputs
from compiler.build.pipeline import named
from compiler.problems import Rejected
from stages.contracts.artifact import ArtifactError, now, write
from stages.contracts.diagnostic import Diagnostic, StageError
from stages.contracts.files import links_to
from stages.contracts.layout import NOW, RUNS, ExperimentFolder
from stages.contracts.progress import Progress


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """Write it and print where it lies. Raises Rejected E321 (no such experiment) and E495 (nothing can be written at this moment)."""
    from stages.publish.now import counted

    folder = experiment_folder(options.experiment)
    try:
        progress = write_page(folder)
    except (ArtifactError, StageError) as error:
        what = f"{error.path}: {error.what}" if isinstance(error, ArtifactError) else error.what
        raise Rejected([Diagnostic("E495", what, why=error.why, fix=error.fix)]) from None
    except OSError as error:
        what, fix = f"{error.filename or folder.root}: {error.strerror or error}", f"octavo page --now {folder.name}"
        raise Rejected([Diagnostic("E495", what, why="a stage may just be writing it", fix=f"try again: {fix}")]) from None
    print(f"{page_file(folder)}: {counted(progress)}")
    return 0


def experiment_folder(text: str) -> ExperimentFolder:
    """Of `quickstart`, `quickstart@smoke` or `runs/quickstart`. Raises Rejected E321."""
    name = text.removeprefix(f"{RUNS}/").rstrip("/")
    return ExperimentFolder(RUNS / (name if (RUNS / name).is_dir() else named(name).name))


def site_folder(folder: ExperimentFolder) -> Path:
    """Where the page is built, with all that it loads."""
    return NOW / folder.name / "site"


def page_file(folder: ExperimentFolder) -> Path:
    return site_folder(folder) / "experiments" / folder.name / "index.html"


def write_page(folder: ExperimentFolder) -> Progress:
    """Write the page by the stages that write the published one, in a scratch copy of the project. Raises what they raise."""
    from stages.analyse.conclude import conclude
    from stages.analyse.draw import draw
    from stages.analyse.screen import screen
    from stages.publish.experiment import RECORDED, load
    from stages.publish.page import page
    from stages.publish.site import build
    from stages.publish.verify import scratch_project

    project, target = Path.cwd(), (NOW / folder.name).absolute()
    changed = load(folder.root, concluded=False).changed
    with scratch_project(folder) as root:
        write(root / "changed.json", changed)
        with (
            contextlib.chdir(root),
            links_to(project),
            _variable(RECORDED, str(root / "changed.json")),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            progress = _open_cards(folder)
            for stage in (screen, conclude, draw, page):
                stage(folder.root)
            build({folder.name: folder.page}, target, alone=True)
    (NOW / ".gitignore").write_text("*\n")  # also where a project keeps its build folder
    return progress


@contextlib.contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name)
        os.environ |= {} if before is None else {name: before}


def _open_cards(folder: ExperimentFolder) -> Progress:
    """Write each run's files so far, and cards that say how far it is: windows end there, and no verdict is given."""
    from stages.contracts.analysis_card import AnalysisCard, ConcludeCard, DrawCard, RunRef, ScreenCard
    from stages.contracts.artifact import read
    from stages.contracts.page_card import PageCard
    from stages.train.unfinished import write_so_far

    card = read(PageCard, folder.page_card)
    runs = tuple(write_so_far(ref, folder.run(ref.name)) for ref in card.runs)
    progress = Progress(written=now(), runs=runs)
    steps = {run.run: run.step if run.goes_on else run.target for run in runs}

    def opened(refs: Iterable[RunRef]) -> tuple[RunRef, ...]:
        return tuple(ref.model_copy(update={"so_far": steps[ref.name]}) for ref in refs)

    write(folder.page_card, card.model_copy(update={"runs": opened(card.runs), "progress": progress}))
    kinds: tuple[tuple[type[AnalysisCard], Path], ...] = (
        (ScreenCard, folder.screen_card),
        (ConcludeCard, folder.conclude_card),
        (DrawCard, folder.draw_card),
    )
    for kind, path in kinds:
        own = read(kind, path)
        write(path, own.model_copy(update={"runs": opened(own.runs)}))
    return progress
