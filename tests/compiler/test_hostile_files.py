"""Whatever lies where a command reads a file: an answer or a clear refusal, without a hang and in 200 MB, and no other file is lost."""

import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from test_fuzz_files import COMMANDS, FILES, restored, whole  # noqa: F401

from compiler.__main__ import main

SECONDS, MEGABYTES = 60, 200
"""Of CPU, after which the kernel ends a command that hangs, and of memory beyond what this process holds when it forks."""
DEEP = 100_000


def fifo(path: Path) -> None:
    os.mkfifo(path)


def link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 10**12)


def text(content: str | bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")) and None


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
HOSTILE: dict[str, Callable[[Path], None]] = {
    "a pipe": fifo,
    "a link": link,
    "a folder": lambda path: path.mkdir(),
    "a terabyte": huge,
    "brackets": text("[" * DEEP),
    "braces": text('{"a":' * DEEP),
    "keys": text("".join(" " * depth + "a:\n" for depth in range(1_000))),
    "values": text("[" + "0," * 3_000_000 + "0]"),
    "one line": text("a" * 20_000_000),
    "lines": text("a: 1\n" * 2_000_000),
    "rows": text("".join(f'{{"id": "{number}"}}\n' for number in range(200_000))),
    "aliases": text(BOMB),
    "itself": text("a: &a [*a]\n"),
    "NaN": text('{"schema": "octavo.retry/1", "id": "a", "prompt": NaN, "step": Infinity, "x": 1e999}\n'),
    "digits": text('{"id": "a", "prompt": ' + "9" * DEEP + "}\n"),
    "half a pair": text('{"id": "a", "prompt": "\\ud800"}\n'),
    "half a letter": text(b'{"id": "a", "prompt": "\xc3'),
    "blanks": text("schema: '2.0'\nstages:\n  a:\n    cmd:" + " " * DEEP + "x\n"),
    "zeros": text(b"\0" * DEEP),
}


def measured(command: list[str]) -> tuple[int, float, str]:
    """(exit code, MB that it took, output) of a command in a process of its own."""
    output, before = Path(".output"), psutil.Process().memory_info().rss
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        signal.alarm(10 * SECONDS)
        sys.stdout = sys.stderr = output.open("w", encoding="utf-8", errors="backslashreplace")
        code = 70
        try:
            code = main(command)
            sys.stdout.flush()
        finally:
            os._exit(code)
    _, status, used = os.wait4(child, 0)
    printed = output.read_text(encoding="utf-8", errors="replace")
    output.unlink()
    return os.waitstatus_to_exitcode(status), (used.ru_maxrss * 1024 - before) / 1e6, printed


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_ends_no_command(whole, monkeypatch, name, kind):  # noqa: F811
    monkeypatch.chdir(whole)
    path = Path(name)
    before = {path: path.read_bytes() if path.exists() else None}
    others = {other: other.read_bytes() for other in Path().rglob("*") if other.is_file() and other != path and ".cache" not in other.parts}
    try:
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        HOSTILE[kind](path)
        turn = (FILES.index(name) + list(HOSTILE).index(kind)) % len(COMMANDS)
        for command in COMMANDS if os.environ.get("OCTAVO_FUZZ") else COMMANDS[turn : turn + 1]:
            code, megabytes, printed = measured(command)
            assert code in (0, 1), (command, code, printed[-600:])
            assert code == 0 or "\n  fix: " in printed, (command, printed[-600:])
            assert megabytes < MEGABYTES, (command, megabytes)
            assert "root:" not in printed
            assert {other: other.read_bytes() for other in others} == others
    finally:
        if path.is_fifo():
            path.unlink()
        restored(before)
