"""`octavo verify`: whether specs, cards, locks, files, findings, pages and the site say the same. Writes nothing that git knows."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from compiler.build.inputs import Inputs
from compiler.build.pipeline import live, named
from compiler.build.stage import Pipeline
from compiler.build.write import compare, write
from compiler.commands.verify_lock import against_locks, due
from compiler.compile import Compiled, compile_all, project
from compiler.lock.files import Cache, Files
from compiler.render import colour
from stages.contracts.artifact import dump
from stages.contracts.layout import RUNS, ExperimentFolder
from stages.contracts.verification import Difference, Verification, Verified

IMPORT = "stages.train.collect"
WHY = {
    "E402": "cards and pipelines are what the spec compiles to, so that a result has the settings that the spec declares",
    "E410": "a stage's files belong to the card that it ran with; compared with another card they mean nothing",
    "E487": "a lock names each file that a stage read and wrote; the origin of any other file is unknown",
    "S488": "what is published is what the recorded files give, computed again with the same code",
    "S489": "the site is what MkDocs builds from the pages, and nothing else",
    "S496": "an imported run holds what its source gives, read as its card says, and nothing else",
    "E494": "only what has been run can be verified",
    "S495": "ledger, outcome, history, evaluation and lineage name each other, and must agree",
}


def run(options: argparse.Namespace, inputs: Inputs) -> int:
    """Print what agrees and what differs; 1 on any difference."""
    from compiler.commands import verify_text

    found = verify(options.specs, inputs)
    print(dump(found) if options.json else verify_text.text(found), end="", flush=True)
    if not options.json:
        print(verify_text.diagnostics(found, colour()), file=sys.stderr, end="")
    return 1 if found.differences else 0


def verify(names: Sequence[str], inputs: Inputs) -> Verification:
    """Verify the named experiments, or all that are live. Raises Rejected for specs that do not compile."""
    inputs.sources_may_be_absent = True
    references = [named(name.removeprefix(f"{RUNS}/").rstrip("/")) for name in names] or live(inputs)
    compiled = compile_all(references, inputs)
    files, cache = Files(Path(), {}), Cache(Path())
    with ThreadPoolExecutor(max_workers=min(len(compiled) or 1, os.cpu_count() or 1)) as pool:
        verified = list(pool.map(lambda one: _verify(one, files, cache), compiled))
    from stages.publish.verify import verify_site

    pages = {report.experiment: page for report, page, _ in verified}
    site = verify_site(pages, due={report.experiment for report, _, due in verified if due}, only=pages if names else ())
    no_site = () if site else ("no site is built, so none was checked",)
    reports = [report.model_copy(update={"notes": (*report.notes, *no_site)}) for report, _, _ in verified]
    return Verification(experiments=(*reports, *([site] if site else [])))


def _verify(one: Compiled, files: Files, cache: Cache) -> tuple[Verified, dict[str, bytes], bool]:
    """(the report, the files of the page as they should be, whether the page is to be made anew)."""
    from stages.publish.verify import verify as from_files

    folder = ExperimentFolder(RUNS / one.experiment.name)
    made = project([one], with_site=False)
    if not folder.root.joinpath("dvc.lock").exists() and not folder.findings.exists():
        nothing = Difference(
            code="E494", path=folder.root.as_posix(), what="nothing of it has been run", fix=f"dvc repro {folder.pipeline}"
        )
        return Verified(experiment=folder.name, checked={}, differences=(nothing,)), {}, True
    generated = list(_generated(made.files, made.once))
    if folder.page.is_dir():  # it is rendered again, and names places in the spec
        write(made.ignored, {})
    waiting = due(made.pipelines, made.files, files)
    locked = against_locks(made.pipelines, files, cache, waiting, _absent(made.pipelines))
    rest, page = Verified(experiment=folder.name, checked={}, differences=()), dict[str, bytes]()
    if all(map(os.path.isfile, made.files)):
        rest, page = from_files(folder, waiting.following, waiting.cards)
    report = Verified(
        experiment=folder.name,
        checked={
            "generated files": len(made.files),
            "locked files": len(locked.files),
            "bytes": sum(locked.files.values()),
            **rest.checked,
        },
        differences=tuple(dict.fromkeys([*generated, *locked.differences, *rest.differences, *waiting.stages.values()])),
        notes=tuple(dict.fromkeys([*locked.notes, *rest.notes])),
    )
    return report, page, "page" in waiting.following


def _absent(pipelines: Sequence[Pipeline]) -> frozenset[str]:
    """Sources of imported runs that are not here; that is told of the run, and is no difference."""
    imports = [stage for pipeline in pipelines for stage in pipeline.stages if stage.module == IMPORT]
    return frozenset(path for stage in imports for path in stage.deps if not path.startswith(f"{RUNS}/") and not os.path.exists(path))


def _generated(files: dict[str, str], once: dict[str, str]) -> Iterator[Difference]:
    """Cards and pipelines that are not what the spec compiles to, field by field."""
    from stages.publish.file_differences import Comparison

    compiled = Comparison("E402", "what the spec compiles to", "octavo compile, then dvc repro")
    differing = compare(files, once).differing
    missing = [path for path in differing if not os.path.isfile(path)]
    if missing:
        what = "generated files are missing, such as this one; without them nothing is computed again"
        yield Difference(code="E402", path=missing[0], what=what, fix=compiled.fix)
    for path in differing:
        if path not in missing:
            yield from compiled.differences(path, files[path].encode(), Path(path).read_bytes())
