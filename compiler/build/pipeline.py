"""`specs/pipeline.yaml`: which experiments are live. And how people name experiments: `quickstart`, `quickstart@smoke`, a path."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic_core import PydanticCustomError

from compiler.build.inputs import Inputs
from compiler.build.revisions import LOCK
from compiler.document.node import Node
from compiler.problems import Rejected, problem, unknown
from stages.contracts.diagnostic import Place
from stages.contracts.files import check_folder
from stages.contracts.layout import RUNS
from stages.contracts.names import SLUG_CHARS, slug

SPECS = Path("specs")
LIVE = SPECS / "pipeline.yaml"
MACHINES = SPECS / "machines.yaml"
"""Where runs run: `octavo run --on`."""
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
    """Raises Rejected E113 where no specs/ is, with the way to the nearest folder above that has one; FileRefused for a link in it or in
    runs/."""
    if os.path.isdir(SPECS):
        check_folder(SPECS)
        check_folder(RUNS)
        return
    above = [up for up in (Path(*[".."] * count) for count in range(1, len(Path.cwd().parts))) if os.path.isdir(up / SPECS)]
    raise Rejected([problem("E113.above", above=above[0]) if above else problem("E113.project")])


def live(inputs: Inputs) -> list[Reference]:
    """The live experiments, in their order. Raises Rejected for a broken list or none."""
    in_project()
    if not os.path.exists(LIVE):
        specs = everything()
        fix = f"echo '- {specs[0].stem}' > {LIVE}" if specs else f"{_START}, then: echo '- <experiment>' > {LIVE}"
        raise Rejected([problem("E113.live", fix=fix)])
    root = inputs.document(LIVE).root
    if not isinstance(root.value, list):
        raise Rejected([problem("E203.live", root.place)])
    references: list[Reference] = []
    for entry in root.value:
        if _settings(entry) is not None:
            continue
        if not isinstance(entry.value, str):
            raise Rejected([problem("E203.entry", entry.place)])
        reference = named(entry.value, entry.place)
        if reference in references:
            raise Rejected([problem("E319.live", entry.place, name=reference.name)])
        references.append(reference)
    return references


def shared_tracking(root: Node) -> Node | None:
    """The `tracking` of all live experiments, an entry of the list."""
    entries = root.value if isinstance(root.value, list) else ()
    return next((settings for entry in entries if (settings := _settings(entry)) is not None), None)


def _settings(entry: Node) -> Node | None:
    return entry.get("tracking") if isinstance(entry.value, dict) and len(entry.value) == 1 else None


def everything() -> list[Reference]:
    """Every spec in specs/, without profiles."""
    return [Reference(path.stem, None, path) for path in sorted(SPECS.glob("*.yaml")) if path not in (LIVE, LOCK, MACHINES)]


def every_spec() -> list[Reference]:
    """Every spec in specs/. Raises Rejected E113 when there is none, and E206 or E207 for files with other names."""
    in_project()
    references = everything()
    if not references:
        raise Rejected([problem("E113.empty", start=_START)])
    for each in references:
        _check_slug(each.stem, Place(each.path.as_posix(), 1, 1))
    return references


def named(text: str, place: Place | None = None) -> Reference:
    """`quickstart`, `quickstart@smoke`, `specs/quickstart.yaml` or `specs/quickstart.yaml@smoke`. Raises Rejected E321, E206 or E207."""
    name, at, profile = text.partition("@")
    path = Path(os.path.relpath(name)) if name.endswith(".yaml") else SPECS / f"{name}.yaml"
    if path.parent != SPECS and name.endswith(".yaml"):
        raise Rejected([problem("E321.elsewhere", place, path=path.as_posix()[:200])])
    stem = path.stem if name.endswith(".yaml") else name
    _check_slug(stem, place)
    if not os.path.isfile(path):
        stems = [reference.stem for reference in everything()]
        missing = unknown("E321", stem, stems, place, all=", ".join(stems) or "none")
        # a profile that is named too is left out of the comparison, and shown
        raise Rejected([replace(missing, what=missing.what.replace(f"`{stem}`", f"`{text[: SLUG_CHARS * 2]}`", 1))])
    return Reference(stem, profile if at else None, path)


def _check_slug(stem: str, place: Place | None) -> None:
    try:
        slug(stem)
    except PydanticCustomError as error:
        raise Rejected([problem(error.type, place, **(error.context or {}))]) from None
