"""`octavo new`: a spec and its interpretation from commented templates. Asks nothing, overwrites nothing."""

from __future__ import annotations

import argparse
from importlib import resources
from pathlib import Path

from pydantic_core import PydanticCustomError

from compiler.build.inputs import Inputs
from compiler.build.pipeline import SPECS, named
from compiler.commands.check import show, with_profiles
from compiler.compile import compile_all
from compiler.problems import Rejected, problem
from stages.contracts.files import make_folder
from stages.contracts.names import slug

NEXT = """\
next:
  octavo check --rewards SLUG
  octavo compile SLUG@smoke && dvc repro runs/SLUG@smoke/dvc.yaml    # the machinery, in about a minute
  git add specs/SLUG.* && git commit -m 'Rules of SLUG'    # before there are data: a younger rule decides nothing
  echo '- SLUG' >> specs/pipeline.yaml && octavo compile && dvc repro    # make it live, and run it
"""


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """Write the two files and check them against the project: its data and base model may lie elsewhere."""
    for path in new(options.name):
        print(path)
    compiled = compile_all(with_profiles([named(options.name)], inputs), inputs)
    show([warning for each in compiled for warning in each.warnings], inputs)
    print(NEXT.replace("SLUG", options.name), end="")
    return 0


def new(name: str) -> tuple[Path, Path]:
    """Write specs/<name>.yaml and specs/<name>.md. Raises Rejected with E206 or E207 for the name, E113 outside a project, E403 if
    either file is there."""
    try:
        slug(name)
    except PydanticCustomError as error:
        raise Rejected([problem(error.type, **(error.context or {}))]) from None
    if not SPECS.is_dir():
        raise Rejected([problem("E113.project")])
    make_folder(SPECS)  # which is there, and no link
    spec, words = SPECS / f"{name}.yaml", SPECS / f"{name}.md"
    there = [path for path in (spec, words) if path.exists() or path.is_symlink()]
    if there:
        raise Rejected([problem("E403", path=path) for path in there])
    for path, template in ((spec, "spec.yaml"), (words, "interpretation.md")):
        text = resources.files("compiler").joinpath("templates", template).read_text(encoding="utf-8")
        with path.open("x", encoding="utf-8") as file:  # x: a file that appeared since the look above is not overwritten either
            file.write(text.replace("SLUG", name))
    return spec, words
