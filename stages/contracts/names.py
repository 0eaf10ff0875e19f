"""Names and paths of a spec: they become folders, commands, stages and web addresses, so they are checked here and nowhere else."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, model_validator
from pydantic_core import PydanticCustomError

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


def fault(code: str, what: str, why: str, fix: str) -> PydanticCustomError:
    """An error of a validator that already knows its code and its words."""
    return PydanticCustomError("octavo", "{what}", {"code": code, "what": what, "why": why, "fix": fix})


def exactly_one(*keys: str, says: str, why: str, fix: str) -> Any:
    """A validator of a model: E209 unless exactly one of the fields is given. `says` begins the sentence, such as `a claim has`."""
    listed = f"{', '.join(f'`{key}`' for key in keys[:-1])} and `{keys[-1]}`"

    def check(self: Any) -> Any:
        if sum(getattr(self, key) is not None for key in keys) != 1:
            raise fault("E209", f"{says} exactly one of {listed}", why, fix)
        return self

    return model_validator(mode="after")(check)


def slug(name: str) -> str:
    """A name that becomes a folder, a stage and part of a finding's id. Raises E206 or E207."""
    if not SLUG.fullmatch(name) or len(name) > SLUG_CHARS:
        raise fault(
            "E206",
            f"`{name[:80]}` is no name",
            f"names become folders, commands and web addresses: a-z, 0-9 and single `-` between them, at most {SLUG_CHARS} characters",
            f"write `{_slugged(name)}`" if _slugged(name) else "write a name such as `shaped`",
        )
    if name in RESERVED:
        raise fault(
            "E207", f"the name `{name}` is reserved", "a folder or a device has this name already", f"write `{name}-1` or another name"
        )
    if "-vs-" in f"-{name}-":
        raise fault(
            "E207",
            f"`{name}` contains `vs`",
            "findings name a contrast `a-vs-b`; such a name would be read as one",
            f"write `{_slugged(name.replace('vs', 'or'))}`",
        )
    return name


def project_path(path: str) -> str:
    """A relative path inside the project. Raises E212."""
    if len(path) > 200 or not PATH.fullmatch(path):
        raise fault(
            "E212",
            f"`{path[:80]}` is no path inside the project",
            "paths enter cards and dvc.yaml and must mean the same everywhere: relative, below the project, of letters, digits and `._-/`",
            "write a path such as `data/train.jsonl`",
        )
    return path


def is_hub_id(text: str) -> bool:
    """Whether the Hugging Face hub could have a repository of this name."""
    has_odd_ends = any(part.endswith(("-", ".", ".git")) for part in text.split("/"))
    return HUB_ID.fullmatch(text) is not None and len(text) <= HUB_ID_CHARS and "--" not in text and ".." not in text and not has_odd_ends


def hub_id(text: str) -> str:
    """`owner/name` of a repository on the Hugging Face hub. Raises E276."""
    if not is_hub_id(text):
        raise fault(
            "E276",
            f"`{text[:80]}` is no id of a hub repository",
            "the hub names a repository `owner/name`: letters, digits and single `._-` between them",
            "write an id such as `openai/gsm8k`, without an address and without a revision",
        )
    return text


def _slugged(name: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", name.lower()))[:SLUG_CHARS].strip("-")


Slug = Annotated[str, AfterValidator(slug)]
ProjectPath = Annotated[str, AfterValidator(project_path)]
HubId = Annotated[str, AfterValidator(hub_id)]
