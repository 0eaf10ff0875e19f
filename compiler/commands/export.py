"""`octavo export crate`: an experiment as an RO-Crate in a new place."""

from __future__ import annotations

import argparse
from pathlib import Path

from compiler.build.inputs import Inputs
from compiler.build.pipeline import named
from compiler.problems import Rejected, problem
from stages.contracts.artifact import ArtifactError
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.layout import RUNS, ExperimentFolder


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """Write it. Raises Rejected E321 (no such experiment), E498 (a file is in the way) and E494 (nothing was run)."""
    from stages.publish.crate import write_crate

    name, target = options.experiment.removeprefix(f"{RUNS}/").rstrip("/"), Path(options.output)
    if not (RUNS / name).is_dir():
        name = named(name).name
    folder = ExperimentFolder(RUNS / name)
    _check_free(name, target)
    try:
        files = write_crate(folder, target)
    except ArtifactError as error:
        raise Rejected([Diagnostic("E494", f"{error.path}: {error.what}", why=error.why, fix=error.fix)]) from None
    print(f"{target}: {files} files of {folder.root}, described in ro-crate-metadata.json")
    return 0


def _check_free(name: str, target: Path) -> None:
    if RUNS.resolve() in target.resolve().parents:
        reason, fix = f"lies below {RUNS}/", f"octavo export crate {name} -o {name}.zip"
    elif target.exists():
        reason, fix = "exists", f"octavo export crate {name} -o {target.with_name(f'{target.stem}-again{target.suffix}')}"
    elif not target.parent.is_dir():
        target, reason, fix = target.parent, "is no folder", f"mkdir -p {target.parent}"
    else:
        return
    raise Rejected([problem("E498", path=target, reason=reason, fix=fix)])
