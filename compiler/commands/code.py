"""`octavo code same` and `octavo code new`: say once, in a reviewed line, whether a change of octavo's code changes results."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from compiler.build.code_versions import append_judgement, broken_versions, changed_units, counted_units
from compiler.build.inputs import Inputs
from compiler.commands.git import git
from compiler.commands.replay import replayed
from compiler.problems import SECRET, Rejected, listed, problem
from stages.contracts.artifact import ArtifactError, now
from stages.contracts.code import VERSIONS, Judgement
from stages.contracts.code_tree import CodeTree

LONGEST_REASON = 2000
"""Characters."""


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """Append the judgement, and say what to do next."""
    print(judge(options.results, options.why, inputs.stages.root, lambda: [_evidence(name, options) for name in options.replay]))
    print("Commit it with the change, then: octavo compile && dvc repro", file=sys.stderr)
    return 0


def judge(results: Literal["same", "new"], why: str, root: Path, evidence: Callable[[], list[str]] = list) -> str:
    """Append a line for all units whose code changed, and say what it holds. Raises Rejected: E270 a broken file, E271 no name to sign
    with, E471 no reason, E473 nothing changed, and what `evidence` raises, whose sentences the line holds."""
    reason, who = _reason(why), _author()
    tree = CodeTree(root)
    try:
        units = changed_units(tree)
    except ArtifactError as error:
        raise Rejected([broken_versions(error)]) from None
    if not (root / VERSIONS).exists():
        units = {unit: tree.digest(f"stages.{unit}") for unit in counted_units()}
    if not units:
        raise Rejected([problem("E473", file=VERSIONS)])
    sentences = tuple(evidence())
    append_judgement(root, Judgement(results=results, why=reason, who=who, at=now(), digests=units, replays=sentences))
    effect = "keep their versions" if results == "same" else "have new versions: their stages run again"
    return f"{VERSIONS}: {len(units)} {'unit' if len(units) == 1 else 'units'} {effect}: {listed(units, 4)}"


def _evidence(name: str, options: argparse.Namespace) -> str:
    """A sentence on a replay. Raises Rejected S296 where results are said to be the same, and are not."""
    _, says = replayed(name, options.steps, must_agree=options.results == "same")
    print(says, file=sys.stderr)
    return says


def _author() -> str:
    name, email = ((git("config", "--get", f"user.{key}") or b"").decode("utf-8", "replace").strip() for key in ("name", "email"))
    if not name:
        raise Rejected([problem("E271" if shutil.which("git") else "E271.git")])
    return f"{name} <{email}>" if email else name


def _reason(why: str) -> str:
    reason = " ".join(why.split())
    if reason and len(reason) <= LONGEST_REASON and not SECRET.search(reason):
        return reason
    if not reason:
        what = "a judgement without a reason"
    elif len(reason) > LONGEST_REASON:
        what = "the reason is too long"
    else:
        what = "the reason holds what looks like a secret key"
    raise Rejected([problem("E471", what=what, most=f"{LONGEST_REASON:,}")])
