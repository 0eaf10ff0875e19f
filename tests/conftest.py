"""Options and fixtures shared by all tests."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[1]


settings.register_profile("octavo", settings(), deadline=None)  # a busy machine is no failure; all else as where the tests run
settings.load_profile("octavo")


def pytest_configure() -> None:
    """A shell ignores SIGINT for what it starts in the background, nohup ignores SIGHUP, and all that is started below inherits both:
    tests of signals would wait for what never comes."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


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
