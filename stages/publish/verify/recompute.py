"""Everything that is computed after training, computed again from the files in a folder of its own, and held against what is there.

The stages run as processes, as DVC runs them: in a scratch project whose files are links to the real ones, without the outputs of the
stages that follow training. What they write must be, byte for byte, what the real project holds.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stages.contracts.artifact import ArtifactError, read
from stages.contracts.layout import RUNS, ExperimentFolder
from stages.contracts.page_card import PageCard
from stages.contracts.stage import ROOT
from stages.contracts.verification import Difference
from stages.publish.experiment import RECORDED, RULES
from stages.publish.verify.dates import against_git
from stages.publish.verify.parts import Part, parts

STAGES = ("stages.analyse.screen", "stages.analyse.conclude", "stages.analyse.draw", "stages.publish.page")
_TABLES = {".parquet", ".safetensors"}
_ERROR = re.compile(r"error (?P<code>[ES]\d{3}): (?P<what>.*?)(?:\n  why: .*?)?(?:\n  fix: (?P<fix>[^\n]*))?\s*$", re.DOTALL)
_LATE = ' class="late"'
"""The mark of a rule that is younger than its data."""
_DATED = re.compile(
    r"(?:\d{4}-\d\d-\d\d \d\d:\d\d UTC, commit [0-9a-f]+(?:, (?:before|after)|; there are no data yet)?|not committed yet|unknown: [a-z ]+)"
    r"(?:, so it is not known to be older than)?\s*"
)
"""What `committed.against_data` says of git: without it, two sentences are equal when only git's answer differs."""


@dataclass
class Recomputed:
    """`files`: path -> what it should hold, of all outputs of the stages that ran."""

    files: dict[str, bytes] = field(default_factory=dict)
    failed: Difference | None = None
    due: Set[str] = frozenset()
    """Names of stages that were left out."""
    dated: bool = False
    """The page was made with what its own `rules.json` says of git, which is held against git by itself."""


def names() -> list[str]:
    """Of the stages after training."""
    return [module.rpartition(".")[2] for module in STAGES]


def recompute(experiment: ExperimentFolder, due: Set[str] = frozenset()) -> Recomputed:
    """Run the stages after training again, beside the real files, but for those that are due and so all that follow them. Writes nothing
    into the project."""
    rules = (experiment.page / RULES).absolute()
    made = Recomputed(due=due, dated=rules.is_file())
    with _scratch(experiment) as root:
        folder = ExperimentFolder(root / RUNS / experiment.name)
        for module, name in zip(STAGES, names(), strict=True):
            if name in due:
                continue
            made.failed = _run(module, experiment, root, {RECORDED: rules.as_posix()} if made.dated else {})
            if made.failed:
                break
            for path in _outputs(folder, module):
                made.files[path.relative_to(root).as_posix()] = path.read_bytes()
    return made


def differences(experiment: ExperimentFolder, made: Recomputed) -> tuple[list[Difference], list[str]]:
    """(every place in which the real files are not what was computed again, notes)."""
    found: list[Difference] = []
    notes: list[str] = []
    for name, expected in made.files.items():
        path = Path(name)
        if not path.is_file():
            gone = [folder for folder in (experiment.page, experiment.figures) if folder in path.parents and not folder.exists()]
            found.append(_missing(gone[0].as_posix() if gone else name, "folder" if gone else "file"))
            continue
        for part in parts(name, expected, path.read_bytes()):
            if path.suffix == ".md" and _only_dates(part, expected, path):
                notes.append(f"{name}:{part.line}: git dates a rule otherwise than when the page was built; dvc repro brings it up to date")
            else:
                found.append(_differs(experiment, name, part))
    if made.dated and not made.failed:
        changed, dates = against_git(experiment, _again(experiment, "page"))
        found += changed
        notes += dates
    found = list(dict.fromkeys(found))  # a folder that is missing is one thing, not as many as it held files
    found.sort(key=lambda one: one.cell.endswith("sha256"))  # the numbers first, then the hashes of what they came from
    if made.failed:
        found.insert(0, made.failed)
    else:
        extra = [path for path in _all_outputs(experiment) if _is_unknown(experiment, path, made)]
        declared = _declared(experiment)
        gone = [path for path in extra if path.name == "health.json" and declared and path.parent.name not in declared]
        found += [_extra(experiment, path) for path in extra if path not in gone]
        notes += [f"{path.as_posix()} is left of a run that the spec no longer has; nothing reads it" for path in gone]
    return found, list(dict.fromkeys(notes))


def _declared(experiment: ExperimentFolder) -> set[str]:
    """Names of the runs on the page's card; none when it cannot be read."""
    try:
        return {run.name for run in read(PageCard, experiment.page_card).runs}
    except (ArtifactError, OSError):
        return set()


def _is_unknown(experiment: ExperimentFolder, path: Path, made: Recomputed) -> bool:
    name = path.as_posix()
    return name not in made.files and _stage(experiment, name) not in made.due


def _run(module: str, experiment: ExperimentFolder, root: Path, more: Mapping[str, str]) -> Difference | None:
    command = [sys.executable, "-m", module, f"{RUNS}/{experiment.name}"]
    path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH")) if part)
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **_trusted(root), **more}
    ran = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, errors="replace", check=False)
    if ran.returncode == 0:
        return None
    said = _ERROR.search(ran.stderr)
    words = " ".join(ran.stderr.split())[-300:] or f"exit code {ran.returncode}"
    return Difference(
        code=said["code"] if said else "S495",
        path=experiment.root.as_posix(),
        cell=module,
        what=f"{module.rpartition('.')[2]} could not compute again what it wrote, so nothing after it was checked: "
        + (" ".join(said["what"].split()) if said else words),
        fix=(said["fix"] if said else None) or f"python -m {module} {RUNS}/{experiment.name}",
    )


def _trusted(root: Path) -> dict[str, str]:
    """Where git answers in the project, it may answer in the scratch folder too, whoever owns the repository (CI often runs as another)."""
    try:
        if subprocess.run(["git", "rev-parse", "--git-dir"], capture_output=True, check=False).returncode:
            return {}
    except OSError:
        return {}
    given = os.environ.get("GIT_CONFIG_COUNT", "0")
    count = int(given) if given.isdigit() else 0
    return {"GIT_CONFIG_COUNT": str(count + 1), f"GIT_CONFIG_KEY_{count}": "safe.directory", f"GIT_CONFIG_VALUE_{count}": str(root)}


@contextmanager
def _scratch(experiment: ExperimentFolder) -> Iterator[Path]:
    """A project of links in which the experiment has the inputs of `screen` and none of its results. Specs are copied: git looks
    through no link."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="octavo-verify-") as name:
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
        _linked(here / RUNS / experiment.name, root / RUNS / experiment.name)
        for path in _all_outputs(ExperimentFolder(root / RUNS / experiment.name)):
            path.unlink()
        yield root


def _linked(source: Path, target: Path) -> None:
    """Folders are made, big files linked, small ones copied: screen may rewrite a `retry.json`."""
    target.mkdir()
    for entry in source.iterdir():
        if entry.is_dir() and entry.name != "adapter":
            _linked(entry, target / entry.name)
        elif entry.is_dir() or entry.suffix in _TABLES:
            (target / entry.name).symlink_to(entry)
        else:
            shutil.copyfile(entry, target / entry.name)


def _outputs(folder: ExperimentFolder, module: str) -> list[Path]:
    stage = module.rpartition(".")[2]
    if stage == "screen":
        return sorted(folder.root.glob("*/health.json"))
    if stage == "conclude":
        return [folder.findings] if folder.findings.exists() else []
    return sorted(path for path in (folder.figures if stage == "draw" else folder.page).rglob("*") if path.is_file())


def _all_outputs(folder: ExperimentFolder) -> list[Path]:
    return [path for module in STAGES for path in _outputs(folder, module)]


def _only_dates(part: Part, expected: bytes, path: Path) -> bool:
    """Whether the lines are equal but for when git says that a rule was written: a commit dates a rule that was not committed when the
    page was built, and a merge may date it again."""
    old, new = expected.decode().splitlines(), path.read_text(encoding="utf-8").splitlines()
    if part.line is None or len(old) != len(new):
        return False
    lines = [html.unescape(text[part.line - 1].replace(_LATE, "")) for text in (old, new)]
    one, other = (_DATED.sub("", line) for line in lines)
    return one == other and one != lines[0]


def _differs(experiment: ExperimentFolder, path: str, part: Part) -> Difference:
    return part.difference("S488", path, "what the files give", _again(experiment, _stage(experiment, path)))


def _missing(path: str, kind: str) -> Difference:
    fix = f"dvc checkout {path}, or dvc repro"
    return Difference(code="S488", path=path, what=f"the {kind} is missing", expected=f"a {kind}", found="nothing", fix=fix)


def _extra(experiment: ExperimentFolder, path: Path) -> Difference:
    name = path.as_posix()
    what = "no stage writes this file"
    return Difference(
        code="S488", path=name, what=what, expected="nothing", found="a file", fix=_again(experiment, _stage(experiment, name))
    )


def _stage(experiment: ExperimentFolder, path: str) -> str:
    below = path.removeprefix(f"{experiment.root.as_posix()}/")
    if below.startswith("page/"):
        return "page"
    return "draw" if below.startswith("analysis/figures/") else "conclude" if below.startswith("analysis/") else "screen"


def _again(experiment: ExperimentFolder, stage: str) -> str:
    """`dvc checkout` gives back what the lock names. To compute it again DVC must be forced: git, which dates rules, is no input to it."""
    how = "--force --single-item" + (" --glob" if "@" in experiment.name else "")  # an @ in an address is DVC's own mark
    return (
        f"dvc checkout {experiment.root.as_posix()}/dvc.yaml, or compute it again: dvc repro {how} {experiment.pipeline.as_posix()}:{stage}"
    )
