"""Values that many sections of a spec have: names and paths, which become folders, commands, stages and web addresses and are checked here
and nowhere else; shares; and bounds of which exactly one is given."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from stages.contracts.artifact import Section

SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
SLUG_CHARS = 64
PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*")
HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
HUB_ID_CHARS = 96
RESERVED = {
    *("con", "nul", "prn", "aux", *(f"{device}{number}" for device in ("com", "lpt") for number in range(1, 10))),
    *("untrained", "analysis", "page", "preflight", "experiment", "experiments", "pipeline", "models", "shared"),
}
"""Names that mean a folder of every experiment, a finding's subject, or a device on Windows."""


def refused(code: str, **facts: Any) -> PydanticCustomError:
    """A validator's error with a message of the catalogue: `code` such as `E206`, and its facts."""
    return PydanticCustomError(code, code, facts)


def exactly_one(*keys: str, says: str, why: str, fix: str) -> Any:
    """A validator of a model: E209 unless exactly one of the fields is given. `says` begins the sentence, such as `a claim has`."""
    listed = f"{', '.join(f'`{key}`' for key in keys[:-1])} and `{keys[-1]}`"

    def check(self: Any) -> Any:
        given = [key for key in keys if getattr(self, key) is not None]
        if len(given) != 1:
            repair = f"delete {' or '.join(f'`{key}`' for key in given)}" if given else fix
            raise refused("E209.one", says=says, keys=listed, why=why, fix=repair)
        return self

    return model_validator(mode="after")(check)


def slug(name: str) -> str:
    """A name that becomes a folder, a stage and part of a finding's id. Raises E206 or E207."""
    if not SLUG.fullmatch(name) or len(name) > SLUG_CHARS:
        raise refused("E206", name=name[:80], example=f"`{slugged(name)}`" if slugged(name) else "a name such as `shaped`")
    if name in RESERVED:
        raise refused("E207", name=name)
    if "-vs-" in f"-{name}-":
        raise refused("E207.versus", name=name, example=slugged(name.replace("vs", "or")))
    return name


def project_path(path: str) -> str:
    """A relative path inside the project. Raises E212."""
    if len(path) > 200 or not PATH.fullmatch(path):
        raise refused("E212", path=path[:80])
    return path


def is_hub_id(text: str) -> bool:
    """Whether the Hugging Face hub could have a repository of this name."""
    has_odd_ends = any(part.endswith(("-", ".", ".git")) for part in text.split("/"))
    return HUB_ID.fullmatch(text) is not None and len(text) <= HUB_ID_CHARS and "--" not in text and ".." not in text and not has_odd_ends


def hub_id(text: str) -> str:
    """`owner/name` of a repository on the Hugging Face hub. Raises E276."""
    if not is_hub_id(text):
        raise refused("E276", id=text[:80])
    return text


def slugged(name: str) -> str:
    """A slug of the letters and digits of a text; empty without any."""
    return "-".join(re.findall(r"[a-z0-9]+", name.lower()))[:SLUG_CHARS].strip("-")


def experiment_name(name: str) -> str:
    """An experiment, or one of its profiles as `experiment@profile`. Raises E206 or E207."""
    for part in name.split("@", 1):
        slug(part)
    return name


Slug = Annotated[str, AfterValidator(slug)]
ExperimentName = Annotated[str, AfterValidator(experiment_name)]
ProjectPath = Annotated[str, AfterValidator(project_path)]
HubId = Annotated[str, AfterValidator(hub_id)]
Share = Annotated[float, Field(ge=0, le=1, json_schema_extra={"unit": "share"})]
Limit = Annotated[float | None, Field(ge=-1e12, le=1e12, json_schema_extra={"unit": "share"})]
"""A value of any metric; of a share it may be written as `5%`."""


class _Bounds(Section):
    above: Limit = Field(None, description="It holds when the value, of a claim its whole interval, lies above this.")
    below: Limit = Field(None, description="It holds when the value, of a claim its whole interval, lies below this.")

    @property
    def bound(self) -> float:
        """The bound; of two the lower one."""
        return self.above if self.above is not None else self.below or 0.0


class OneBound(_Bounds):
    """A number that a value must lie above, or one that it must lie below."""

    _one_bound = exactly_one("above", "below", says="a rule has", why="the bound and its side decide it", fix="above: 0.05")

    @property
    def direction(self) -> Literal["above", "below"]:
        return "above" if self.above is not None else "below"


class Band(_Bounds):
    """A number that a value must lie above, one that it must lie below, or both: then it lies between them."""

    @property
    def direction(self) -> Literal["above", "below", "between"]:
        return "below" if self.above is None else "above" if self.below is None else "between"

    @property
    def upper(self) -> float | None:
        """Of two bounds the upper one."""
        return self.below if self.above is not None else None

    @model_validator(mode="after")
    def _lies_somewhere(self) -> Band:
        if self.above is None and self.below is None:
            raise refused("E209.band")
        if self.upper is not None and self.bound >= self.upper:
            raise refused("E220.band", low=self.bound, high=self.upper, fix=f"above: {self.upper:g}, below: {self.bound:g}")
        return self
