"""One experiment, from its files alone: what contradicts itself, what the files do not give, what the site does not carry."""

from __future__ import annotations

import json
from collections.abc import Set

from stages.contracts.layout import ExperimentFolder
from stages.contracts.verification import Difference, Verified
from stages.publish.verify import built, recompute
from stages.publish.verify.contradictions import contradictions
from stages.publish.verify.sources import sources


def verify(experiment: ExperimentFolder, due: Set[str] = frozenset(), cards: Set[str] = frozenset()) -> Verified:
    """Everything but cards and locks, which the compiler knows. `due`: names of stages that are to run anew, so that what they wrote is
    not held against what they would write; `cards`: files that are compiled anew since."""
    found, checked = contradictions(experiment)
    found = [one for one in found if one.path not in cards]
    imported = sources(experiment, due)
    found += imported.differences
    if imported.read:
        checked["sources read again"] = imported.read
    made = recompute.recompute(experiment, due)
    values, notes = recompute.differences(experiment, made)
    site, pages = built.differences(experiment, made.files) if made.failed is None and "page" not in due else ([], 0)
    if "conclude" not in due:
        checked["findings computed again"] = _findings(experiment, made.files)
    checked["files computed again"] = len(made.files)
    if pages:
        checked["files of the site"] = pages
    elif not built.SITE.is_dir():
        notes = [*notes, f"no site is built in {built.SITE}, so none was checked"]
    if skipped := [stage for stage in recompute.names() if stage in due]:
        notes = [*notes, f"not computed again, for it follows what is due: {', '.join(skipped)}"]
    told = (*imported.notes, *notes)
    return Verified(experiment=experiment.name, checked=checked, differences=_each_once([*found, *values, *site]), notes=told)


def _findings(experiment: ExperimentFolder, files: dict[str, bytes]) -> int:
    written = files.get(experiment.findings.as_posix())
    return len(json.loads(written)["findings"]) if written else 0


def _each_once(found: list[Difference]) -> tuple[Difference, ...]:
    return tuple(dict.fromkeys(found))
