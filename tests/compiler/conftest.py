"""A small project for the compiler's tests: `tests/compiler/project/`, copied, with the working directory in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from plan_project import commit, compiles, inside, lay_out, repro

from compiler.build.inputs import Inputs
from compiler.build.pipeline import named
from compiler.compile import Compiled, Project, compile_all, project

PROJECT = Path(__file__).parent / "project"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's folder; `specs/example.yaml` is its experiment."""
    shutil.copytree(PROJECT, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def spec() -> str:
    """Text of the example spec."""
    return (PROJECT / "specs/example.yaml").read_text(encoding="utf-8")


@pytest.fixture
def compiled(work: Path) -> Callable[..., Compiled]:
    """Compile a spec's text to cards."""

    def run(text: str, name: str = "example") -> Compiled:
        (work / "specs" / "example.yaml").write_text(text, encoding="utf-8")
        return compile_all([named(name)], Inputs())[0]

    return run


@pytest.fixture
def files(compiled: Callable[..., Compiled]) -> Callable[..., Project]:
    """Compile a spec's text to the texts of all files."""
    return lambda text, name="example": project([compiled(text, name)], with_site=True)


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which DVC has run everything, with stand-ins for the stages, and all of it is committed. Copy it before a change."""
    root = tmp_path_factory.mktemp("plan") / "project"
    lay_out(root)
    with inside(root) as patch:
        compiles()
        assert len(repro(patch)) == 22
        commit(root, "ran")
    return root


@pytest.fixture
def at_work(ran: Path, tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    """A copy of it as the working directory."""
    shutil.copytree(ran, tmp_path / "project", symlinks=True)
    with inside(tmp_path / "project") as patch:
        yield patch
