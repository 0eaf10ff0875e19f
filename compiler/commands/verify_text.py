"""What `octavo verify` says in a terminal: one line for each thing that was looked at, and a diagnostic for each difference."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.commands.verify import WHY
from compiler.commands.verify_lock import DUE
from compiler.render import LIMIT, render
from stages.contracts.diagnostic import Diagnostic, Place
from stages.contracts.verification import Difference, Verification, Verified

MOST = 4
_KINDS = (
    ("generated files", ("E402",), "cards and pipelines, against what the spec compiles to"),
    ("locked files", ("E487",), "files and folders, against the hashes and sizes in dvc.lock"),
    ("runs", ("S495",), "runs: ledger, outcome, history and evaluation, against each other and the lineage"),
    ("sources read again", ("S496",), "imported runs read again from their sources, against history, outcome and imported.json"),
    ("findings computed again", ("S488",), "findings computed again from the files, with health, figures, page and passports"),
    ("files of the site", ("S489",), "files of the built site, against one that is built again from the pages"),
)


def text(found: Verification) -> str:
    """A summary of each experiment."""
    return "".join(f"{line}\n" for one in found.experiments for line in _summary(one))


def _summary(one: Verified) -> Iterator[str]:
    waiting = [difference for difference in one.differences if difference.code == DUE]
    rest = [difference for difference in one.differences if difference.code != DUE]
    said = [f"{_count(len(rest))} found"] if rest else []
    said += [_waiting(len(waiting))] if waiting else []
    yield f"{one.experiment}: {', '.join(said) or 'verified'}"
    for kind, codes, words in _KINDS:
        mine = [difference for difference in rest if difference.code in codes]
        rest = [difference for difference in rest if difference.code not in codes]
        if kind in one.checked or mine:
            yield f"  {'DIFFER' if mine else 'same':<6}  {one.checked.get(kind, 0):>5} {words}" + (f": {_count(len(mine))}" if mine else "")
    for difference in rest:
        yield f"  {'FAILED':<6}  {difference.what.splitlines()[0]}"
    yield from (f"  due     {difference.what.replace(' is due', '', 1)}" for difference in waiting)
    yield from (f"  note    {note}" for note in one.notes)


def diagnostics(found: Verification, colour: bool) -> str:
    """All differences, causes first."""
    told = list(dict.fromkeys(difference for one in found.experiments for difference in one.differences))
    waiting: dict[str, list[Difference]] = {}
    for difference in told:
        if difference.code == DUE:
            waiting.setdefault(difference.path, []).append(difference)
    told = [difference for difference in told if difference.code != DUE] + [_together(path, due) for path, due in waiting.items()]
    shown, hidden = told[:LIMIT], len(told) - LIMIT
    sources = {difference.path: _lines(difference.path) for difference in shown if difference.line}
    more = f"\nand {hidden} more, not shown: --json names all; repair these first, what rests on them follows\n" if hidden > 0 else ""
    return render([_diagnostic(difference) for difference in shown], sources, colour) + more


def _diagnostic(found: Difference) -> Diagnostic:
    what = found.what if found.line else f"{found.path}: {found.what}"
    if found.expected or found.found:
        what += f"; expected {found.expected or 'nothing'}, found {found.found or 'nothing'}"
    place = Place(found.path, found.line, found.column or 1, max(1, len(found.found) if found.column else 1)) if found.line else None
    return Diagnostic(
        found.code, what, why=WHY.get(found.code, "a stage says why it refuses; nothing after it was checked"), fix=found.fix, place=place
    )


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read().splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def _together(path: str, due: list[Difference]) -> Difference:
    """The summary names each of them with its reason."""
    names = ", ".join(difference.cell for difference in due[:MOST]) + (f" and {len(due) - MOST} more" if len(due) > MOST else "")
    return Difference(code=DUE, path=path, what=f"{_waiting(len(due))}: {names}", fix=due[0].fix)


def _waiting(number: int) -> str:
    return f"{number} stage{' is' if number == 1 else 's are'} due"


def _count(number: int) -> str:
    return f"{number} difference{'' if number == 1 else 's'}"
