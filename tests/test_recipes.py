"""The recipes of CONTRIBUTING, carried out in a copy of the repository: what they touch by hand, and what changes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SPEC = Path("specs/quickstart.yaml")


class Repository:
    """A copy of what a compile reads. `touched` are the files that were written by hand."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.touched: set[str] = set()
        for folder in ("compiler", "stages", "specs", "data/quickstart"):
            shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "constraints.txt", root)
        (root / SPEC).with_name("pipeline.yaml").write_text("- quickstart\n")
        (root / "no-judgements.jsonl").touch()

    def write(self, path: str, text: str) -> None:
        (self.root / path).write_text(text)
        self.touched.add(path)

    def edit(self, path: str, old: str, new: str) -> None:
        text = (self.root / path).read_text()
        assert text.count(old) == 1, (path, old)
        self.write(path, text.replace(old, new))

    def spec(self, old: str, new: str) -> None:
        """Use what was added: no file of octavo's own."""
        path = self.root / SPEC
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new, 1))

    def octavo(self, *arguments: str) -> str:
        environment = {**os.environ, "OCTAVO_CODE_VERSIONS": str(self.root / "no-judgements.jsonl")}
        command = [sys.executable, "-m", "compiler", *arguments]
        ran = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def cards(self) -> dict[str, object]:
        """Path -> content of every card of a compile, without code versions and digests of pages."""
        self.octavo("compile")
        cards = {path.relative_to(self.root).as_posix(): json.loads(path.read_text()) for path in self.root.glob("runs/**/*.card.json")}
        for card in cards.values():
            card.pop("code")
            card.get("model", {}).pop("revision", None)  # of the model that this repository makes
        return cards


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    yield Repository(tmp_path / "octavo")


def recipe(heading: str) -> str:
    """The section of CONTRIBUTING."""
    return (ROOT / "CONTRIBUTING.md").read_text().split(f"## {heading}\n")[1].split("\n## ")[0]


def example(text: str) -> str:
    """The first block of Python of a section."""
    block = text.split("```python\n")[1].split("```")[0]
    return "\n".join(line.removeprefix("   ") for line in block.split("\n")).strip() + "\n"


def test_a_gate_is_one_file(repository):
    repository.write("stages/train/rewards/ends_with.py", example(recipe("Add a gate")))
    repository.spec("- format: {kind: format,", "- closed: {kind: ends_with, ending: ')', on_fail: 0.0}\n      - format: {kind: format,")
    card = repository.cards()["runs/quickstart/shaped-s1/train.card.json"]
    assert card["reward"]["gates"][0] == {"kind": "ends_with", "name": "closed", "on_fail": 0.0, "settings": {"ending": ")"}}
    assert "ends_with" in repository.octavo("schema")
    assert len(repository.touched) == 1


def test_a_detector_is_one_file_and_one_row(repository):
    text = (repository.root / "stages/analyse/detectors/throughput.py").read_text()
    repository.write("stages/analyse/detectors/slow_steps.py", text)
    last = "  duplicates: {}\nppo-default:\n"
    repository.edit("compiler/language/health_profiles.yaml", last, f"  slow_steps: {{}}\n{last}")
    screen = repository.cards()["runs/quickstart/analysis/screen.card.json"]
    assert "slow_steps" in [detector["kind"] for detector in screen["detectors"]]
    assert len(repository.touched) == 2


def test_a_spec_key_with_a_default_changes_no_card_that_does_not_use_it(repository):
    before = repository.cards()
    last = "    max_completion_length: int | None = Field("
    key = '    top_k: int = later(0, ge=0, description="Sample from the N likeliest tokens; 0: from all.")\n'
    repository.edit("stages/contracts/evaluation.py", last, key + last)
    repository.edit("stages/contracts/evaluation.py", "import Artifact, Frozen, Section", "import Artifact, Frozen, Section, later")
    assert repository.cards() == before
    repository.spec("  every: end\n", "  every: end\n  top_k: 20\n")
    after = repository.cards()
    assert {path for path in after if after[path] != before[path]} == {
        "runs/quickstart/analysis/evaluate.card.json",
        "runs/quickstart/page.card.json",  # it names where the spec writes each value
    }
    assert after["runs/quickstart/analysis/evaluate.card.json"]["top_k"] == 20
    origins = json.loads((repository.root / "runs/quickstart/origins.json").read_text())["cards"]["analysis/evaluate.card.json"]
    assert origins["/top_k"]["key"] == "evaluation.top_k"
    assert repository.touched == {"stages/contracts/evaluation.py"}, "beside the stage, which passes the value on"


def test_an_algorithm_is_a_file_of_settings_a_row_and_a_stage(repository):
    settings = (repository.root / "stages/contracts/training.py").read_text().replace("Rloo", "Remax").replace('"rloo"', '"remax"')
    repository.write("stages/contracts/remax.py", settings)
    repository.write("stages/train/remax.py", '"""Stage: train one run with ReMax."""\n')
    table, ppo, rloo = "stages/contracts/algorithms.py", '    "ppo": Algorithm(', "from stages.contracts.training import"
    row = '    "remax": Algorithm(RemaxSettings, "stages.train.remax", "grpo-default", _GROUPED, logs="rloo"),\n'
    repository.edit(table, ppo, row + ppo)
    repository.edit(table, rloo, f"from stages.contracts.remax import RemaxSettings\n{rloo}")
    repository.spec("  algorithm: grpo\n", "  algorithm: remax\n")
    card = repository.cards()["runs/quickstart/shaped-s1/train.card.json"]
    assert card["train"]["algorithm"] == "remax"
    assert "python -m stages.train.remax runs/quickstart/shaped-s1" in (repository.root / "runs/quickstart/dvc.yaml").read_text()
    assert len(repository.touched) == 3
