"""`specs/pipeline.yaml`: which experiments are live. And how people name experiments: `quickstart`, `quickstart@smoke`, a path."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic_core import PydanticCustomError

from compiler.build.inputs import Inputs
from compiler.build.revisions import LOCK
from compiler.problems import Rejected, problem, unknown
from stages.contracts.diagnostic import Diagnostic, Place
from stages.contracts.names import SLUG_CHARS, slug

SPECS = Path("specs")
LIVE = SPECS / "pipeline.yaml"
BESIDE = (LIVE, LOCK)
"""Files in specs/ that are no experiments."""
_START = "octavo new <experiment>"


@dataclass(frozen=True)
class Reference:
    """An experiment with a profile or None. `path` is its spec."""

    stem: str
    profile: str | None
    path: Path

    @property
    def name(self) -> str:
        return f"{self.stem}@{self.profile}" if self.profile else self.stem


def in_project() -> None:
    """Raises Rejected E113 where no specs/ is, with the way to the nearest folder above that has one."""
    if os.path.isdir(SPECS):
        return
    above = [up for up in (Path(*[".."] * count) for count in range(1, len(Path.cwd().parts))) if os.path.isdir(up / SPECS)]
    raise Rejected([problem("E113.above", above=above[0]) if above else problem("E113.project")])


def live(inputs: Inputs) -> list[Reference]:
    """The live experiments, in their order. Raises Rejected for a broken list or none."""
    in_project()
    if not os.path.exists(LIVE):
        raise Rejected([_no_list()])
    document = inputs.document(LIVE)
    entries = document.root.value
    if not isinstance(entries, list):
        raise Rejected([problem("E203.live", document.root.place)])
    found: list[Reference] = []
    problems: list[Diagnostic] = []
    for entry in entries:
        try:
            if not isinstance(entry.value, str):
                raise Rejected([problem("E203.entry", entry.place)])
            reference = named(entry.value, entry.place)
            if reference in found:
                raise Rejected([problem("E319.live", entry.place, name=reference.name)])
            found.append(reference)
        except Rejected as rejected:
            problems.extend(rejected.diagnostics)
    if problems:
        raise Rejected(problems)
    return found


def everything() -> list[Reference]:
    """Every spec in specs/, without profiles."""
    return [Reference(path.stem, None, path) for path in sorted(SPECS.glob("*.yaml")) if path not in BESIDE]


def every_spec() -> list[Reference]:
    """Every spec in specs/. Raises Rejected E113 when there is none, and E206 or E207 for files with other names."""
    in_project()
    found = everything()
    if not found:
        raise Rejected([problem("E113.empty", start=_START)])
    places = {reference.stem: Place(reference.path.as_posix(), 1, 1) for reference in found}
    problems = [refused for stem, place in places.items() if (refused := _slug_problem(stem, place))]
    if problems:
        raise Rejected(problems)
    return found


def named(text: str, place: Place | None = None) -> Reference:
    """`quickstart`, `quickstart@smoke`, `specs/quickstart.yaml` or `specs/quickstart.yaml@smoke`. Raises Rejected E321, E206 or E207."""
    name, at, profile = text.partition("@")
    path = SPECS / f"{name}.yaml"
    if name.endswith(".yaml"):
        path = Path(os.path.relpath(name))
        refused = None if path.parent == SPECS else problem("E321.elsewhere", place, path=path.as_posix()[:200])
    else:
        refused = _slug_problem(name, place)
    refused = refused or _slug_problem(path.stem, place)
    if refused:
        raise Rejected([refused])
    if not os.path.isfile(path):
        known = [reference.stem for reference in everything()]
        # a profile that is named too is left out of the comparison, and shown
        missing = unknown("E321", path.stem, known, place, all=", ".join(known) or "none")
        raise Rejected([replace(missing, what=missing.what.replace(f"`{path.stem}`", f"`{text[: SLUG_CHARS * 2]}`", 1))])
    return Reference(path.stem, profile if at else None, path)


def _no_list() -> Diagnostic:
    there = everything()
    return problem("E113.live", fix=f"echo '- {there[0].stem}' > {LIVE}" if there else f"{_START}, then: echo '- <experiment>' > {LIVE}")


def _slug_problem(stem: str, place: Place | None) -> Diagnostic | None:
    try:
        slug(stem)
    except PydanticCustomError as error:
        return problem(error.type, place, **(error.context or {}))
    return None
