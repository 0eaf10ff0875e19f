"""What a page says of git, held against git: whether a rule is late decides a verdict, when exactly it was committed decides nothing."""

from __future__ import annotations

from stages.contracts.artifact import ArtifactError, read
from stages.contracts.dated import Changed
from stages.contracts.layout import ExperimentFolder
from stages.contracts.verification import Difference
from stages.publish.committed import whole_history
from stages.publish.experiment import RULES, load


def against_git(experiment: ExperimentFolder, fix: str) -> tuple[list[Difference], list[str]]:
    """(what decides otherwise now, notes). The page's other files are held against its own `rules.json`, so that one rule is one
    difference here and not dozens."""
    path = (experiment.page / RULES).as_posix()
    if not whole_history():
        return [], ["git's history is not here: when rules were written is taken from the page, and not checked"]
    try:
        then, now = read(Changed, experiment.page / RULES), load(experiment.root).changed
    except (ArtifactError, OSError) as error:
        what = f"cannot be held against git: {' '.join(str(error).split())[:200]}"
        return [Difference(code="S488", path=path, what=what, expected="a file", found="a broken one", fix=fix)], []
    found, notes = [], []
    for kind, older, newer in (("claim", then.rules, now.rules), ("expectation", then.expectations, now.expectations)):
        for name in {**older, **newer}:
            said, says = (one.get(name) for one in (older, newer))
            if said is None or says is None or bool(said.late) != bool(says.late):
                words = [one.written + (f" ({one.late})" if one.late else "") if one else "nothing" for one in (says, said)]
                found.append(_differs(path, f"{kind} {name}", words[0], words[1], fix))
            elif said != says:
                again = fix.rpartition("compute it again: ")[2]
                notes.append(f"{path}: git dates the {kind} {name} otherwise than when the page was built; to bring it up to date: {again}")
    for what in ("withdrawn", "dropped", "added"):
        said_of, says_of = getattr(then, what), getattr(now, what)
        if said_of != says_of:
            found.append(_differs(path, what, ", ".join(says_of) or "none", ", ".join(said_of) or "none", fix))
    return found, notes


def _differs(path: str, cell: str, expected: str, found: str, fix: str) -> Difference:
    what = f"{cell}: git tells otherwise than when the page was built"
    return Difference(code="S488", path=path, cell=cell, what=what, expected=expected, found=found, fix=fix)
