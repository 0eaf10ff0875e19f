"""`specs/pipeline.yaml`: which experiments are live. And how people name experiments: `quickstart`, `quickstart@smoke`, a path."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import PydanticCustomError

from compiler import disk
from compiler.build.inputs import Inputs
from compiler.build.revisions import LOCK
from compiler.problems import Rejected, nearest, problem
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
    raise Rejected(
        [
            Diagnostic(
                "E113",
                f"no {SPECS}/ in this folder",
                why="octavo runs in the project's root",
                fix=f"cd {above[0]}" if above else f"cd to the folder that holds {SPECS}/",
            )
        ]
    )


def live(inputs: Inputs) -> list[Reference]:
    """The live experiments, in their order. Raises Rejected for a broken list or none."""
    in_project()
    if not os.path.exists(LIVE):
        raise Rejected([_no_list()])
    document = inputs.document(LIVE)
    entries = document.root.value
    if not isinstance(entries, list):
        raise Rejected(
            [
                Diagnostic(
                    "E203",
                    f"{LIVE} must be a list",
                    why="it lists what is live, one experiment a line",
                    fix="- quickstart",
                    place=document.root.place,
                )
            ]
        )
    found: list[Reference] = []
    problems: list[Diagnostic] = []
    for entry in entries:
        try:
            if not isinstance(entry.value, str):
                raise Rejected(
                    [
                        Diagnostic(
                            "E203",
                            "an entry must be the name of an experiment",
                            why="one name a line",
                            fix="- quickstart",
                            place=entry.place,
                        )
                    ]
                )
            reference = named(entry.value, entry.place)
            if reference in found:
                raise Rejected(
                    [
                        Diagnostic(
                            "E319",
                            f"`{reference.name}` is listed twice",
                            why="it would be written twice",
                            fix="delete this line",
                            place=entry.place,
                        )
                    ]
                )
            found.append(reference)
        except Rejected as rejected:
            problems.extend(rejected.diagnostics)
    if problems:
        raise Rejected(problems)
    return found


def everything() -> list[Reference]:
    """Every spec in specs/, without profiles."""
    return [Reference(path.stem, None, path) for path in disk.yaml_files(SPECS) if path not in BESIDE]


def every_spec() -> list[Reference]:
    """Every spec in specs/. Raises Rejected E113 when there is none, and E206 or E207 for files with other names."""
    in_project()
    found = everything()
    if not found:
        raise Rejected([Diagnostic("E113", f"no spec in {SPECS}/", why="an experiment is a file specs/<experiment>.yaml", fix=_START)])
    problems = [problem for reference in found if (problem := _slug_problem(reference.stem, Place(reference.path.as_posix(), 1, 1)))]
    if problems:
        raise Rejected(problems)
    return found


def named(text: str, place: Place | None = None) -> Reference:
    """`quickstart`, `quickstart@smoke`, `specs/quickstart.yaml` or `specs/quickstart.yaml@smoke`. Raises Rejected E321, E206 or E207."""
    name, at, profile = text.partition("@")
    path = SPECS / f"{name}.yaml"
    if name.endswith(".yaml"):
        path = Path(os.path.relpath(name))
        problem = None if path.parent == SPECS else _elsewhere(path, place)
    else:
        problem = _slug_problem(name, place)
    problem = problem or _slug_problem(path.stem, place)
    if problem:
        raise Rejected([problem])
    if not os.path.isfile(path):
        known = [reference.stem for reference in everything()]
        meant = nearest(path.stem, known)
        raise Rejected(
            [
                Diagnostic(
                    "E321",
                    f"no experiment `{text[: SLUG_CHARS * 2]}`" + (f", did you mean `{meant}`?" if meant else ""),
                    why=f"an experiment is a file specs/<experiment>.yaml; known: {', '.join(known) or 'none'}",
                    fix=f"write `{meant}`" if meant else "ls specs",
                    place=place,
                )
            ]
        )
    return Reference(path.stem, profile if at else None, path)


def _no_list() -> Diagnostic:
    there = everything()
    return Diagnostic(
        "E113",
        f"cannot read {LIVE}: no such file",
        why="it lists what is live, one experiment a line; a command without names is about all that is",
        fix=f"echo '- {there[0].stem}' > {LIVE}" if there else f"{_START}, then: echo '- <experiment>' > {LIVE}",
    )


def _elsewhere(path: Path, place: Place | None) -> Diagnostic:
    return Diagnostic(
        "E321",
        f"{path.as_posix()[:200]} is not in {SPECS}/",
        why="an experiment is a file specs/<experiment>.yaml, and its folder is named after it",
        fix=f"move it to {SPECS}/, and run octavo in the folder that holds {SPECS}/",
        place=place,
    )


def _slug_problem(stem: str, place: Place | None) -> Diagnostic | None:
    try:
        slug(stem)
    except PydanticCustomError as error:
        return problem(error.type, place, **(error.context or {}))
    return None
