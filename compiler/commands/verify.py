"""`octavo verify`: whether specs, cards, locks, files, findings, pages and the site say the same. Writes nothing that git knows."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Container, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from compiler.build.files import compare, write
from compiler.build.graph import Pipeline
from compiler.build.inputs import Inputs
from compiler.build.pipeline import SPECS, live, named
from compiler.commands.verify_lock import DUE, against_locks, due
from compiler.compile import Compiled, Project, compile_all, project
from compiler.lock.files import Cache, Files
from compiler.problems import catalogue, listed
from compiler.render import LIMIT, colour, render
from stages.contracts.artifact import dump
from stages.contracts.diagnostic import Diagnostic, Place
from stages.contracts.files import read_bytes, read_text
from stages.contracts.layout import RUNS, ExperimentFolder, RunFolder
from stages.publish.verification import Comparison, Difference, Verification, Verified

IMPORT = "stages.train.collect"
_RUN = RunFolder(Path())
_RUN_FILES = {
    path.name
    for path in (
        *(_RUN.card, _RUN.import_card, _RUN.imported, _RUN.retry, _RUN.attempts),
        *(_RUN.outcome, _RUN.history, _RUN.completions, _RUN.evaluation, _RUN.health),
    )
}
SHOWN = 4
"""Stages named that are due."""
_KINDS = (
    ("generated files", ("E402",), "cards and pipelines, against what the spec compiles to"),
    ("locked files", ("E487",), "files and folders, against the hashes and sizes in dvc.lock"),
    ("runs", ("S495",), "runs: ledger, outcome, history and evaluation, against each other and the lineage"),
    ("sources read again", ("S496",), "imported runs read again from their sources, against history, outcome and imported.json"),
    ("findings computed again", ("S488",), "findings computed again from the files, with health, figures, page and passports"),
    ("files nothing made", ("S497",), "files of the experiment, against what its spec and its stages make"),
    ("files of the site", ("S489",), "files of the built site, against one that is built again from the pages"),
)


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print what agrees and what differs; 1 on any difference."""
    verification = verify(options.specs, inputs)
    print(dump(verification) if options.json else text(verification), end="", flush=True)
    if not options.json:
        print(diagnostics(verification, colour()), file=sys.stderr, end="")
    return 1 if verification.differences else 0


def verify(names: Sequence[str], inputs: Inputs) -> Verification:
    """Verify the named experiments, or all that are live with what they share. Raises Rejected for specs that do not compile."""
    from stages.publish.verify import verify_site

    inputs.sources_may_be_absent = True
    references = [named(name.removeprefix(f"{RUNS}/").rstrip("/")) for name in names] or live(inputs)
    compiled = compile_all(references, inputs)
    files, cache = Files(Path(), {}), Cache(Path())
    with ThreadPoolExecutor(max_workers=min(len(compiled) or 1, os.cpu_count() or 1)) as pool:
        verified = list(pool.map(lambda each: _verify(each, files, cache), compiled))
    pages = {report.experiment: page for report, page, _ in verified}
    due_pages = {report.experiment for report, _, is_due in verified if is_due}
    retired, strays = _not_live(pages)
    site = verify_site(pages, due=due_pages, only=pages if names else (), strays=strays)
    no_site = () if site else ("no site is built, so none was checked",)
    reports = [report.model_copy(update={"notes": (*report.notes, *no_site)}) for report, _, _ in verified]
    if not names:
        site = _shared(compiled, site, files, cache)
        differences = (*(_stray(RUNS / name / "page", "no spec makes this page") for name in sorted(strays)), *site.differences)
        notes = tuple(f"{RUNS / name / 'page'} is of no live experiment; to check it: octavo verify {name}" for name in sorted(retired))
        site = site.model_copy(update={"differences": differences, "notes": (*site.notes, *notes)})
    return Verification(experiments=(*reports, *([site] if site else [])))


def _verify(compiled: Compiled, files: Files, cache: Cache) -> tuple[Verified, dict[str, bytes], bool]:
    """(the report, the files of the page as they should be, whether the page is to be made anew)."""
    from stages.publish.verify import verify as verify_files

    folder = ExperimentFolder(RUNS / compiled.experiment.name)
    texts = project([compiled], with_site=False)
    if not folder.root.joinpath("dvc.lock").exists() and not folder.findings.exists():
        what, fix = "nothing of it has been run", f"dvc repro {folder.pipeline}"
        nothing = Difference(code="E494", path=folder.root.as_posix(), what=what, fix=fix)
        return Verified(experiment=folder.name, checked={}, differences=(nothing,)), {}, True
    generated = list(
        _generated({**texts.files, **{path: text for path, text in texts.ignored.items() if os.path.exists(path)}}, texts.once)
    )
    if folder.page.is_dir():  # it is rendered again, and names places in the spec
        write(texts.ignored, {})
    waiting = due(texts.pipelines, texts.files, files)
    locked = against_locks(texts.pipelines, files, cache, waiting, _absent(texts.pipelines))
    unmade, left = _unmade(texts, {run.name for run in compiled.expansion.runs})
    rest, page = Verified(experiment=folder.name, checked={}, differences=()), dict[str, bytes]()
    if all(map(os.path.isfile, texts.files)):
        rest, page = verify_files(folder, waiting.following, waiting.cards)
    sizes = {"generated files": len(texts.files), "locked files": len(locked.files), "bytes": sum(locked.files.values())}
    report = Verified(
        experiment=folder.name,
        checked={**sizes, **rest.checked},
        differences=tuple(dict.fromkeys([*generated, *locked.differences, *unmade, *rest.differences, *waiting.stages.values()])),
        notes=tuple(dict.fromkeys([*locked.notes, *left, *rest.notes])),
    )
    return report, page, "page" in waiting.following


def _absent(pipelines: Sequence[Pipeline]) -> frozenset[str]:
    """Sources of imported runs that are not here: that is a note on the run, and no difference."""
    imports = [stage for pipeline in pipelines for stage in pipeline.stages if stage.module == IMPORT]
    return frozenset(path for stage in imports for path in stage.deps if not path.startswith(f"{RUNS}/") and not os.path.exists(path))


def _shared(compiled: Sequence[Compiled], site: Verified | None, files: Files, cache: Cache) -> Verified:
    """The report on the site, with the pipeline of the whole project and its lock."""
    texts = project(compiled, with_site=True)
    pipeline = texts.pipelines[-1]
    path, lock = pipeline.path.as_posix(), files.text("dvc.lock") or ""
    differences, notes = list(_generated({path: texts.files[path]}, {})), list[str]()
    if site or lock:
        ran = tuple(stage for stage in pipeline.stages if stage.outs or f"\n  {stage.name}:\n" in lock)  # `complete` ends without a record
        absent = frozenset() if site else frozenset(out for stage in ran for out in stage.outs)
        locked = against_locks([replace(pipeline, stages=ran)], files, cache, absent=absent)
        differences, notes = [*differences, *locked.differences], locked.notes
    report = site or Verified(experiment="(site)", checked={}, differences=())
    return report.model_copy(update={"differences": (*differences, *report.differences), "notes": (*report.notes, *notes)})


def _not_live(pages: Container[str]) -> tuple[set[str], set[str]]:
    """Names of other experiments that have a page: those with a spec, and those without one."""
    others = {page.parent.name for page in RUNS.glob("*/page") if page.parent.name not in pages}
    retired = {name for name in others if os.path.isfile(SPECS / f"{name.partition('@')[0]}.yaml")}
    return retired, others - retired


def _unmade(texts: Project, runs: Set[str]) -> tuple[list[Difference], list[str]]:
    """(files in the folders of the pipelines that nothing makes, notes on runs that the spec no longer has)."""
    made = {*texts.files, *texts.once, *texts.ignored, *(pipeline.path.with_name("dvc.lock").as_posix() for pipeline in texts.pipelines)}
    outs = {out for pipeline in texts.pipelines for stage in pipeline.stages for out in stage.outs}
    differences, left = list[Difference](), dict[str, None]()
    for root in (pipeline.path.parent for pipeline in texts.pipelines):
        for path in sorted(root.rglob("*")):
            below = path.relative_to(root)
            run, file = below.parts[0], below.relative_to(below.parts[0]).as_posix()
            if (path.is_dir() and not path.is_symlink()) or path.as_posix() in made or path.name == ".gitignore":
                continue
            if any(place.as_posix() in outs for place in (path, *path.parents)) or (run in runs and file == _RUN.attempts.name):
                continue
            if run not in runs and (file in _RUN_FILES or file.startswith(f"{_RUN.adapter}/")):
                left[f"{root / run} is left of a run that the spec no longer has; nothing reads it"] = None
            else:
                differences.append(_stray(path, "no stage and no spec makes this file"))
    return differences, list(left)


def _stray(path: Path, what: str) -> Difference:
    return Difference(code="S497", path=path.as_posix(), what=what, fix=f"git log -- {path}, and remove it when it is not yours")


def _generated(files: Mapping[str, str], once: Mapping[str, str]) -> Iterator[Difference]:
    """Cards and pipelines that are not what the spec compiles to, field by field."""
    compiled = Comparison("E402", "what the spec compiles to", "octavo compile, then dvc repro")
    differing = compare(files, once).differing
    missing = [path for path in differing if not os.path.isfile(path)]
    if missing:
        what = "generated files are missing, such as this one; without them nothing is computed again"
        yield Difference(code="E402", path=missing[0], what=what, fix=compiled.fix)
    for path in differing:
        if path not in missing:
            yield from compiled.differences(path, files[path].encode(), read_bytes(path))


def text(verification: Verification) -> str:
    """One line for each thing that was checked, by experiment."""
    return "".join(f"{line}\n" for report in verification.experiments for line in _summary(report))


def _summary(report: Verified) -> Iterator[str]:
    waiting = [difference for difference in report.differences if difference.code == DUE]
    rest = [difference for difference in report.differences if difference.code != DUE]
    counts = [f"{_count(len(rest))} found"] if rest else []
    counts += [_due(len(waiting))] if waiting else []
    yield f"{report.experiment}: {', '.join(counts) or 'verified'}"
    for kind, codes, words in _KINDS:
        number = sum(difference.code in codes for difference in rest)
        rest = [difference for difference in rest if difference.code not in codes]
        if kind in report.checked or number:
            differ = f": {_count(number)}" if number else ""
            yield f"  {'DIFFER' if number else 'same':<6}  {report.checked.get(kind, 0):>5} {words}{differ}"
    yield from (f"  {'FAILED':<6}  {difference.what.splitlines()[0]}" for difference in rest)
    yield from (f"  due     {difference.what.replace(' is due', '', 1)}" for difference in waiting)
    yield from (f"  note    {note}" for note in report.notes)


def diagnostics(verification: Verification, in_colour: bool) -> str:
    """All differences, causes first; stages that are due in one diagnostic a lock."""
    differences = list(dict.fromkeys(difference for report in verification.experiments for difference in report.differences))
    waiting: dict[str, list[Difference]] = {}
    for difference in differences:
        if difference.code == DUE:
            waiting.setdefault(difference.path, []).append(difference)
    differences = [difference for difference in differences if difference.code != DUE]
    for path, stages in waiting.items():
        names = listed((stage.cell for stage in stages), SHOWN)
        differences.append(Difference(code=DUE, path=path, what=f"{_due(len(stages))}: {names}", fix=stages[0].fix))
    shown, hidden = differences[:LIMIT], len(differences) - LIMIT
    sources = {difference.path: _source(difference.path) for difference in shown if difference.line}
    more = f"\nand {hidden} more, not shown: --json names all; repair these first, what rests on them follows\n" if hidden > 0 else ""
    return render([_diagnostic(difference) for difference in shown], sources, in_colour) + more


def _diagnostic(difference: Difference) -> Diagnostic:
    what, place = f"{difference.path}: {difference.what}", None
    if difference.line:
        length = max(1, len(difference.found) if difference.column else 1)
        what, place = difference.what, Place(difference.path, difference.line, difference.column or 1, length)
    if difference.expected or difference.found:
        what += f"; expected {difference.expected or 'nothing'}, found {difference.found or 'nothing'}"
    why = catalogue().get(difference.code, {}).get("why", "a stage says why it refuses; nothing after it was checked")
    return Diagnostic(difference.code, what, why=why, fix=difference.fix, place=place)


def _source(path: str) -> list[str]:
    with suppress(OSError, UnicodeDecodeError):
        return read_text(path).splitlines()
    return []


def _due(number: int) -> str:
    return f"{number} stage{' is' if number == 1 else 's are'} due"


def _count(number: int) -> str:
    return f"{number} difference{'' if number == 1 else 's'}"
