"""The synthetic experiment of `synthetic.complete`: to be changed by a test, or analysed once for all tests that only read it."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest
from synthetic import complete

from stages.analyse.conclude import conclude
from stages.analyse.draw import draw
from stages.analyse.screen import screen
from stages.contracts.layout import ExperimentFolder

EXPERIMENT = ExperimentFolder(Path("runs") / "synthetic")


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the stages before the analysis wrote."""
    root = tmp_path_factory.mktemp("written")
    complete(root)
    return root


@pytest.fixture(scope="session")
def analysed(written: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with everything that screen, conclude and draw write. Not to be changed."""
    root = Path(shutil.copytree(written, tmp_path_factory.mktemp("analysed") / "root"))
    with contextlib.chdir(root):
        for stage in (screen, conclude, draw):
            stage(EXPERIMENT.root)
    return root


@pytest.fixture
def folder(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExperimentFolder:
    """A copy before the analysis, which is the working directory."""
    monkeypatch.chdir(shutil.copytree(written, tmp_path, dirs_exist_ok=True))
    return EXPERIMENT


@pytest.fixture
def finished(analysed: Path, monkeypatch: pytest.MonkeyPatch) -> ExperimentFolder:
    """The analysed experiment, which is the working directory."""
    monkeypatch.chdir(analysed)
    return EXPERIMENT


@pytest.fixture
def again(analysed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExperimentFolder:
    """A copy of the analysed experiment, which is the working directory: to be changed and analysed again."""
    monkeypatch.chdir(shutil.copytree(analysed, tmp_path, dirs_exist_ok=True))
    return EXPERIMENT
