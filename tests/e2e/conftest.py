import pytest
from project import Project, make


@pytest.fixture(scope="session")
def built(tmp_path_factory) -> Project:
    """A project after its first compile and `dvc repro`: tests copy it and go on from there."""
    project = make(tmp_path_factory.mktemp("e2e") / "built")
    project.octavo("compile")
    (project.root / "first-repro.txt").write_text(project.repro())
    return project


@pytest.fixture
def project(built, tmp_path) -> Project:
    return built.copy(tmp_path / "project")
