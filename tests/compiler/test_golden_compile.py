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


CASES = {
    "small": ("example", r"plain-s7/train|/dvc\.yaml|analysis/|page\.card|preflight\.card"),
    "weighted": ("example", r"shaped-s1/train|evaluate\.card"),
    "ppo": ("example", r"shaped-s1/train"),
    "sft": ("example", r"gold-s1/train"),
}
"""Case -> name of the experiment, and what is kept of its files: one run card an algorithm, one pipeline, cards of single stages."""


@pytest.mark.parametrize("case", CASES)
def test_cases(case, work, files, update_golden):
    name, kept = CASES[case]
    text = (GOLDEN / case / "spec.yaml").read_text(encoding="utf-8")
    made = files(text, name)
    assert files(text, name) == made, "two compiles are equal"
    compare(case, {path: text for path, text in made.files.items() if re.search(kept, path)}, update_golden)


def test_quickstart(monkeypatch, update_golden):
    """Of the real quickstart: the first seed of each condition, its pipeline, and how bases are made."""
    monkeypatch.chdir(ROOT)
    made = project(compile_all([named("quickstart")], Inputs()), with_site=True).files
    chosen = {path: text for path, text in made.items() if re.search(r"-s1/train|/dvc\.yaml|^dvc\.yaml|pretrain\.card|page\.card", path)}
    compare("quickstart", chosen, update_golden)
