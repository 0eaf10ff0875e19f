"""`waivers.jsonl` of an experiment or a base model: code changes that a person judged to change no result. Append-only, in git.

A card whose stage ran with code `code_from` keeps that hash, and so its bytes and its results, while the code is `code_to` and all
else of the card is what it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from stages.contracts.artifact import ArtifactError, Frozen, digest

NAME = "waivers.jsonl"
_CODE = re.compile(r'\n  "code_hash": "([^"\n]*)"')


class Waiver(Frozen):
    """One card's waiver: a line of the file."""

    card: str
    """Path of the card below the folder that holds the file, such as `shaped-s1/train.card.json`."""
    identity: str
    """First 16 hex digits of the SHA-256 of the card's text without its code hash: with another card the waiver has expired."""
    code_from: str
    """Code hash that the stage ran with."""
    code_to: str
    """Code hash that is judged to give the same result."""
    who: str
    """`user.name <user.email>` of git. Untrusted text, as `why`: escape before showing."""
    why: str
    at: str
    """UTC, ISO 8601, seconds; of the command that wrote the line."""


def identity(text: str) -> str:
    """A canonical card's text without its code hash, as 16 hex digits. Only a top-level key stands after exactly two spaces."""
    return digest(_CODE.sub('\n  "code_hash": ""', text, count=1))[:16]


def coded(text: str) -> str:
    """The code hash of a canonical card's text; empty when it has none."""
    found = _CODE.search(text)
    return found[1] if found else ""


def recoded(text: str, code: str) -> str:
    """A canonical card's text with another code hash."""
    return _CODE.sub(f'\n  "code_hash": "{code}"', text, count=1)


def chain(waivers: Iterable[Waiver], card: str, identity: str, code: str) -> tuple[Waiver, ...]:
    """The waivers that lead from `code` back to what the card's stage ran with, newest first: c waived for b, b for a. () when none does.

    Of two lines for one hash the later one counts.
    """
    known = {waiver.code_to: waiver for waiver in waivers if (waiver.card, waiver.identity) == (card, identity)}
    found: list[Waiver] = []
    while code in known:
        found.append(known.pop(code))
        code = found[-1].code_from
    return tuple(found)


def covers(path: Path, code: str) -> bool:
    """Whether the card at `path` may stand for the code `code`, by the waivers beside it. Raises ArtifactError for a broken file."""
    for folder in (path.parent, path.parent.parent):
        if (folder / NAME).exists():
            text = path.read_text(encoding="utf-8")
            found = chain(read_waivers(folder / NAME), path.relative_to(folder).as_posix(), identity(text), code)
            return coded(text) in {waiver.code_from for waiver in found}
    return False


def read_waivers(path: Path) -> tuple[Waiver, ...]:
    """All waivers of a file, in its order; () when there is none. Raises ArtifactError with the number of a broken line."""
    if not path.exists():
        return ()
    found = []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        raise _broken(path, "not UTF-8") from None
    except OSError as error:
        raise _broken(path, error.strerror or "cannot be read") from None
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                found.append(Waiver.model_validate(json.loads(line)))
            except (ValueError, RecursionError) as error:
                first = error.errors()[0] if isinstance(error, ValidationError) else None
                said = f"{'.'.join(map(str, first['loc'])) or '(line)'}: {first['msg']}" if first else str(error)
                raise _broken(f"{path}:{number}", said) from None
    return tuple(found)


def _broken(place: Path | str, what: str) -> ArtifactError:
    path = str(place).rpartition(":")[0] or str(place)
    return ArtifactError(
        place, f"no waiver: {what}", why="`octavo waive` appends whole lines and nobody edits them", fix=f"git log -p {path}"
    )
