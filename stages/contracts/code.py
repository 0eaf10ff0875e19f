"""Code versions: whether a change of octavo's own code changes results is decided once, in one reviewed line.

A unit is a module that a stage runs, such as `train.trl`, or a plug-in that its card names, such as `train.rewards.format`. Its digest
covers what its import closure inside this project means. `stages/code_versions.jsonl` knows the digests of octavo's own training,
evaluation and analysis: each line says which digests came in, whether results stay the same, why, and who judged it. A card holds the
version of each of its units, so a change that is judged equal runs nothing again.

A unit that no line names, such as a user's own gate or the page, has its digest in place of a version: any change of it is a new result.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from stages.contracts.artifact import ArtifactError, Frozen, Time, later
from stages.contracts.code_tree import CodeTree
from stages.contracts.files import parse_json, read_text

VERSIONS = Path("stages/code_versions.jsonl")
OTHER_VERSIONS = "OCTAVO_CODE_VERSIONS"
"""Environment variable with the path of another file of code versions: tests of code that is not judged yet set it."""

Version = int | str
"""A version that `code_versions.jsonl` counts, or the digest of a unit that it does not name."""
Code = Mapping[str, Version]
"""Unit -> its version, as cards hold it."""


class Judgement(Frozen):
    """One line of `code_versions.jsonl`."""

    results: Literal["same", "new"]
    """Whether results stay the same with the new digests. The first line of a unit says `new`: it is version 1."""
    why: str
    who: str
    """`user.name <user.email>` of git. Untrusted text, as `why`: escape before showing."""
    at: Time
    digests: dict[str, str]
    """Unit -> digest of its code, 12 hex digits, for each unit that changed."""
    replays: tuple[str, ...] = later(())
    """What replays showed before the line was written (`octavo code same --replay`), a sentence each."""


class UnjudgedCode(Exception):
    """Code of units changed, and no line says whether their results stay the same."""

    def __init__(self, units: Sequence[str]) -> None:
        super().__init__(", ".join(units))
        self.units = tuple(units)


def code_versions(tree: CodeTree, modules: Iterable[str]) -> dict[str, Version]:
    """Unit -> version of dotted modules such as `stages.train.trl`. Raises UnjudgedCode and ArtifactError."""
    versions = count_versions(read_judgements(tree.root / VERSIONS))
    units = {module.removeprefix("stages."): module for module in modules}
    counted = {unit: versions[unit].get(tree.digest(module)) for unit, module in units.items() if unit in versions}
    if unjudged := [unit for unit, version in counted.items() if version is None]:
        raise UnjudgedCode(unjudged)
    covered = {file for unit in counted for file in tree.files(units[unit])}
    return {unit: counted.get(unit) or tree.digest(module, covered) for unit, module in units.items()}


def count_versions(judgements: Iterable[Judgement]) -> dict[str, dict[str, int]]:
    """Unit -> digest -> version. A digest that comes back, such as after a revert, keeps the version that it had."""
    versions: dict[str, dict[str, int]] = {}
    latest: dict[str, int] = {}
    for judgement in judgements:
        for unit, code in judgement.digests.items():
            if judgement.results == "new" or unit not in latest:
                latest[unit] = max(versions.get(unit, {}).values(), default=0) + 1
            versions.setdefault(unit, {}).setdefault(code, latest[unit])
            latest[unit] = versions[unit][code]
    return versions


def judged_same(judgements: Iterable[Judgement], code: Code) -> tuple[Judgement, ...]:
    """The judgements by which these versions stand for other digests than the one that began them."""
    same, judgements = [], list(judgements)
    versions = count_versions(judgements)
    for judgement in judgements:
        units = {unit: digest for unit, digest in judgement.digests.items() if code.get(unit) == versions[unit][digest]}
        if judgement.results == "same" and units:
            same.append(judgement.model_copy(update={"digests": units}))
    return tuple(same)


def versions_file(path: Path) -> Path:
    """The file of code versions that counts here: tests name another one in the environment."""
    return Path(os.environ.get(OTHER_VERSIONS) or path)


def read_judgements(path: Path) -> tuple[Judgement, ...]:
    """All lines of `code_versions.jsonl`; () when there is no file. Raises ArtifactError with the number of a broken line."""
    path = versions_file(path)
    if not path.exists():
        return ()
    judgements = []
    try:
        lines = read_text(path).split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise _broken(path, str(error)) from None
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                judgements.append(Judgement.model_validate(parse_json(line)))
            except ValueError as error:
                first = error.errors()[0] if isinstance(error, ValidationError) else None
                what = f"{'.'.join(map(str, first['loc'])) or '(line)'}: {first['msg']}" if first else str(error)
                raise _broken(f"{path}:{number}", what) from None
    return tuple(judgements)


def _broken(place: Path | str, what: str) -> ArtifactError:
    return ArtifactError(
        place, f"not a code version: {what}", why="`octavo code` appends whole lines; do not edit them", fix=f"git log -p {VERSIONS}"
    )
