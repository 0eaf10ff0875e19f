"""`octavo new`: a spec and its interpretation from commented templates. Asks nothing, overwrites nothing."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from pydantic_core import PydanticCustomError

from compiler.build.pipeline import SPECS
from compiler.problems import Rejected, problem
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.names import slug

_NAME = "SLUG"


def new(name: str) -> tuple[Path, Path]:
    """Write specs/<name>.yaml and specs/<name>.md. Raises Rejected with E206 or E207 for the name, E113 outside a project,
    E403 when either file is there."""
    _check(name)
    spec, words = SPECS / f"{name}.yaml", SPECS / f"{name}.md"
    there = [path for path in (spec, words) if path.exists() or path.is_symlink()]
    if there:
        raise Rejected(
            [
                Diagnostic(
                    "E403",
                    f"{path} is there already",
                    why="octavo never overwrites what people write",
                    fix=f"choose another name, or edit {path}",
                )
                for path in there
            ]
        )
    for path, template in ((spec, "spec.yaml"), (words, "interpretation.md")):
        with path.open("x", encoding="utf-8") as file:  # x: a file that appeared since the look above is not overwritten either
            file.write(_template(template).replace(_NAME, name))
    return spec, words


def commands(name: str) -> str:
    """What to type next, for a spec that has just been written."""
    return f"""\
next:
  octavo check --rewards {name}
  octavo compile {name}@smoke && dvc repro runs/{name}@smoke/dvc.yaml    # the machinery, in about a minute
  git add specs/{name}.* && git commit -m 'Rules of {name}'    # before there are data: a younger rule decides nothing
  echo '- {name}' >> specs/pipeline.yaml && octavo compile && dvc repro    # make it live, and run it
"""


def _check(name: str) -> None:
    try:
        slug(name)
    except PydanticCustomError as error:
        raise Rejected([problem(error.type, **(error.context or {}))]) from None
    if not SPECS.is_dir():
        raise Rejected(
            [
                Diagnostic(
                    "E113",
                    f"no {SPECS}/ in this folder",
                    why="octavo runs in the project's root",
                    fix=f"cd to the folder that holds {SPECS}/, or: mkdir {SPECS}",
                )
            ]
        )


def _template(name: str) -> str:
    return resources.files("compiler").joinpath("templates", name).read_text(encoding="utf-8")
