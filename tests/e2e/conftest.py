import os
from pathlib import Path

import pytest
from filelock import FileLock
from project import Project, make


@pytest.fixture(scope="session")
def built(tmp_path_factory) -> Project:
    """A project after its first compile and `dvc repro`, one for all workers: tests copy it and go on from there."""
    folder: Path = tmp_path_factory.getbasetemp()
    root = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "built"
    with FileLock(f"{root}.lock"):
        if not (root / "first-repro.txt").exists():
            project = make(root)
            project.octavo("compile")
            (root / "first-repro.txt").write_text(project.repro())
    return Project(root)


@pytest.fixture
def project(built, tmp_path) -> Project:
    return built.copy(tmp_path / "project")
