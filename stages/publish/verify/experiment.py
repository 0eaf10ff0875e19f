"""One experiment, from its files alone: what contradicts itself, what the files do not give, what the site does not carry."""

from __future__ import annotations

import json

from stages.contracts.layout import ExperimentFolder
from stages.contracts.verification import Difference, Verified
from stages.publish.verify import built, recompute
from stages.publish.verify.contradictions import contradictions


def verify(experiment: ExperimentFolder) -> Verified:
    """Everything but cards and locks, which the compiler knows."""
    found, checked = contradictions(experiment)
    made = recompute.recompute(experiment)
    values, notes = recompute.differences(experiment, made)
    site, pages = built.differences(experiment, made.files) if made.failed is None else ([], 0)
    checked |= {"findings computed again": _findings(experiment, made.files), "files computed again": len(made.files)}
    if pages:
        checked["files of the site"] = pages
    elif not built.SITE.is_dir():
        notes = [*notes, f"no site is built in {built.SITE}, so none was checked"]
    return Verified(experiment=experiment.name, checked=checked, differences=_each_once([*found, *values, *site]), notes=tuple(notes))


def _findings(experiment: ExperimentFolder, files: dict[str, bytes]) -> int:
    written = files.get(experiment.findings.as_posix())
    return len(json.loads(written)["findings"]) if written else 0


def _each_once(found: list[Difference]) -> tuple[Difference, ...]:
    return tuple(dict.fromkeys(found))
