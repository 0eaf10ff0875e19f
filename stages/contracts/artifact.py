"""Strict, canonical JSON files: what every stage writes and every reader may rely on.

Canonical means sorted keys, UTF-8, two-space indent, one trailing newline: equal content gives equal bytes, so DVC reruns
nothing because of formatting. Strict means no bare NaN or Infinity: a number that does not exist is null with a reason.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from stages.contracts.files import FileRefused, read_json, write_text


def digest(text: str | bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text).hexdigest()


class ArtifactError(Exception):
    """A file between two stages is missing, broken or of another version. Carries place, why and fix."""

    def __init__(self, path: Path | str, what: str, *, why: str, fix: str) -> None:
        super().__init__(f"{path}: {what}\n  why: {why}\n  fix: {fix}")
        self.path, self.what, self.why, self.fix = str(path), what, why, fix


_TIME = "%Y-%m-%dT%H:%M:%SZ"


def _is_time(text: str) -> str:
    if datetime.strptime(text, _TIME).strftime(_TIME) != text:
        raise ValueError(f"{text!r} is no time such as 2026-01-31T23:59:59Z")
    return text


Time = Annotated[str, AfterValidator(_is_time)]
"""UTC, ISO 8601, seconds: the order of the texts is that of the times."""


def now() -> Time:
    """The time now."""
    return datetime.now(UTC).strftime(_TIME)


class Frozen(BaseModel):
    """Immutable value with closed keys; the parent of every model that is part of a contract."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)


def later(default: Any, **more: Any) -> Any:
    """A field that is left out of a dump while it has its default. A key that is added to the language is such a field, unless its
    default is absent anyway: then no card that does not use it changes."""
    return Field(default, exclude_if=lambda value: value == default, **more)


class Section(Frozen):
    """A section of a spec that cards embed as the spec writes it. Keys that are absent (null, or empty) by default are left out of a
    dump while nothing is given."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        for field in cls.model_fields.values():
            if not field.is_required() and field.default in (None, "", (), {}) and field.exclude_if is None:
                field.exclude_if = _is_absent


def _is_absent(value: Any) -> bool:
    return value is None or value in ("", (), {})


class Artifact(Frozen):
    """A file of its own. SCHEMA is `octavo.<name>/<version>` and is written under the key `schema`."""

    SCHEMA: ClassVar[str]


A = TypeVar("A", bound=Artifact)


def canonical_json(value: Any) -> str:
    """Canonical text of a JSON-able value. Raises ValueError on NaN or Infinity."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def dump(artifact: Artifact) -> str:
    """Canonical text of an artifact, schema included."""
    return canonical_json({"schema": artifact.SCHEMA, **artifact.model_dump(mode="json", by_alias=True)})


def write(path: Path, artifact: Artifact) -> None:
    """Write an artifact canonically and atomically."""
    write_text(path, dump(artifact))


def load_json(path: Path) -> Any:
    """Any JSON file. Raises ArtifactError when it is missing, not JSON, or no file that is read."""
    try:
        return read_json(path)
    except FileNotFoundError:
        raise ArtifactError(path, "the file is missing", why="an earlier stage writes it", fix="octavo compile && dvc repro") from None
    except FileRefused as refused:
        raise ArtifactError(path, str(refused.strerror), why=refused.why, fix=refused.fix) from None
    except ValueError as error:
        raise ArtifactError(path, f"not JSON: {error}", why="stages read only strict JSON", fix="octavo compile && dvc repro") from None


def read(kind: type[A], path: Path) -> A:
    """Read an artifact of one kind. Raises ArtifactError on a missing, broken or foreign file."""
    content = load_json(path)
    schema = content.pop("schema", None) if isinstance(content, dict) else None
    if schema != kind.SCHEMA:
        raise ArtifactError(
            path, f"schema is {schema!r}, expected {kind.SCHEMA!r}", why="another version or another file", fix="octavo compile"
        )
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "(top)"
        raise ArtifactError(path, f"{place}: {first['msg']}", why=f"{kind.SCHEMA} has closed, typed keys", fix="octavo compile") from None
