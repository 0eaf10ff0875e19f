"""What every stage does at its start and end: read its card, refuse a stale one, turn errors into plain messages."""

from __future__ import annotations

import atexit
import io
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn, TypeVar

from stages.contracts.artifact import Artifact, ArtifactError, digest, dump, read
from stages.contracts.code import UnjudgedCode, code_versions
from stages.contracts.code_tree import CodeTree
from stages.contracts.diagnostic import StageError, printable
from stages.contracts.files import FileRefused, check_folder, file_digest
from stages.contracts.layout import CHECKPOINTS, EVALUATIONS, LOCKS

A = TypeVar("A", bound=Artifact)
ROOT = Path(__file__).parents[2]
TRIED = "OCTAVO_TRIED"
"""Attempts of a run in this call of its stage so far, handed on to the process that takes our place. Another card begins to count anew."""
_opened: dict[Path, str] = {}
"""Cards that this process was begun for, with the digest of each file as it was then."""


def card_id(card: Artifact) -> str:
    """First 16 hex digits of the SHA-256 of the canonical card."""
    return digest(dump(card))[:16]


def open_card(kind: type[A], path: Path, modules: Iterable[str], plugins: Callable[[A], Iterable[str]] = lambda card: ()) -> A:
    """Read a card whose code versions are today's. Raises StageError S101 for another version or code without a judgement."""
    if path.exists():
        _opened[path] = file_digest(path)  # before it is read: whoever writes it between the two makes one run too many, not one too few
    card = read(kind, path)
    try:
        now = code_versions(CodeTree(ROOT), [*modules, *plugins(card)])
    except UnjudgedCode as unjudged:
        raise StageError(
            "S101",
            f"the code of {unjudged} changed, and no line says whether its results stay the same",
            why="each change of code that can change a result is judged once, so that no result is reused in silence",
            fix='octavo code same --why "..." when results stay the same, octavo code new --why "..." when they may change',
        ) from None
    if card.code != now:  # type: ignore[attr-defined]
        raise StageError(
            "S101",
            f"{path} was compiled for other code: {_differing(card.code, now)}",  # type: ignore[attr-defined]
            why="the result would carry the wrong code version",
            fix="octavo compile && dvc repro",
        )
    return card


def _differing(before: Mapping[str, object], now: Mapping[str, object]) -> str:
    """Units whose version differs: `train.grpo 1 -> 2`."""
    units = [unit for unit in sorted({*before, *now}) if before.get(unit) != now.get(unit)]
    return ", ".join(f"{unit} {before.get(unit, 'none')} -> {now.get(unit, 'none')}" for unit in units)


def main(stage: Callable[[Path], int | None], usage: str) -> None:
    """Run `stage(folder)` for the one argument of the command line; exit 0, 1 (with a message), 2 (usage),
    130 (stopped by a signal) or what it returns."""
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(f"usage: {usage}", file=sys.stderr)
        raise SystemExit(2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a locale without some character must end no stage: texts of specs and models are printed
            stream.reconfigure(errors="backslashreplace")
    try:
        for place in (Path(sys.argv[1]), CHECKPOINTS, LOCKS, EVALUATIONS):
            check_folder(place)
        code = stage(Path(sys.argv[1]))
    except StageError as error:
        _fail(error.code, error.what, error.why, error.fix)
    except ArtifactError as error:
        _fail("S102", f"{error.path}: {error.what}", error.why, error.fix)
    except FileRefused as refused:
        _fail("S103", f"{refused.filename} is not read or written: {refused.strerror}", refused.why, refused.fix)
    except OSError as error:
        path = error.filename2 or error.filename  # of a copy the second is what was written
        folder = os.path.dirname(str(path)) or "." if path else "."
        what, why = (
            f"{error.strerror or error}: {path or '(no file)'}",
            "the stage could not read or write a file (full disk, missing permission?)",
        )
        _fail("S103", what, why, f"df -h {folder} && ls -ld {folder}")
    except KeyboardInterrupt as stopped:
        print(f"\n{usage.rpartition(' ')[0]}: {stopped or 'stopped'}; `dvc repro` begins it again", file=sys.stderr)
        raise SystemExit(130) from None
    if not code:
        _again_if_compiled_anew()
    raise SystemExit(code or 0)


def print_text(text: str, *, is_error: bool = False) -> None:
    """Print what a stage says, which may hold text of a log, a model or a name of a file."""
    print(printable(text), file=sys.stderr if is_error else sys.stdout, flush=True)


def _fail(code: str, what: str, why: str, fix: str) -> NoReturn:
    print_text(f"error {code}: {what}\n  why: {why}\n  fix: {fix}", is_error=True)
    raise SystemExit(1) from None


def _again_if_compiled_anew() -> None:
    """Take the place of this process with the same stage when a card of it is another one by now: somebody edited the spec meanwhile.
    dvc reads what a stage depends on when it ends, so its lock would say that the new card made these files, and nothing would run."""
    for path, was in _opened.items():
        try:
            is_other = file_digest(path) != was
        except OSError:
            continue  # it has gone: dvc says so
        if is_other:
            print(f"{path} was compiled anew while this stage ran, so it runs again with the new card", flush=True)
            replace([sys.executable, *sys.orig_argv[1:]], {name: value for name, value in os.environ.items() if name != TRIED})


def replace(command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Take the place of this process: its memory, that of its devices and its pools of verifiers end, and the process id, which dvc waits
    for, stays."""
    atexit._run_exitfuncs()  # a process that is replaced runs no exit functions by itself
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], list(command), dict(environment))
