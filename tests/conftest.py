"""Options and fixtures shared by all tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from compiler.build.code_versions import counted_units
from stages.contracts.code import OTHER_VERSIONS, Judgement
from stages.contracts.code_tree import CodeTree

ROOT = Path(__file__).parents[1]


settings.register_profile("octavo", settings(), deadline=None)  # a busy machine is no failure; all else as where the tests run
settings.load_profile("octavo")


def pytest_configure() -> None:
    """A shell ignores SIGINT for what it starts in the background, nohup ignores SIGHUP, and all that is started below inherits both:
    tests of signals would wait for what never comes."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.fixture(scope="session", autouse=True)
def code_read_once() -> Iterator[None]:
    """A stage is a process of its own and reads its code once; the tests call many stages in one process."""
    modules: dict[tuple[Path, int, int], Any] = {}
    read = CodeTree._read

    def remembered(tree: CodeTree, name: str) -> Any:
        path = tree.root / f"{name.replace('.', '/')}.py"
        if not path.is_file() or path.with_suffix(".csv").is_file():
            return read(tree, name)
        key = (path, path.stat().st_mtime_ns, path.stat().st_size)
        if key not in modules:
            modules[key] = read(tree, name)
        return modules[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CodeTree, "_read", remembered)
        yield


@pytest.fixture(scope="session", autouse=True)
def judged_code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests hold for code that is not judged yet: they see a file of code versions in which all of it is version 1."""
    path = tmp_path_factory.mktemp("code") / "code_versions.jsonl"
    tree = CodeTree(ROOT)
    digests = {unit: tree.digest(f"stages.{unit}") for unit in counted_units()}
    path.write_text(Judgement(results="new", why="tests", who="tests", at="2026-01-01T00:00:00Z", digests=digests).model_dump_json() + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(OTHER_VERSIONS, str(path))
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the files of tests/golden and the messages in tests/errors")


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten; review their diff like code."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT
