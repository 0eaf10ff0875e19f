"""Stage: train one run with the author's own program, and read the history that it writes.

    python -m stages.train.command runs/<experiment>/<run>

The program is a list of arguments from the run's card: no shell, and placeholders only as whole arguments. It gets the card as a
file, and a folder of its own that survives a kill, so it may resume. An exit code of 0 is no success by itself: the history must
reach the target. Exit 0: finished, or failed and recorded. Exit 1: nothing was recorded. Exit 130: stopped by a signal.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from stages.contracts.attempt import FailureClass
from stages.contracts.files import file_digest, make_folder, open_append, open_file
from stages.contracts.import_card import CommandCard, ImportCard, SourceCard
from stages.contracts.layout import RunFolder
from stages.contracts.stage import card_id, main, open_card, print_text
from stages.train import interrupts
from stages.train.attempts import Stopped, begin, checkpoints, classify, end, exit_code, lock, under
from stages.train.environment import prepare
from stages.train.imports.files import ReadRun, read_log, read_run, write_files
from stages.train.imports.log import Unreadable
from stages.train.imports.mapping import Mapped, nothing
from stages.train.refusals import refusal

MODULE = "stages.train.command"
GRACE_SECONDS = 30.0
"""Time that the program has to end after SIGTERM, before SIGKILL."""
PROGRAM_PATH = "OCTAVO_PYTHONPATH"
"""Environment variable: what PYTHONPATH was before `octavo run` put the copy of octavo's code there."""
_LAST_OUTPUT = 2_000
_NO_MEMORY = re.compile(r"out of memory|^\s*(\w+\.)*(MemoryError|OutOfMemoryError)\b", re.IGNORECASE)


def train(folder: Path) -> int:
    """One attempt of a run."""
    run = RunFolder(folder)
    card = open_card(ImportCard, run.import_card, [MODULE])
    command = card.command
    assert command is not None  # the compiler names this stage for cards with a command only
    for source in command.code:
        if not Path(source.path).is_file() or file_digest(Path(source.path)) != source.sha256:
            raise refusal("S289", path=source.path)
    prepare("cpu")
    interrupts.install_handlers()
    with interrupts.deferred(), lock(run):
        return _attempt(run, card, command)


def _attempt(run: RunFolder, card: ImportCard, command: CommandCard) -> int:
    identity = card_id(card)
    scratch = checkpoints(identity)
    before = under(run, identity)
    if before and before[-1].state == "finished":  # asked for again because its files are gone, or by force: from the start
        shutil.rmtree(scratch, ignore_errors=True)
    out = scratch / "out"
    make_folder(out)
    interrupts.check()
    started = begin(run, identity, devices=(), sandbox="", resumed_from=None)
    begun, log = time.monotonic(), out / command.log
    failure: FailureClass | None = None
    error: str | None = None
    try:
        with interrupts.interruptible():
            _run(run, card, command, out)
    except (Exception, KeyboardInterrupt) as caught:
        failure, error = classify(caught)
    history = nothing()
    try:
        history = _history(card, log)
    except Unreadable as unreadable:
        failure, error = (failure, error) if failure else ("data", str(unreadable))
    if failure is None and history.last < card.target_steps:
        failure, error = "bug", f"the program ended with exit code 0 after {history.last} of {card.target_steps} steps"
    source = SourceCard(path=log.as_posix(), sha256=file_digest(log) if log.exists() else "")
    result = ReadRun(source, history, steps_done=history.last, failed=error or "", failure=failure)
    outcome = write_files(run, card, started, result)
    end(run, started, outcome, time.monotonic() - begun)
    if failure is None:
        return 0
    print_text(f"\n{run.root}: attempt {started.number} failed ({failure}) after step {history.last}: {error}", is_error=True)
    return exit_code(failure)


def _environment() -> dict[str, str]:
    """What the program gets: without the way to octavo's own code that `octavo run` gives to its stages. It imports what lies beside it."""
    own = {name: value for name, value in os.environ.items() if name not in ("PYTHONSAFEPATH", "PYTHONPATH")}
    if (given := os.environ.get(PROGRAM_PATH)) is None:
        return dict(os.environ)
    return {**own, "PYTHONPATH": given} if given else own


def _history(card: ImportCard, log: Path) -> Mapped:
    if not log.exists():
        raise Unreadable("no_log", name=log.name)
    return read_run(card, read_log(log, card.read)).history


def _run(run: RunFolder, card: ImportCard, command: CommandCard, out: Path) -> None:
    """Run the program to its end. Raises Stopped when it fails, KeyboardInterrupt when we are stopped (the program is ended first)."""
    paths = {"{card}": str(run.import_card.resolve()), "{out}": str(out.resolve())}
    values = {**paths, "{seed}": str(card.seed), "{steps}": str(card.target_steps)}
    arguments = [values.get(argument, argument) for argument in command.arguments]
    if arguments[0] == "python":
        arguments[0] = sys.executable
    output = out / "output.txt"
    print_text(f"{card.experiment} {run.name}: {command.arguments[0]} ..., {card.target_steps} steps, output in {output}")
    with open_append(output) as stream:
        before = stream.tell()
        try:
            child = subprocess.Popen(
                arguments,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: interrupts.end_with_parent(signal.SIGTERM),
            )
        except OSError as refused:
            raise Stopped("bug", f"`{command.arguments[0]}` cannot be run: {refused.strerror}") from None
        try:
            code = child.wait()
        except KeyboardInterrupt:
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(child.pid, signal.SIGTERM)
                child.wait(GRACE_SECONDS)
            raise
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # what it left behind would write beside the next attempt
    if code == 0:
        return
    with open_file(output) as written:
        written.seek(max(before, output.stat().st_size - _LAST_OUTPUT))
        lines = written.read(_LAST_OUTPUT).decode("utf-8", "replace").strip().splitlines()
    failure: FailureClass = "bug"
    if code in (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP):
        failure = "interrupted"
    elif any(_NO_MEMORY.search(line) for line in lines[-20:]):
        failure = "out_of_memory"
    ended = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    raise Stopped(failure, f"the program {ended}" + (f": {lines[-1][:200]}" if lines else ""))


if __name__ == "__main__":
    main(train, "python -m stages.train.command runs/<experiment>/<run>")
