"""Files that could stand in for a check: code that Python would import in place of octavo or of a library, and committed results."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder, all_suffixes

from compiler.commands.git import git
from compiler.problems import Rejected, listed, problem
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.layout import BUILD, MODELS, RUNS, ExperimentFolder, ModelFolder, RunFolder
from stages.contracts.stage import ROOT

OWN = ("compiler", "stages")
_AT_START = ("sitecustomize", "usercustomize")
_RUN, _EXPERIMENT, _MODEL = RunFolder(RUNS / "*/*"), ExperimentFolder(RUNS / "*"), ModelFolder(MODELS / "*")
_RESULTS = (
    *(_RUN.outcome, _RUN.health, _RUN.imported, _RUN.history, _RUN.completions, _RUN.evaluation, _RUN.adapter),
    *(_MODEL.model, _MODEL.history),
    *(_EXPERIMENT.preflight, _EXPERIMENT.preflight_completions, _EXPERIMENT.permission("*")),
    *(_EXPERIMENT.findings, _EXPERIMENT.figures, _EXPERIMENT.page, BUILD),
)
_CODE = ("**/__pycache__", "**/*.pyc", *(f"{folder}/**/*.{end}" for folder in OWN for end in ("so", "pyd")), "**/pyvenv.cfg")
_MACHINES = (".venv", ".cache", ".dvc/cache", ".dvc/tmp", ".dvc/config.local", "wandb")


def reject() -> None:
    """Raises Rejected: E114 for code that hides other code, E115 for committed files that only programs may write."""
    problems = list(stand_ins())
    if problems:
        raise Rejected(problems)


def stand_ins() -> Iterator[Diagnostic]:
    """Both problems. Without git nothing is committed, and E115 is not asked."""
    for name, hidden in _shadows():
        yield problem("E114", file=name, hidden=hidden)
    patterns = (*(path.as_posix() for path in _RESULTS), *_CODE, *_MACHINES)
    committed = git("ls-files", "-z", "--", *(f":(glob){pattern}{end}" for pattern in patterns for end in ("", "/**"))) or b""
    if names := sorted(filter(None, committed.decode("utf-8", "backslashreplace").split("\0"))):
        yield problem("E115", files=listed(names, 4), first=names[0])


def _shadows() -> Iterator[tuple[str, str]]:
    """(file or folder of the project's root, the module that it hides). Stages run in that root, which Python searches first."""
    installed = [folder for folder in sys.path if os.path.basename(folder) in ("site-packages", "dist-packages")]
    for entry in sorted(os.listdir()):
        suffix = next((suffix for suffix in all_suffixes() if entry.endswith(suffix)), "")
        name, is_package = entry.removesuffix(suffix), os.path.isfile(f"{entry}/__init__.py")
        if not name.isidentifier() or (not suffix and not os.path.isdir(entry)):
            continue
        if name in OWN:
            if not suffix and os.path.realpath(entry) == os.path.realpath(ROOT / name):
                continue
            yield entry, f"octavo's own `{name}`"
        elif (suffix or is_package) and (name in sys.stdlib_module_names or name in _AT_START):
            yield entry, f"Python's own `{name}`"
        elif (spec := PathFinder.find_spec(name, installed)) and (suffix or is_package or spec.origin is None):
            yield entry, f"the library `{name}`"  # without an origin: two folders without __init__.py are one package, this one first
