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
    check_free(target, f"octavo export crate {name} -o")
    try:
        files = write_crate(folder, target)
    except ArtifactError as error:
        raise Rejected([Diagnostic("E494", f"{error.path}: {error.what}", why=error.why, fix=error.fix)]) from None
    print(f"{target}: {files} files of {folder.root}, described in ro-crate-metadata.json")
    return 0


def check_free(target: Path, command: str) -> None:
    """Raises Rejected E498 unless a new file may be written there. `command`: how octavo is called, up to the target."""
    if RUNS.resolve() in target.resolve().parents:
        reason, fix = f"lies below {RUNS}/", f"{command} {target.name}"
    elif target.exists():
        reason, fix = "exists", f"{command} {target.with_name(f'{target.stem}-again{target.suffix}')}"
    elif not target.parent.is_dir():
        target, reason, fix = target.parent, "is no folder", f"mkdir -p {target.parent}"
    else:
        return
    raise Rejected([problem("E498", path=target, reason=reason, fix=fix)])
