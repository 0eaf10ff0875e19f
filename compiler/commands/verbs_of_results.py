"""Commands about what runs gave: values with their origins, the way back of numbers, checks, exports. Each returns its exit code."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from compiler.build.inputs import Inputs
from compiler.build.pipeline import LIVE, live, named
from compiler.compile import compile_all
from compiler.problems import Rejected
from compiler.render import colour
from stages.contracts.artifact import ArtifactError
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.layout import RUNS, ExperimentFolder


def explain(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print values of a run with their origins."""
    from compiler.commands import explain as explaining

    if options.diff:
        print(explaining.diff(compile_all([named(options.run)], inputs)[0], options.diff, inputs), end="")
        return 0
    experiment, slash, _ = options.run.removeprefix("runs/").rstrip("/").rpartition("/")
    compiled = compile_all([named(experiment)] if slash else live(inputs), inputs)
    one, found = explaining.find(compiled, options.run)
    print(explaining.explain(one, found, options.key), end="")
    return 0


def trace(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print the way back from a finding, a figure, a run or a page."""
    from stages.publish.trace import trace as way_back

    experiment, what = options.experiment, options.what.removeprefix(f"{RUNS}/").rstrip("/")
    if experiment is None and (RUNS / what).is_dir():  # an experiment alone is its page, `quickstart/shaped-s1` a run of it
        experiment, _, what = what.partition("/")
    what = what or "page"
    folders = [RUNS / experiment.removeprefix(f"{RUNS}/").rstrip("/")] if experiment else [RUNS / found.name for found in live(inputs)]
    said: list[tuple[str, str]] = []
    for folder in folders:
        try:
            print(way_back(folder, what), end="")
            return 0
        except KeyError as unknown:
            known = ExperimentFolder(folder).findings.as_posix()
            said.append((str(unknown.args[0]) if unknown.args else what, f"all ids are in {known}; or `page`, a run, a claim"))
        except ArtifactError as error:
            said.append((f"{error.what}: {error.path}", "dvc repro, then octavo trace [experiment] <finding>"))
    raise Rejected(
        [
            Diagnostic(
                "E332",
                f"{folder}: {text}",
                why="a finding, claim, run, figure or `page` of an experiment that has been concluded can be traced",
                fix=fix,
            )
            for folder, (text, fix) in zip(folders, said, strict=True)
        ]
        or [Diagnostic("E332", "no experiment is live", why=f"{LIVE} lists what is live", fix=f"add a line to {LIVE}")]
    )


def verify(options: argparse.Namespace, inputs: Inputs) -> int:
    """Hold everything that is published against everything it was made from. 1 on any difference."""
    from compiler.commands import verify as verifying

    found = verifying.verify(options.specs, inputs)
    if options.json:
        from stages.contracts.artifact import dump

        print(dump(found), end="")
    else:
        from compiler.commands import verify_text

        print(verify_text.text(found), end="", flush=True)
        print(verify_text.diagnostics(found, colour()), file=sys.stderr, end="")
    return 1 if found.differences else 0


def export(options: argparse.Namespace, inputs: Inputs) -> int:
    """Write an experiment as an RO-Crate into a new folder or archive."""
    from compiler.commands import export as exporting

    print(exporting.crate(options.experiment, Path(options.output)))
    return 0


def waive(options: argparse.Namespace, inputs: Inputs) -> int:
    """Record that a code change is judged to change no result."""
    from compiler.commands import waive as waiving

    made = waiving.waive(options.what, options.why, inputs)
    for line in made.said:
        print(line)
    print(f"{', '.join(made.files)} written. Commit it, then: octavo compile && dvc repro", file=sys.stderr)
    return 0


def rescore(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print what today's gates say of stored completions. Writes only where `--write` says, and only a new file."""
    from compiler.commands import rescore as again

    return again.run(options, inputs)
