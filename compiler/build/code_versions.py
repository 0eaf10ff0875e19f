"""`stages/code_versions.jsonl`: which units it counts, which of them changed, and a new line of it."""

from __future__ import annotations

from pathlib import Path

from compiler.problems import listed, problem
from stages.contracts.artifact import ArtifactError
from stages.contracts.code import VERSIONS, Judgement, count_versions, read_judgements, versions_file
from stages.contracts.code_tree import CodeTree
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.files import read_text, write_text
from stages.contracts.plugin import CORPORA, DETECTORS, GATES, kinds

STAGES = (
    *("train.trl", "train.ppo", "train.supervised", "train.pretrain", "train.preflight", "train.evaluate"),
    *("train.collect", "train.command", "analyse.screen", "analyse.conclude"),
)
"""Stages whose code has versions. The others, which draw and publish, run again when their code changes: that takes seconds."""
PLUGINS = (GATES, CORPORA, DETECTORS)
"""Packages of plug-ins."""


def counted_units() -> list[str]:
    """Units of octavo's own code that have versions, for a file that does not exist yet."""
    return [*STAGES, *(f"{package.removeprefix('stages.')}.{kind}" for package in PLUGINS for kind in kinds(package))]


def changed_units(tree: CodeTree) -> dict[str, str]:
    """Unit -> digest of its code now, for each unit with versions whose code no line knows. Raises ArtifactError."""
    versions = count_versions(read_judgements(tree.root / VERSIONS))
    digests = {unit: tree.digest(f"stages.{unit}") for unit in versions if tree.files(f"stages.{unit}")}
    return {unit: digest for unit, digest in digests.items() if digest not in versions[unit]}


def append_judgement(root: Path, judgement: Judgement) -> None:
    """Add a line; the file is whole before and after."""
    path = versions_file(root / VERSIONS)
    before = read_text(path) if path.exists() else ""
    write_text(path, before + judgement.model_dump_json() + "\n")


def unjudged_code(tree: CodeTree) -> Diagnostic:
    """E472: code changed, and no line says whether results stay the same."""
    return problem("E472", units=listed(changed_units(tree), 4), file=VERSIONS)


def broken_versions(error: ArtifactError) -> Diagnostic:
    """E270: a line of the file cannot be read."""
    return Diagnostic("E270", f"{error.path}: {error.what}", why=error.why, fix=error.fix)
