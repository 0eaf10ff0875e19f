"""Every code's full rendered text: `tests/golden_errors/<code>[-what]/` holds a spec (or a command, files, or a file to be
without) and what octavo says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from compiler.__main__ import main

CASES = Path(__file__).parents[1] / "golden_errors"
PROJECT = CASES / "_project"
NAMES = sorted(path.name for path in CASES.iterdir() if path != PROJECT)


@pytest.mark.parametrize("name", NAMES)
def test_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], update_golden: bool) -> None:
    case = CASES / name
    shutil.copytree(PROJECT, tmp_path, dirs_exist_ok=True)
    if (case / "files").exists():
        shutil.copytree(case / "files", tmp_path, dirs_exist_ok=True)
    if (case / "spec.yaml").exists():
        shutil.copyfile(case / "spec.yaml", tmp_path / "specs" / "example.yaml")
    if (case / "without").exists():
        (tmp_path / (case / "without").read_text().strip()).unlink()
    monkeypatch.chdir(tmp_path)
    before = snapshot(tmp_path)

    command = (case / "command").read_text() if (case / "command").exists() else "check example"
    code = main(command.split())

    said = capsys.readouterr().err
    expected = case / "expected.txt"
    if update_golden:
        expected.write_text(said, encoding="utf-8")
    assert said == expected.read_text(encoding="utf-8")
    assert code == (0 if name.startswith("W") else 1)
    assert snapshot(tmp_path) == before, "a refused or merely checked spec writes nothing"
    if name[0] in "EW":
        assert name[:4] in re.findall(r"\b[EW]\d{3}\b", said)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".cache" not in path.parts
    }
