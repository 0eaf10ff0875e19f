"""The author's interpretation, `specs/<experiment>.md`: front matter that says for which verdicts it was written, then Markdown in which
`{{ ... }}` refers to numbers, verdicts, figures and tables. The compiler and the page read it with this module."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from stages.contracts.artifact import ArtifactError, Frozen
from stages.contracts.files import read_text
from stages.contracts.names import SLUG, Slug

VerdictName = Literal["supported", "refuted", "inconclusive", "void"]
TABLES = ("conditions", "seeds", "expectations")
"""Tables that an interpretation can show."""
_FRONT = re.compile(r"---[ \t]*\r?\n(.{0,20000}?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_COSTLY = re.compile(r"[&*]|<<")
MOST_BRACKETS = 200
_CODE = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)|(?P<ticks>`+).+?(?P=ticks)", re.DOTALL | re.MULTILINE)
_REFERENCE = re.compile(r"\{\{.{0,200}?\}\}", re.DOTALL)
_PARTS = re.compile(r"\{\{\s*(?P<name>[^\s|]+)\s*(?P<forms>(?:\|\s*(?:interval|value|digits\s+\d)\s*)*)\}\}")
_FORM = re.compile(r"\|\s*(\w+)(?:\s+(\d))?")


class FrontMatter(Frozen):
    """What stands between two lines of `---` at the beginning."""

    written_for: dict[Slug, VerdictName | Annotated[tuple[VerdictName, ...], Field(min_length=1)]] = {}


class Reference(NamedTuple):
    """What `{{ ... }}` names. `kind`: finding, claim, figure or table. `experiment`: of a finding of another one, else empty."""

    kind: str
    name: str
    experiment: str
    interval: bool
    digits: int | None


class Interpretation(NamedTuple):
    """`text` has the front matter's lines blank, so that places in it are those in the file."""

    text: str
    written_for: Mapping[str, tuple[str, ...]]

    @property
    def references(self) -> Iterator[tuple[str, int, int]]:
        r"""Each reference outside of code, with its line and column. In a table's cell a `|` is written `\|`."""
        plain = _CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), self.text)
        for match in _REFERENCE.finditer(plain):
            yield match[0].replace(r"\|", "|"), plain.count("\n", 0, match.start()) + 1, match.start() - plain.rfind("\n", 0, match.start())

    def unstated(self, claims: Iterable[str]) -> list[str]:
        """Claims for whose verdict it does not say that it was written."""
        return [claim for claim in claims if claim not in self.written_for]


def read_interpretation(path: Path) -> Interpretation:
    """Raises ArtifactError for a file that cannot be read or whose front matter is wrong."""
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(path, f"the interpretation cannot be read: {error}", why="the page shows it", fix="octavo compile") from None
    front = _FRONT.match(text)
    if front is None:
        return Interpretation(text, {})
    try:
        if _COSTLY.search(front[1]) or front[1].count("[") + front[1].count("{") > MOST_BRACKETS:
            raise YAMLError("it has anchors, merges or hundreds of brackets")  # a few lines of them can take hours
        written = FrontMatter.model_validate(YAML(typ="safe", pure=True).load(front[1]) or {}).written_for
    except (YAMLError, ValidationError, RecursionError) as error:
        words = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error).partition("\n")[0]}
        what = f"the front matter cannot be read: {'.'.join(map(str, words['loc'][:2])) or 'front matter'}: {words['msg']}"
        why = "it says for which verdicts the interpretation was written"
        raise ArtifactError(path, what, why=why, fix="written_for: {<claim>: supported}") from None
    states = {claim: (state,) if isinstance(state, str) else state for claim, state in written.items()}
    return Interpretation("\n" * front[0].count("\n") + text[front.end() :], states)


def parse_reference(source: str) -> Reference | None:
    """None where it is no reference."""
    parts = _PARTS.fullmatch(source)
    if parts is None:
        return None
    forms = dict(_FORM.findall(parts["forms"]))
    digits = int(forms["digits"]) if "digits" in forms else None
    before, colon, name = parts["name"].partition(":")
    if colon and before in ("claim", "figure", "table") and "/" not in name:
        return None if forms else Reference(before, name, "", False, None)
    other = bool(colon) and SLUG.fullmatch(before.partition("@")[0]) is not None and "-vs-" not in before
    return Reference("finding", parts["name"], before if other else "", "interval" in forms, digits)
