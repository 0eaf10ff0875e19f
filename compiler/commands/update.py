"""`octavo compile --update`: pins for the hub repositories that specs name. The lock is written with everything else, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from compiler.build.inputs import Inputs
from compiler.build.pipeline import named
from compiler.build.revisions import LOCK, UPDATE, Lock, named_in, spec_files
from compiler.build.revisions import Reference as Repository
from compiler.commands.hub import newest
from compiler.language.experiment import experiment
from compiler.problems import Rejected, listed, nearest
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.names import is_hub_id


@dataclass(frozen=True)
class Updated:
    """The new lock, what happened in words, and the experiments that were named beside hub ids."""

    lock: Lock
    says: tuple[str, ...]
    specs: tuple[str, ...]


def updated(names: Sequence[str], inputs: Inputs) -> Updated:
    """Pin what is not pinned and drop what no spec names. Repositories that are named, or used by an experiment that is, move to
    their newest commit. Raises Rejected: E475-E478 of the hub, E479 for a name that no spec uses."""
    ids = [name for name in names if is_hub_id(name) and not name.startswith("specs/")]
    specs = [name for name in names if name not in ids]
    old = inputs.lock()
    used = list(_remote(of for path in spec_files() for of in named_in(inputs.document(path).root)))
    moving = {of for name in ids for of in _called(name, used)} | {of for name in specs for of in _of_experiment(name, inputs)}
    asked: dict[Repository, str] = {}
    problems: list[Diagnostic] = []
    for of in used:
        if of in moving or of not in old.commits:
            try:
                asked[of] = newest(of)
            except Rejected as rejected:
                problems += rejected.diagnostics
                if problems[-1].code == "E475":  # the next question would wait as long for nothing
                    break
    if problems:
        raise Rejected(problems)
    commits = {of: asked.get(of) or old.commits[of] for of in used}
    says = [_said(of, old.commits.get(of), commit) for of, commit in asked.items()]
    says += [f"{of.name}: dropped, no spec names it" for of in old.commits if of not in commits]
    return Updated(replace(old, commits=commits), tuple(says), tuple(specs))


def _remote(named: Iterable[Repository]) -> Iterable[Repository]:
    """Each once, sorted, without models that lie in the project."""
    found = {of for of in named if of.kind == "datasets" or not Inputs.is_local(of.name)}
    return sorted(found, key=lambda of: (of.kind, of.name))


def _called(name: str, used: Sequence[Repository]) -> list[Repository]:
    found = [of for of in used if of.name == name]
    if not found:
        meant = nearest(name, [of.name for of in used])
        raise Rejected(
            [
                Diagnostic(
                    "E479",
                    f"no spec names the hub repository `{name}`" + (f", did you mean `{meant}`?" if meant else ""),
                    why=f"{LOCK.as_posix()} pins what specs use; they name: {listed(of.name for of in used)}",
                    fix=f"{UPDATE} {meant}" if meant else f"write it in a spec first, as `base` or `hub`, then {UPDATE}",
                )
            ]
        )
    return found


def _of_experiment(name: str, inputs: Inputs) -> list[Repository]:
    """What an experiment uses, its profiles and all that it inherits included."""
    reference = named(name)
    found = experiment(inputs.document(Path(reference.path)), reference.stem, None, inputs.document)
    return list(_remote(named_in(found.root)))


def _said(of: Repository, before: str | None, now: str) -> str:
    if before is None:
        return f"{of.name}: pinned to {now[:12]}"
    return f"{of.name}: {now[:12]} is still the newest" if before == now else f"{of.name}: moved from {before[:12]} to {now[:12]}"
