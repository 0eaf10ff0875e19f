"""Budgets and habits of the code that reviews would otherwise have to watch."""

import subprocess
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted(path for folder in ("compiler", "stages") for path in (ROOT / folder).rglob("*.py") if path.name != "__init__.py")
SHUNNED = {"utils", "util", "common", "helpers", "base", "manager", "misc"}


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_modules_stay_small():
    assert [path.relative_to(ROOT).as_posix() for path in MODULES if lines(path) > 400] == []
    assert median(lines(path) for path in MODULES) < 160


def test_no_module_is_named_after_nothing():
    assert [path.relative_to(ROOT).as_posix() for path in MODULES if path.stem in SHUNNED] == []


@pytest.mark.parametrize("folder", ["compiler", "stages"])
def test_package_files_are_empty(folder):
    packages = [ROOT / folder / "__init__.py", *(ROOT / folder).rglob("*/__init__.py")]
    assert packages and all(path.read_text() == "" for path in packages)


def test_every_module_says_what_it_is():
    assert [path.relative_to(ROOT).as_posix() for path in MODULES if not path.read_text().startswith(('"""', '#!"""'))] == []


def test_tests_have_unique_names():
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names))


def test_no_path_of_this_checkout_is_committed():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    checkout = str(ROOT)
    names = []
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if name and path.is_file() and path.suffix in {".py", ".md", ".yaml", ".yml", ".json", ".toml", ".txt", ".lock", ".js", ".css"}:
            text = path.read_text(encoding="utf-8", errors="replace")
            names += [name] if checkout in text else []
    assert names == []
