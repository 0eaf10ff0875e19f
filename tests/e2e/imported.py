"""A project of imported runs: a spec and its logs, compiled and run stage by stage in this process, without DVC."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from compiler.build.inputs import Inputs
from compiler.build.pipeline import named
from compiler.compile import compile_all, project
from stages.analyse.conclude import conclude
from stages.analyse.draw import draw
from stages.analyse.screen import screen
from stages.contracts.stage import ROOT
from stages.publish.page import page
from stages.train.collect import collect


def make(folder: Path, name: str, spec: str) -> None:
    """A project with one spec; the working directory must be `folder`."""
    shutil.copyfile(ROOT / "constraints.txt", folder / "constraints.txt")
    (folder / "specs").mkdir(exist_ok=True)
    (folder / "specs" / f"{name}.yaml").write_text(spec, encoding="utf-8")


def compiled(name: str) -> Path:
    """Write all cards; the experiment's folder."""
    outputs = project(compile_all([named(name)], Inputs()), with_site=False)
    for path, text in {**outputs.files, **outputs.once, **outputs.ignored}.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
    return Path("runs") / name


def run(folder: Path) -> Path:
    """All stages in the order of the pipeline; the page's folder."""
    for card in sorted(folder.glob("*/import.card.json")):
        assert collect(card.parent) == 0
    screen(folder)
    conclude(folder)
    draw(folder)
    page(folder)
    return folder / "page"


def findings(folder: Path) -> dict[str, dict]:
    """Findings by id."""
    return {finding["id"]: finding for finding in json.loads((folder / "analysis/findings.json").read_text())["findings"]}


def health(folder: Path, run_name: str) -> dict:
    return json.loads((folder / run_name / "health.json").read_text())
