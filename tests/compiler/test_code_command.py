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
START = "from __future__ import annotations"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """octavo with its quickstart, compiled, its code judged and its author known to git. Copy it before a change."""
    root, ignore = tmp_path_factory.mktemp("code") / "octavo", shutil.ignore_patterns("__pycache__")
    for folder in ("compiler", "stages", "specs", "site", "data/quickstart"):
        shutil.copytree(ROOT / folder, root / folder, ignore=ignore)
    shutil.copy(ROOT / "constraints.txt", root)
    (root / VERSIONS).unlink(missing_ok=True)
    subprocess.run(["git", "init", "-q", "."], cwd=root, check=True)
    for key, value in (("name", "Ada"), ("email", "ada@example.org")):
        subprocess.run(["git", "config", f"user.{key}", value], cwd=root, check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(OTHER_VERSIONS)
        assert octavo(root, "code", "new", "--why", "first")[0] == 0
        assert octavo(root, "compile")[0] == 0
    return root


@pytest.fixture
def copy(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(OTHER_VERSIONS)
    return shutil.copytree(whole, tmp_path / "octavo")


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


def test_what_changes_no_result_asks_nothing_and_retrains_nothing(copy: Path) -> None:
    before = cards(copy)
    for file in ("train/progress", "train/tracking", "publish/text", "analyse/draw"):
        edit(copy, f"stages/{file}.py", START, f"{START}\n\nSPEED = 3")
    edit(copy, "stages/train/scoring.py", '"""', '"""Other words. ')
    edit(copy, "stages/train/scoring.py", START, f"# a comment\n{START}")
    edit(copy, "stages/train/rewards/format.py", 'description="', 'description="Other words. ')
    code, output = octavo(copy, "compile")
    assert code == 0, output
    assert cards(copy) == before


def test_code_that_decides_results_is_refused_until_it_is_judged(copy: Path) -> None:
    before = cards(copy)
    for file in ("scoring", "rewards/format", "model"):
        edit(copy, f"stages/train/{file}.py", START, f"{START}\n\nSPEED = 3")
    code, output = octavo(copy, "compile")
    assert code == 1 and "E472" in output and "octavo code same --why" in output
    assert octavo(copy, "check", "quickstart")[0] == 0, "a spec says nothing of code"
    assert cards(copy) == before

    for why, expected in ((" ", "E471"), ("x" * 3000, "E471"), ("a name moved", "keep their versions"), ("a word changed", "E473")):
        judged = (copy / VERSIONS).read_text()
        code, output = octavo(copy, "code", "same", "--why", why)
        assert expected in output
        assert code == 0 or (copy / VERSIONS).read_text() == judged, "a refusal writes nothing"
    line = json.loads((copy / VERSIONS).read_text().splitlines()[-1])
    assert line["results"] == "same" and line["who"] == "Ada <ada@example.org>"
    assert {"train.trl", "train.ppo", "train.rewards.format", "train.evaluate", "train.preflight"} <= set(line["digests"])
    assert octavo(copy, "compile")[0] == 0
    assert cards(copy) == before, "what is judged equal retrains nothing"
    page = json.loads((copy / "runs/quickstart/page.card.json").read_text())
    assert page["judged"][0]["why"] == "a name moved"


def test_new_results_train_again(copy: Path) -> None:
    before = cards(copy)
    edit(copy, "stages/train/scoring.py", START, f"{START}\n\nSPEED = 3")
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
