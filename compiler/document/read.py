"""YAML text -> Document: plain values, each with the place of its key and its value.

The parser is ruamel's C parser, read as events, so that depth, aliases and tags are checked before anything is built:
no input recurses, expands or hangs. Specs are data: tags, merge keys, duplicate keys and further documents are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compiler import disk
from compiler.document.builder import Builder
from compiler.document.node import Document
from compiler.problems import Rejected
from stages.contracts.diagnostic import Diagnostic, Place

MAX_BYTES = 1_000_000

_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


def read(path: Path) -> Document:
    """Read and parse one file. Raises Rejected with E1xx diagnostics."""
    file = path.as_posix()
    try:
        content = disk.read(path, MAX_BYTES + 1)
    except OSError as error:
        raise Rejected(
            [
                Diagnostic(
                    "E113",
                    f"cannot read {file}: {error.strerror or error}",
                    why="a spec is a file in specs/",
                    fix=f"check the name: ls {path.parent.as_posix()}",
                )
            ]
        ) from None
    return parse(content, file)


def parse(content: bytes, file: str) -> Document:
    """Parse the bytes of a file. Raises Rejected with E1xx diagnostics."""
    if len(content) > MAX_BYTES:
        raise _problem(
            "E108",
            f"the file is larger than {MAX_BYTES:,} bytes",
            Place(file, 1, 1),
            why="a spec is written by people; a bigger file is a mistake or an attack",
            fix="put data in data/ and name its path in the spec",
        )
    lines = _BREAK.split(content.decode("utf-8", "replace").removeprefix("\ufeff"))
    try:
        text = _decode(content, file)
        return Document(file, lines, Builder(file, lines).build(*events(text)))
    except Rejected as rejected:
        rejected.sources[file] = lines
        raise


def _decode(content: bytes, file: str) -> str:
    try:
        text = content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8", "replace")
        lines = _BREAK.split(before)
        raise _problem(
            "E105",
            f"byte 0x{content[error.start]:02x} is not UTF-8",
            Place(file, len(lines), len(lines[-1]) + 1),
            why="specs are UTF-8, so that every machine reads the same text",
            fix=f"iconv -f latin1 -t utf-8 {file} -o {file}",
        ) from None
    for index, character in enumerate(text):
        if (
            not (character >= " " or character in "\t\n\r")
            or ("\x7f" <= character <= "\x9f" and character != "\x85")
            or character in "\ufffe\uffff"
        ):
            lines = _BREAK.split(text[:index])
            raise _problem(
                "E105",
                f"control character U+{ord(character):04X}",
                Place(file, len(lines), len(lines[-1]) + 1),
                why="YAML allows no control characters, and they hide from reviewers",
                fix="delete the character, or write it as an escape in double quotes",
            )
    return text


def events(text: str) -> tuple[Callable[[], Any], type[Exception]]:
    """(function that gives the next event, exception of broken YAML). The pure parser gives the same events, slower."""
    from ruamel.yaml.error import YAMLError

    try:
        from ruamel.yaml.cyaml import CParser
    except ImportError:
        from ruamel.yaml import YAML

        parsed = iter(YAML(typ="safe", pure=True).parse(text))
        return lambda: next(parsed), YAMLError
    return CParser(text).get_event, YAMLError


def has_c_parser() -> bool:
    """Whether ruamel.yaml.clib is installed."""
    try:
        import ruamel.yaml.cyaml  # noqa: F401
    except ImportError:
        return False
    return True


def _problem(code: str, what: str, place: Place, *, why: str, fix: str) -> Rejected:
    return Rejected([Diagnostic(code, what, why=why, fix=fix, place=place)])
