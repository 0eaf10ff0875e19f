"""What is kept of our own code from one compile to the next never changes a card."""

import json

import pytest

from compiler.__main__ import main
from compiler.code_memo import MEMO, MOST, keep, load
from compiler.inputs import Inputs
from stages.contracts.code_hash import Code, Module, known

STAGES = ["stages.analyse.screen"]


@pytest.fixture(autouse=True)
def _nothing_known():
    """`known` belongs to the process, and other tests of it fill it."""
    before = dict(known)
    known.clear()
    yield
    known.clear()
    known.update(before)


def test_compile_keeps_it_and_the_others_write_nothing(work):
    for command in (["check"], ["plan"], ["compile", "--check"]):
        main(command)
        assert not MEMO.exists(), command
    assert main(["compile"]) == 0
    fresh = Inputs().code(STAGES)
    known.clear()
    assert load() > 20
    assert Inputs().code(STAGES) == fresh


def test_an_edited_module_is_walked_again(work, tmp_path_factory):
    root = tmp_path_factory.mktemp("code")
    for name, text in {"stages/__init__.py": "", "stages/one.py": "import stages.two\n", "stages/two.py": "X = 1\n"}.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    before = Code(root).hash(["stages.one"])
    keep(0)
    known.clear()
    load()
    assert Code(root).hash(["stages.one"]) == before
    (root / "stages/two.py").write_text("X = 2\n")
    assert Code(root).hash(["stages.one"]) != before


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b'{"made_by": "someone else", "modules": {"a": ["b", ["c"]]}}',
        b'{"made_by": "x", "modules": {"a": ["b", "c"]}}',
    ],
)
def test_a_broken_or_foreign_memo_counts_for_nothing(work, broken):
    MEMO.parent.mkdir(parents=True)
    MEMO.write_bytes(broken)
    assert load() == 0
    assert main(["compile"]) == 0
    assert json.loads(MEMO.read_bytes())["modules"]


def test_one_of_another_python_counts_for_nothing(work):
    assert main(["compile"]) == 0
    kept = json.loads(MEMO.read_bytes())
    known.clear()
    assert load() == len(kept["modules"])
    known.clear()
    MEMO.write_text(json.dumps({**kept, "made_by": kept["made_by"] + "+"}))
    assert load() == 0


def test_a_place_that_cannot_be_written_costs_time_only(work):
    MEMO.parent.parent.mkdir()
    MEMO.parent.write_text("a file\n")
    assert main(["compile"]) == 0
    assert MEMO.parent.read_text() == "a file\n"


def test_it_does_not_grow_without_end(work):
    known.update({str(number): Module("hash", ()) for number in range(MOST + 5)})
    keep(0)
    known.clear()
    assert load() == MOST
    assert "4" not in known and str(MOST + 4) in known
