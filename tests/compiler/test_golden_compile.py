"""Golden compiles: `tests/golden/<case>/` holds a spec and every file made of it. Hashes of code change with the code and are left out."""

import re
import shutil
from pathlib import Path

import pytest

from compiler.build.inputs import Inputs
from compiler.build.pipeline import named
from compiler.compile import compile_all, project

GOLDEN = Path(__file__).parents[1] / "golden"
ROOT = Path(__file__).parents[2]


def masked(text: str) -> str:
    return re.sub(r'"(revision|analyse.draw|publish.page)": "[0-9a-f]{12,16}"', r'"\1": "(hex digits)"', text)


def compare(case: str, made: dict[str, str], update: bool) -> None:
    folder = GOLDEN / case / "expected"
    texts = {path: masked(text) for path, text in made.items()}
    if update:
        shutil.rmtree(folder, ignore_errors=True)
        for path, text in texts.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    expected = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()}
    assert sorted(texts) == sorted(expected)
    for path, text in texts.items():
        assert text == expected[path], path


@pytest.mark.parametrize("name", ["example", "example@smoke"])
def test_small(name, work, files, update_golden):
    made = files((GOLDEN / "small" / "spec.yaml").read_text(encoding="utf-8"), name)
    assert files((GOLDEN / "small" / "spec.yaml").read_text(encoding="utf-8"), name) == made, "two compiles are equal"
    every = {**made.files, **made.once}
    case, left_out = ("small/smoke", "dvc.yaml$") if "@" in name else ("small/proper", r"-s(42|99)/|origins\.json|retry\.json|_models/")
    compare(case, {path: text for path, text in every.items() if not re.search(left_out, path)}, update_golden)


def test_weighted(work, files, update_golden):
    """A weighted reward with needs, a penalty and a curriculum: the cards of one seed and of the stages that score."""
    made = files((GOLDEN / "weighted" / "spec.yaml").read_text(encoding="utf-8")).files
    compare(
        "weighted", {path: text for path, text in made.items() if re.search(r"-s1/|preflight\.card|evaluate\.card", path)}, update_golden
    )


def test_quickstart(monkeypatch, update_golden):
    """Of the real quickstart: the pipeline, the first seed of each condition, and the cards of stages that run once."""
    monkeypatch.chdir(ROOT)
    made = project(compile_all([named("quickstart")], Inputs()), with_site=True).files
    chosen = {path: text for path, text in made.items() if not re.search(r"-s[2-9]/|origins\.json|preflight\.card", path)}
    compare("quickstart", chosen, update_golden)
