"""`octavo trace`: the way back from a finding, a figure, a run or a page."""

from __future__ import annotations

import argparse

from compiler.build.inputs import Inputs
from compiler.build.pipeline import LIVE, live
from compiler.problems import Rejected, problem
from stages.contracts.artifact import ArtifactError
from stages.contracts.layout import RUNS, ExperimentFolder


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print the first way back that an experiment knows. Raises Rejected E332 if none does."""
    from stages.publish.trace import trace as way_back

    experiment, what = options.experiment, options.what.removeprefix(f"{RUNS}/").rstrip("/")
    if experiment is None and (RUNS / what).is_dir():  # an experiment alone is its page, `quickstart/shaped-s1` a run of it
        experiment, _, what = what.partition("/")
    what = what or "page"
    names = [experiment.removeprefix(f"{RUNS}/").rstrip("/")] if experiment else [reference.name for reference in live(inputs)]
    problems = []
    for folder in (RUNS / name for name in names):
        try:
            print(way_back(folder, what), end="")
            return 0
        except KeyError as unknown:
            says = str(unknown.args[0]) if unknown.args else what
            fix = f"all ids are in {ExperimentFolder(folder).findings.as_posix()}; or `page`, a run, a claim"
        except ArtifactError as error:
            says, fix = f"{error.what}: {error.path}", "dvc repro, then octavo trace [experiment] <finding>"
        problems.append(problem("E332", folder=folder, says=says, fix=fix))
    raise Rejected(problems or [problem("E332.nothing", file=LIVE)])
