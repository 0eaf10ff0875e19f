"""Reads `tests/errors/*.txt`: what octavo says about a wrong spec or command, many cases in a file.

    === E346 compile example      name of the case: its code, and what is special about it; the command, if it is not `check example`
    --- change weighted           lines of the spec that differ from bases/weighted.yaml (no name: the example of the tests' project)
    -    - tests: {weight: 0.8}
    +    - tests: {weight: 0.7}
    --- expect                    the whole text on standard error

Each change is a group of lines, separated from the next one by an empty line: ` ` a line for orientation, `-` a line to replace, `+` its
replacement. The lines with ` ` and `-` must follow each other somewhere in the base; the first place counts.

Further blocks: `spec` a whole spec, `file PATH` a file, `with NAME` the files of with/NAME/, `without` a file to delete, `nobody` git
knows no user, `committed` a file that is in git, `hub` and `wandb` what the stand-ins answer. A `change` may name the file that gets the
changed text. `escaped` after a block's name: its lines hold Python's escapes, for bytes that a reviewer would not see, and end without a
line break.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

ERRORS = Path(__file__).parents[1] / "errors"
SPEC = "specs/example.yaml"
EXAMPLE = Path(__file__).parent / "project" / SPEC
_CASE = re.compile(r"^=== (\S+) ?(.*)$")
_BLOCK = re.compile(r"^--- (change|spec|file|with|without|nobody|committed|hub|wandb|expect)\b ?(.*)$")


@dataclass
class Case:
    """`blocks`: (kind, argument, body) in the order of the file."""

    file: Path
    name: str
    command: str
    blocks: list[tuple[str, str, str]] = field(default_factory=list)

    def text(self, kind: str) -> str | None:
        """Body of the first block of this kind."""
        return next((body for block, _, body in self.blocks if block == kind), None)

    def files(self) -> dict[str, bytes]:
        """Path -> content of the files that the case adds or replaces, the spec among them."""
        files: dict[str, bytes] = {}
        for kind, argument, body in self.blocks:
            words = argument.split()
            content = _content(body, "escaped" in words)
            path = words[0] if kind == "file" else next((word for word in words if "/" in word), SPEC)
            if kind == "with":
                folder = ERRORS / "with" / argument
                files |= {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
            elif kind in ("spec", "file"):
                files[path] = content
            elif kind == "change":
                base = next((ERRORS / "bases" / f"{word}.yaml" for word in words if word not in ("escaped", path)), EXAMPLE)
                files[path] = changed(base.read_bytes(), content)
        return files


def changed(base: bytes, change: bytes) -> bytes:
    """The base with all groups of changed lines replaced. Raises ValueError when the lines of a group are not in it."""
    lines = base.split(b"\n")
    for group in re.split(rb"\n\n+", change.rstrip(b"\n")):
        marked = group.split(b"\n")
        old = [line[1:] for line in marked if line[:1] in (b" ", b"-")]
        new = [line[1:] for line in marked if line[:1] in (b" ", b"+")]
        places = [at for at in range(len(lines) - len(old) + 1) if lines[at : at + len(old)] == old]
        if not places:
            raise ValueError(f"the base does not hold these lines: {old}")
        lines[places[0] : places[0] + len(old)] = new
    return b"\n".join(lines)


def read(file: Path) -> list[Case]:
    """All cases of a file."""
    cases: list[Case] = []
    lines: list[str] = []
    for line in [*file.read_text(encoding="utf-8").split("\n"), "=== end"]:
        case, block = _CASE.match(line), _BLOCK.match(line)
        if not case and not block:
            lines.append(line)
            continue
        if cases and cases[-1].blocks:
            kind, argument, _ = cases[-1].blocks[-1]
            cases[-1].blocks[-1] = (kind, argument, "\n".join(lines).rstrip("\n") + "\n")
        lines = []
        if case:
            cases.append(Case(file, case[1], case[2] or "check example"))
        elif block:
            cases[-1].blocks.append((block[1], block[2], ""))
    return cases[:-1]


def write(file: Path, cases: list[Case]) -> None:
    """The inverse of read."""
    parts = []
    for case in cases:
        parts.append(f"=== {case.name} {case.command}".removesuffix(" check example") + "\n")
        for kind, argument, body in case.blocks:
            parts.append(f"--- {kind} {argument}".rstrip() + "\n" + (body if body.strip("\n") else ""))
    file.write_text("".join(parts), encoding="utf-8")


def all_cases() -> dict[str, Case]:
    """Name -> case, of all files."""
    return {case.name: case for file in sorted(ERRORS.glob("*.txt")) for case in read(file)}


def _content(body: str, escaped: bool) -> bytes:
    if escaped:
        return body.removesuffix("\n").encode().decode("unicode_escape").encode("latin-1")
    return body.encode()
