"""`octavo export crate`: an experiment as an RO-Crate in a new place."""

from __future__ import annotations

from pathlib import Path

from compiler.build.pipeline import named
from compiler.problems import Rejected
from stages.contracts.artifact import ArtifactError
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.layout import RUNS, ExperimentFolder


def crate(experiment: str, target: Path) -> str:
    """What was written. Raises Rejected E321 (no such experiment), E498 (a file is in the way) and E494 (nothing was run)."""
    from stages.publish.crate import write_crate

    name = experiment.removeprefix(f"{RUNS}/").rstrip("/")
    if not (RUNS / name).is_dir():
        name = named(name).name
    folder = ExperimentFolder(RUNS / name)
    _free(name, target)
    try:
        files = write_crate(folder, target)
    except ArtifactError as error:
        raise Rejected([Diagnostic("E494", f"{error.path}: {error.what}", why=error.why, fix=error.fix)]) from None
    return f"{target}: {files} files of {folder.root}, described in ro-crate-metadata.json"


def _free(name: str, target: Path) -> None:
    why = "a crate is written into a new folder or archive; what was published stays as it is"
    if RUNS.resolve() in target.resolve().parents:
        raise Rejected([Diagnostic("E498", f"{target} lies below {RUNS}/", why=why, fix=f"octavo export crate {name} -o {name}.zip")])
    if target.exists():
        other = target.with_name(f"{target.stem}-again{target.suffix}")
        raise Rejected([Diagnostic("E498", f"{target} exists", why=why, fix=f"octavo export crate {name} -o {other}")])
    if not target.parent.is_dir():
        raise Rejected([Diagnostic("E498", f"{target.parent} is no folder", why=why, fix=f"mkdir -p {target.parent}")])
