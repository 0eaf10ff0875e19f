"""`octavo verify`, from the files alone: everything after training computed again in a scratch folder, and compared byte for byte.

The stages run as processes, as DVC runs them: in a project of links to the real files, without the outputs of the stages that follow
training. The site is built again from the pages that they give. Cards and locks are compared by the compiler, which knows them.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path

from stages.contracts.artifact import ArtifactError, read
from stages.contracts.diagnostic import StageError
from stages.contracts.files import parse_json, read_bytes
from stages.contracts.layout import BUILD, COMPARISONS, RUNS, ExperimentFolder
from stages.contracts.lineage import Changed, Written
from stages.contracts.page_card import PageCard
from stages.publish.consistency import contradictions, imports_again, run_python
from stages.publish.experiment import RECORDED, RULES, load
from stages.publish.rule_history import whole_history
from stages.publish.site import build, page_folders
from stages.publish.verification import Comparison, Difference, Verified

STAGES = {
    "screen": "stages.analyse.screen",
    "conclude": "stages.analyse.conclude",
    "draw": "stages.analyse.draw",
    "page": "stages.publish.page",
}
_IN_TURN = """
import runpy, sys
modules, sys.argv[1:] = sys.argv[2:], sys.argv[1:2]
for module in modules:
    print("stage", module, file=sys.stderr, flush=True)
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code:
            raise
"""
"""Runs the stages of an experiment one after the other in one process, which loads pandas once."""
_LINKED = {".parquet", ".safetensors"}
_ERROR = re.compile(r"error (?P<code>[ES]\d{3}): (?P<what>.*?)(?:\n  why: .*?)?(?:\n  fix: (?P<fix>[^\n]*))?\s*$", re.DOTALL)
SITE = BUILD / "site"
_SITE = Comparison("S489", "what the pages give", "dvc repro builds the site again")
_AGE = re.compile(rb"<!-- age -->.*?<!-- /age -->", re.DOTALL)
"""Banners about files that changed since the page was built, which a site may be older than."""


def verify(experiment: ExperimentFolder, due: Set[str] = frozenset(), cards: Set[str] = frozenset()) -> tuple[Verified, dict[str, bytes]]:
    """(the report, the files of the page as they should be). `due`: names of stages that are to run anew, so that their outputs are not
    compared; `cards`: files that are compiled anew since."""
    problems, checked = contradictions(experiment)
    problems = [problem for problem in problems if problem.path not in cards]
    imports, imported, notes = imports_again(experiment, due)
    if imported:
        checked["sources read again"] = imported
    files, failed = recompute(experiment, due)
    changed, more = differences(experiment, files, failed, due)
    findings = files.get(experiment.findings.as_posix())
    if "conclude" not in due:
        checked["findings computed again"] = len(parse_json(findings)["findings"]) if findings else 0
    checked["files computed again"] = len(files)
    if skipped := [stage for stage in STAGES if stage in due]:
        more.append(f"not computed again, for it follows what is due: {', '.join(skipped)}")
    every = tuple(dict.fromkeys([*problems, *imports, *changed]))
    folder = f"{experiment.page.as_posix()}/"
    page = {name.removeprefix(folder): content for name, content in files.items() if name.startswith(folder)}
    return Verified(experiment=experiment.name, checked=checked, differences=every, notes=(*notes, *more)), page


def recompute(experiment: ExperimentFolder, due: Set[str] = frozenset()) -> tuple[dict[str, bytes], Difference | None]:
    """Run the stages after training again, except those that are due, without writing into the project: (path -> what it should hold,
    of all outputs of the stages that ran; why a stage failed)."""
    rules, stages = (experiment.page / RULES).absolute(), [stage for stage in STAGES if stage not in due]
    with scratch_project(experiment) as root:
        folder = ExperimentFolder(root / RUNS / experiment.name)
        environment = {RECORDED: rules.as_posix()} if rules.is_file() else {}
        modules = [STAGES[stage] for stage in stages]
        ran = run_python(["-c", _IN_TURN, f"{RUNS}/{experiment.name}", *modules], root, **environment)
        failed = ran.stderr.rpartition("stage stages.")[2].partition("\n")[0] if ran.returncode else ""
        done = [stage for stage in stages if STAGES[stage] != f"stages.{failed}"]
        files = {path.relative_to(root).as_posix(): read_bytes(path) for stage in done for path in _outputs(folder, stage)}
    return files, _refusal(experiment, f"stages.{failed}", ran.stderr) if failed else None


def _refusal(experiment: ExperimentFolder, module: str, words: str) -> Difference:
    error = _ERROR.search(words.rpartition(f"stage {module}\n")[2])
    stage = next(stage for stage in STAGES if STAGES[stage] == module)
    what = " ".join((error["what"] if error else words[-300:]).split())
    return Difference(
        code=error["code"] if error else "S495",
        path=experiment.root.as_posix(),
        cell=module,
        what=f"{stage} could not compute again what it wrote, so nothing after it was checked: {what}",
        fix=(error["fix"] if error else None) or f"python -m {module} {RUNS}/{experiment.name}",
    )


@contextmanager
def scratch_project(experiment: ExperimentFolder) -> Iterator[Path]:
    """A project of links in which the experiment has the inputs of `screen` and none of its results. Specs are copied: git looks
    through no link."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="octavo-project-") as name:
        root = Path(name)
        for entry in here.iterdir():
            if entry.name == "specs":
                shutil.copytree(entry, root / "specs")
            elif entry.name != RUNS.name:
                (root / entry.name).symlink_to(entry)
        (root / RUNS).mkdir()
        for entry in (here / RUNS).iterdir():
            if entry.name != experiment.name:
                (root / RUNS / entry.name).symlink_to(entry)
        source, target = here / RUNS / experiment.name, root / RUNS / experiment.name
        shutil.copytree(source, target, copy_function=_link_or_copy, ignore=_endless)
        folder = ExperimentFolder(root / RUNS / experiment.name)
        for path in (path for stage in STAGES for path in _outputs(folder, stage)):
            path.unlink()
        yield root


def _endless(folder: str, names: list[str]) -> set[str]:
    """Names of links that lead nowhere, or to a folder that they lie in."""
    links = [path for name in names if (path := Path(folder, name)).is_symlink()]
    return {path.name for path in links if not path.exists() or Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(path))}


def _link_or_copy(source: str, target: str) -> None:
    """Big files are linked, small ones copied: screen may rewrite a `retry.json`."""
    if Path(source).suffix in _LINKED:
        Path(target).symlink_to(source)
    else:
        shutil.copyfile(source, target)


def _outputs(folder: ExperimentFolder, stage: str) -> list[Path]:
    if stage == "screen":
        return [path for run in _runs(folder) if (path := folder.run(run).health).is_file()]
    if stage == "conclude":
        return [folder.findings] if folder.findings.exists() else []
    return sorted(path for path in (folder.figures if stage == "draw" else folder.page).rglob("*") if path.is_file())


def _runs(folder: ExperimentFolder) -> list[str]:
    """Names of the runs on the page's card; none when it cannot be read."""
    try:
        return [run.name for run in read(PageCard, folder.page_card).runs]
    except (ArtifactError, OSError):
        return []


def differences(
    experiment: ExperimentFolder, files: Mapping[str, bytes], failed: Difference | None = None, due: Set[str] = frozenset()
) -> tuple[list[Difference], list[str]]:
    """(every place in which the real files are not what was computed again, notes)."""
    problems, notes = [failed] if failed else [], list[str]()
    stage_of = {path.as_posix(): stage for stage in STAGES for path in _outputs(experiment, stage) if stage not in due}
    for name, expected in files.items():
        path = Path(name)
        if path.is_file():
            again = Comparison("S488", "what the files give", _again(experiment, stage_of.get(name, "page")))
            problems += again.differences(name, expected, read_bytes(path))
        else:
            folders = [folder for folder in (experiment.page, experiment.figures) if folder in path.parents and not folder.exists()]
            gone, kind = (folders[0].as_posix(), "folder") if folders else (name, "file")
            problems.append(_difference(gone, f"the {kind} is missing", f"a {kind}", "nothing", f"dvc checkout {gone}, or dvc repro"))
    if failed is None:
        if "page" not in due and (experiment.page / RULES).is_file():
            changed, notes = against_git(experiment, _again(experiment, "page"))
            problems += changed
        unmade = [name for name in stage_of if name not in files]
        problems += [
            _difference(name, "no stage writes this file", "nothing", "a file", _again(experiment, stage_of[name])) for name in unmade
        ]
    problems.sort(key=lambda problem: problem.cell.endswith("sha256"))  # the numbers first, then the hashes of what they came from
    return list(dict.fromkeys(problems)), notes


def _difference(path: str, what: str, expected: str, there: str, fix: str, cell: str = "") -> Difference:
    return Difference(code="S488", path=path, cell=cell, what=what, expected=expected, found=there, fix=fix)


def _again(experiment: ExperimentFolder, stage: str) -> str:
    """`dvc checkout` gives back what the lock names. To compute it again DVC must be forced: git, which dates rules, is no input to it."""
    how = "--force --single-item" + (" --glob" if "@" in experiment.name else "")  # an @ in an address is DVC's own mark
    pipeline = experiment.pipeline.as_posix()
    return f"dvc checkout {experiment.root.as_posix()}/dvc.yaml, or compute it again: dvc repro {how} {pipeline}:{stage}"


def against_git(experiment: ExperimentFolder, fix: str) -> tuple[list[Difference], list[str]]:
    """(what git decides otherwise than the page's `rules.json`, notes). Whether a rule is late decides a verdict; the exact time of its
    commit decides nothing. The other files of the page were computed again with `rules.json`, so a late rule is one difference."""
    path = (experiment.page / RULES).as_posix()
    if not whole_history():
        return [], ["git's history is not here: when rules were written is taken from the page, and not checked"]
    try:
        then, now = read(Changed, experiment.page / RULES), load(experiment.root).changed
    except (ArtifactError, OSError) as error:
        what = f"cannot be compared with git: {' '.join(str(error).split())[:200]}"
        return [_difference(path, what, "a file", "a broken one", fix)], []
    cells, notes = list[tuple[str, str, str]](), list[str]()
    for kind, older, newer in (("claim", then.rules, now.rules), ("expectation", then.expectations, now.expectations)):
        for name in dict.fromkeys((*older, *newer)):
            before, after = older.get(name), newer.get(name)
            if before is None or after is None or bool(before.late) != bool(after.late):
                cells.append((f"{kind} {name}", _written(after), _written(before)))
            elif before != after:
                again = fix.rpartition("compute it again: ")[2]
                notes.append(f"{path}: git dates the {kind} {name} otherwise than when the page was built; to bring it up to date: {again}")
    for name in ("withdrawn", "dropped", "added"):
        cells.append((name, *(", ".join(getattr(record, name)) or "none" for record in (now, then))))  # type: ignore[arg-type]
    what = "git tells otherwise than when the page was built"
    return [_difference(path, f"{cell}: {what}", new, old, fix, cell) for cell, new, old in cells if new != old], notes


def _written(rule: Written | None) -> str:
    return "nothing" if rule is None else rule.written + (f" ({rule.late})" if rule.late else "")


def verify_site(
    pages: Mapping[str, Mapping[str, bytes]], *, due: Set[str], only: Iterable[str] = (), strays: Set[str] = frozenset()
) -> Verified | None:
    """The built site against one that is built again from `pages` (experiment -> its files as computed again) and from the pages of all
    other experiments but `strays`. `due`: experiments whose page is to be made anew, which are left out; `only`: the experiments that are
    asked for, all and the common pages when empty. None when no site was built."""
    if not SITE.is_dir():
        return None
    with tempfile.TemporaryDirectory(prefix="octavo-verify-") as name:
        scratch = Path(name)
        folders = {experiment: folder for experiment, folder in page_folders(RUNS).items() if experiment not in strays}
        for experiment, files in pages.items():
            if "summary.json" in files:
                folders[experiment] = scratch / experiment / "page"
                for file, content in files.items():
                    (folders[experiment] / file).parent.mkdir(parents=True, exist_ok=True)
                    (folders[experiment] / file).write_bytes(content)
        try:
            build(folders, scratch / "build", _comparisons_again(scratch / "project"))
        except (StageError, ArtifactError, OSError, ValueError) as error:  # a page lacks a file, or one of its files is no text
            words, fix = (error.what, error.fix) if isinstance(error, StageError | ArtifactError) else (str(error), _SITE.fix)
            what = f"it cannot be built again: {words.replace(f'{scratch}/', '')}"
            problem = Difference(code="S489", path=SITE.as_posix(), what=what, fix=fix)
            return Verified(experiment="(site)", checked={}, differences=(problem,))
        wanted = tuple(f"experiments/{experiment}/" for experiment in only)
        unchecked = tuple(f"experiments/{experiment}/" for experiment in due)
        new, old = (_files(folder, wanted, unchecked) for folder in (scratch / "build/site", SITE))
        problems = [problem for file in dict.fromkeys((*new, *old)) for problem in _site_file(file, new.get(file), old.get(file))]
    return Verified(experiment="(site)", checked={"files of the site": len(new)}, differences=tuple(dict.fromkeys(problems)))


def _comparisons_again(root: Path) -> Path:
    """Experiments compared again, in a project of links. Raises StageError with the stage's own words."""
    (root / RUNS).mkdir(parents=True)
    for entry in RUNS.absolute().iterdir():
        (root / RUNS / entry.name).symlink_to(entry)
    ran = run_python(["-m", "stages.analyse.compare", RUNS.as_posix()], root)
    if ran.returncode:
        words = " ".join(ran.stderr.split())[-300:]
        what, why = f"experiments could not be compared again: {words}", "the site shows them side by side"
        raise StageError("S489", what, why=why, fix=f"python -m stages.analyse.compare {RUNS}")
    return root / COMPARISONS


def _files(site: Path, wanted: tuple[str, ...], unchecked: tuple[str, ...]) -> dict[str, Path]:
    """Place -> file, link or pipe of the site."""
    files = {path.relative_to(site).as_posix(): path for path in sorted(site.rglob("*")) if path.is_symlink() or not path.is_dir()}
    return {name: path for name, path in files.items() if name.startswith(wanted or "") and not (unchecked and name.startswith(unchecked))}


def _site_file(name: str, expected: Path | None, found: Path | None) -> list[Difference]:
    path = SITE / name
    if expected is None or found is None or found.is_symlink() or not found.is_file():
        gone = next((folder for folder in reversed(path.parents) if SITE in folder.parents and not folder.exists()), path)
        what = "the site lacks it" if found is None else "no page gives this file"
        return [Difference(code="S489", path=gone.as_posix(), what=what, fix=_SITE.fix)]
    new, old = read_bytes(expected), read_bytes(found)
    return _SITE.differences(path.as_posix(), new if _AGE.search(old) else _AGE.sub(b"", new), old, limit=1)
