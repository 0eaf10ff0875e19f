import subprocess
import sys
from pathlib import Path

import pytest
from example_experiment import FAILED, build, import_card

from stages.contracts.artifact import read, write
from stages.contracts.attempt import Outcome
from stages.contracts.layout import ExperimentFolder
from stages.contracts.stage import ROOT
from stages.publish.complete import complete


def test_a_failed_and_a_missing_run_are_named_with_the_next_command(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = build(project, hostile="\x1b[31m")
    (folder / "zero-s3" / "outcome.json").unlink()
    assert complete([folder]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "quickstart: 10 of 12 runs finished"
    assert lines[1] == f"  failed   {FAILED}: verifier after 31 of 60 steps: the sandbox died ⟨U+001B⟩[31m"
    assert lines[2] == "  missing  zero-s3: no attempt has left an outcome"
    assert lines[3].startswith("  next: dvc repro runs/quickstart/dvc.yaml")


def test_a_refused_run_is_not_helped_by_another_repro(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = build(project)
    path = ExperimentFolder(folder).run(FAILED).outcome
    write(path, read(Outcome, path).model_copy(update={"failure": "refused", "steps_done": 0}))
    assert complete([folder]) == 1
    printed = capsys.readouterr().out
    assert "refused after 0 of 60 steps" in printed and "change its reward or the limits" in printed and "next:" not in printed


def test_finished_experiments_end_with_0(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = build(project)
    path = ExperimentFolder(folder).run(FAILED).outcome
    write(path, read(Outcome, path).model_copy(update={"finished": True, "failure": None, "error": None, "steps_done": 60}))
    assert complete([folder, folder]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "quickstart: 12 of 12 runs finished"


def test_an_imported_run_that_broke_off_is_read_and_not_missing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No `dvc repro` makes the log of a run longer, so none must end with an error for it."""
    folder = build(project)
    run = ExperimentFolder(folder).run(FAILED)
    words = "its own state says 31 of 60 steps"
    write(run.outcome, read(Outcome, run.outcome).model_copy(update={"failure": None, "error": words}))
    assert complete([folder]) == 1, "octavo trained it"
    run.card.unlink()
    write(run.import_card, import_card())
    run.imported.write_text("{}")
    capsys.readouterr()
    assert complete([folder]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "quickstart: 11 of 12 runs finished",
        f"  ended    {FAILED}: {words}; its log was read, and no dvc repro changes how it ended",
    ]
    write(run.outcome, read(Outcome, run.outcome).model_copy(update={"error": None, "unknown": "log ends at 31"}))
    assert complete([folder]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "quickstart: 11 of 12 runs finished",
        f"  unknown  {FAILED}: log ends at 31; its log was read, and does not say whether the run finished",
    ]
    write(run.outcome, read(Outcome, run.outcome).model_copy(update={"error": words, "unknown": ""}))
    run.imported.unlink()
    assert complete([folder]) == 1, "its log could not be read"


def test_the_command_is_light_and_refuses_wrong_usage(project: Path) -> None:
    code = (
        "import sys; sys.argv=['x','runs/none']; import stages.publish.complete as c; r=c._main();"
        "print(r, [m for m in ('pandas','pyarrow','torch','markdown') if m in sys.modules])"
    )
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "1 []" and "error S102" in process.stderr
    assert subprocess.run([sys.executable, "-m", "stages.publish.complete"], cwd=ROOT, capture_output=True, check=False).returncode == 2
