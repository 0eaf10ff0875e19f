"""`octavo code`: a change of octavo's own code is judged once. Carried out in a copy of the repository."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stages.contracts.code import OTHER_VERSIONS, VERSIONS

ROOT = Path(__file__).parents[2]


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """octavo with its quickstart, compiled, its code judged and its author known to git."""
    monkeypatch.delenv(OTHER_VERSIONS)
    ignore = shutil.ignore_patterns("__pycache__")
    for folder in ("compiler", "stages", "specs", "site", "data/quickstart"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignore)
    shutil.copy(ROOT / "constraints.txt", tmp_path)
    (tmp_path / VERSIONS).unlink(missing_ok=True)
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    for key, value in (("name", "Ada"), ("email", "ada@example.org")):
        subprocess.run(["git", "config", f"user.{key}", value], cwd=tmp_path, check=True)
    assert octavo(tmp_path, "code", "new", "--why", "first")[0] == 0
    assert octavo(tmp_path, "compile")[0] == 0
    return tmp_path


def octavo(project: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and all output of a command that runs the copy's own code."""
    done = subprocess.run([sys.executable, "-m", "compiler", *arguments], cwd=project, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def edit(project: Path, file: str, old: str, new: str) -> None:
    text = (project / file).read_text()
    assert old in text, f"{file} has no {old!r}"
    (project / file).write_text(text.replace(old, new, 1))


def cards(project: Path) -> dict[str, str]:
    """Text of each train card."""
    return {path.as_posix(): path.read_text() for path in sorted(project.glob("runs/*/*/train.card.json"))}


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("stages/train/scoring.py", '"""', '"""Other words. '),
        ("stages/train/progress.py", "from __future__ import annotations", "from __future__ import annotations\n\nSPEED = 3"),
        ("stages/train/tracking.py", "from __future__ import annotations", "from __future__ import annotations\n\nSPEED = 3"),
        ("stages/publish/text.py", "from __future__ import annotations", "from __future__ import annotations\n\nSPEED = 3"),
        ("stages/analyse/draw.py", "from __future__ import annotations", "from __future__ import annotations\n\nSPEED = 3"),
        ("stages/train/rewards/format.py", 'description="', 'description="Other words. '),
        ("stages/train/scoring.py", "from __future__ import annotations", "# a comment\nfrom __future__ import annotations"),
    ],
)
def test_what_changes_no_result_asks_nothing_and_retrains_nothing(copy: Path, file: str, old: str, new: str) -> None:
    before = cards(copy)
    edit(copy, file, old, new)
    assert octavo(copy, "compile")[0] == 0
    assert cards(copy) == before


@pytest.mark.parametrize(
    ("file", "units"),
    [
        ("stages/train/scoring.py", {"train.trl", "train.ppo"}),
        ("stages/train/rewards/format.py", {"train.rewards.format"}),
        ("stages/train/model.py", {"train.trl", "train.evaluate", "train.preflight"}),
    ],
)
def test_code_that_decides_results_is_refused_until_it_is_judged(copy: Path, file: str, units: set[str]) -> None:
    before = cards(copy)
    (copy / file).write_text((copy / file).read_text() + "\nSPEED = 3\n")
    code, output = octavo(copy, "compile")
    assert code == 1 and "E472" in output and "octavo code same --why" in output
    assert cards(copy) == before

    code, output = octavo(copy, "code", "same", "--why", "a name moved")
    assert code == 0, output
    line = json.loads((copy / VERSIONS).read_text().splitlines()[-1])
    assert line["results"] == "same" and line["who"] == "Ada <ada@example.org>" and units <= set(line["digests"])
    assert octavo(copy, "compile")[0] == 0
    assert cards(copy) == before, "what is judged equal retrains nothing"
    page = json.loads((copy / "runs/quickstart/page.card.json").read_text())
    assert page["judged"][0]["why"] == "a name moved"


def test_new_results_train_again(copy: Path) -> None:
    before = cards(copy)
    (copy / "stages/train/scoring.py").write_text((copy / "stages/train/scoring.py").read_text() + "\nSPEED = 3\n")
    code, output = octavo(copy, "code", "new", "--why", "the share of truncated groups counts")
    assert code == 0 and "have new versions" in output
    assert octavo(copy, "compile")[0] == 0
    after = cards(copy)
    assert all(json.loads(after[path])["code"]["train.trl"] == 2 for path in after) and after.keys() == before.keys()


def test_a_users_own_gate_has_its_content_as_version(copy: Path) -> None:
    text = (copy / "stages/train/rewards/format.py").read_text()
    (copy / "stages/train/rewards/mine.py").write_text(text)
    edit(copy, "specs/quickstart.yaml", "{kind: format, pattern", "{kind: mine, pattern")
    assert octavo(copy, "compile")[0] == 0
    card = copy / "runs/quickstart/shaped-s1/train.card.json"
    first = json.loads(card.read_text())["code"]["train.rewards.mine"]
    (copy / "stages/train/rewards/mine.py").write_text(text + "\nSPEED = 3\n")
    assert octavo(copy, "compile")[0] == 0
    assert json.loads(card.read_text())["code"]["train.rewards.mine"] != first


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("same", "--why", " "), "E471"), (("same", "--why", "x" * 3000), "E471"), (("same", "--why", "a word changed"), "E473")],
)
def test_a_judgement_needs_a_reason_and_a_change(copy: Path, arguments: tuple[str, ...], code: str) -> None:
    before = (copy / VERSIONS).read_text()
    returned, output = octavo(copy, "code", *arguments)
    assert returned == 1 and code in output and (copy / VERSIONS).read_text() == before
