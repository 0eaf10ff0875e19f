import subprocess
import sys
from pathlib import Path

import pytest
from example_experiment import FAILED, build

from stages.contracts.artifact import read, write
from stages.contracts.attempt import Outcome
from stages.contracts.layout import ExperimentFolder
from stages.contracts.stage import ROOT
from stages.publish.complete import complete


def test_a_failed_and_a_missing_run_are_named_with_the_next_command(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = build(project, hostile="\x1b[31m")
    (folder / "zero-s3" / "outcome.json").unlink()
    assert complete([folder]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "quickstart: 10 of 12 runs finished"
    assert said[1] == f"  failed   {FAILED}: verifier after 31 of 60 steps: the sandbox died ⟨U+001B⟩[31m"
    assert said[2] == "  missing  zero-s3: no attempt has left an outcome"
    assert said[3].startswith("  next: dvc repro runs/quickstart/dvc.yaml")


def test_finished_experiments_end_with_0(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = build(project)
    path = ExperimentFolder(folder).run(FAILED).outcome
    write(path, read(Outcome, path).model_copy(update={"finished": True, "failure": None, "error": None, "steps_done": 60}))
    assert complete([folder, folder]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "quickstart: 12 of 12 runs finished"


def test_the_command_is_light_and_refuses_wrong_usage(project: Path) -> None:
    code = (
        "import sys; sys.argv=['x','runs/none']; import stages.publish.complete as c; r=c._main();"
        "print(r, [m for m in ('pandas','pyarrow','torch','jinja2','markdown') if m in sys.modules])"
    )
    made = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert made.stdout.strip() == "1 []" and "error S102" in made.stderr
    assert subprocess.run([sys.executable, "-m", "stages.publish.complete"], cwd=ROOT, capture_output=True, check=False).returncode == 2
