import subprocess
from pathlib import Path

import pytest

from stages.contracts.artifact import ArtifactError
from stages.contracts.code import OTHER_VERSIONS, Judgement, UnjudgedCode, code_versions, count_versions, judged_same, read_judgements
from stages.contracts.code_tree import HARMLESS, CodeTree

ROOT = Path(__file__).parents[3]
STAGE = '''
"""Docstring."""
import stages.tool


def train(x: int) -> str:
    """Docstring."""
    # a comment
    print("begins")
    if x < 0:
        raise StageError("S999", f"{x} is negative", why="", fix="")
    rate = Field(1.0, ge=0, description="How fast.")
    from stages.late import late
    return f"a{x}b" "c" + late(x)
'''


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "stages"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "stage.py").write_text(STAGE)
    (folder / "tool.py").write_text("LIMIT = 1\n")
    (folder / "late.py").write_text("def late(x):\n    return str(x)\n")
    (folder / "page.py").write_text("TITLE = 'x'\n")
    (folder / "tool.csv").write_text("a,1\n")
    return tmp_path


def digest(project):
    return CodeTree(project).digest("stages.stage")


def edit(project, name, old, new):
    path = project / "stages" / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_closure_holds_late_imports_and_nothing_else(project):
    assert CodeTree(project).files("stages.stage") == {*("stages/__init__.py", "stages/late.py", "stages/stage.py", "stages/tool.py")}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# a comment", "# another comment"),
        ('"""Docstring."""', '"""Other words."""'),
        ("x: int", "x:int"),
        ("    return", "\n\n    return"),
        ("import stages.tool\n", "import stages.tool  # type: ignore\n"),
        ('f"a{x}b" "c"', 'f"a{x}bc"'),
        ('description="How fast."', 'description="The speed."'),
        ('print("begins")', 'print(f"{x} begins")'),
        ("is negative", "is below zero"),
    ],
)
def test_other_words_keep_the_digest(project, old, new):
    before = digest(project)
    edit(project, "stage.py", old, new)
    assert digest(project) == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("stage.py", "late(x)", "late(x + 1)"),
        ("stage.py", "ge=0", "gt=0"),
        ("stage.py", "x < 0", "x <= 0"),
        ("stage.py", 'f"a{x}b"', 'f"a{x!r}b"'),
        ("stage.py", 'f"a{x}b"', 'f"a{x:>3}b"'),
        ("tool.py", "1", "True"),
        ("tool.py", "1", "1.0"),
        ("late.py", "str(x)", "repr(x)"),
        ("tool.csv", "a,1", "a,2"),
    ],
)
def test_a_change_of_meaning_changes_the_digest(project, name, old, new):
    before = digest(project)
    edit(project, name, old, new)
    assert digest(project) != before


def test_relative_imports_and_data_beside_a_module_count(project):
    edit(project, "stage.py", "import stages.tool", "from . import tool")
    assert "stages/tool.py" in CodeTree(project).files("stages.stage")
    before = digest(project)
    (project / "stages" / "late.yaml").write_text("limit: 1\n")
    (project / "stages" / "late.py").touch()
    assert digest(project) != before


def test_every_harmless_name_is_a_module():
    """A name whose module has gone would excuse a new module of that name from its judgement."""
    assert all((ROOT / f"stages/contracts/{name}.py").exists() or (ROOT / f"stages/train/{name}.py").exists() for name in HARMLESS)


def test_modules_that_decide_no_result_do_not_count(project):
    """Nor what only they import."""
    (project / "stages/contracts").mkdir()
    (project / "stages/contracts/layout.py").write_text("import stages.page\n")
    edit(project, "stage.py", "import stages.tool\n", "import stages.tool\nimport stages.contracts.layout\n")
    before = digest(project)
    (project / "stages/contracts/layout.py").write_text("RUNS = 'elsewhere'\n")
    edit(project, "page.py", "'x'", "'y'")
    assert digest(project) == before


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_the_digest_is_equal_on_other_pythons(version):
    """`code_tree` needs no library, so a bare interpreter can run it."""
    pythons = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    pythons += [path for path in [Path(f"/usr/bin/python{version}")] if path.exists()]
    if not pythons:
        pytest.skip(f"no Python {version} on this machine")
    script = (
        "import sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from stages.contracts.code_tree import CodeTree\n"
        "print(CodeTree(Path(sys.argv[1])).digest('stages.train.evaluate'))\n"
    )
    output = subprocess.run([pythons[0], "-c", script, ROOT], capture_output=True, text=True, check=True).stdout.strip()
    assert output == CodeTree(ROOT).digest("stages.train.evaluate")


def line(results, at="2026-01-01T00:00:00Z", **digests):
    return Judgement(results=results, why="because", who="A", at=at, digests=digests)


def test_versions_count_what_is_new():
    lines = [line("new", a="1", b="1"), line("same", a="2"), line("new", a="3"), line("same", a="1"), line("new", b="2")]
    assert count_versions(lines) == {"a": {"1": 1, "2": 1, "3": 2}, "b": {"1": 1, "2": 2}}


def test_judgements_of_a_version_are_those_that_led_to_it():
    same = [line("same", at="2026-01-02T00:00:00Z", a="2", b="2"), line("same", at="2026-01-04T00:00:00Z", a="4")]
    lines = [line("new", a="1", b="1"), same[0], line("new", a="3"), same[1]]
    assert judged_same(lines, {"a": 1}) == (line("same", at="2026-01-02T00:00:00Z", a="2"),)
    assert judged_same(lines, {"a": 2, "b": 1}) == (line("same", at="2026-01-02T00:00:00Z", b="2"), same[1])


@pytest.fixture
def versioned(project, monkeypatch):
    """The project, whose file knows the code of `stage`."""
    monkeypatch.delenv(OTHER_VERSIONS)
    first = line("new", stage=digest(project))
    (project / "stages/code_versions.jsonl").write_text(first.model_dump_json() + "\n")
    return project


def test_code_that_no_line_knows_has_no_version(versioned):
    assert code_versions(CodeTree(versioned), ["stages.stage"]) == {"stage": 1}
    edit(versioned, "tool.py", "1", "2")
    with pytest.raises(UnjudgedCode, match=r"^stage$"):
        code_versions(CodeTree(versioned), ["stages.stage"])


def test_a_users_plugin_has_its_digest_without_the_code_that_a_version_covers(versioned):
    (versioned / "stages/mine.py").write_text("import stages.tool\nX = 1\n")
    before = code_versions(CodeTree(versioned), ["stages.stage", "stages.mine"])
    assert before["stage"] == 1 and len(before["mine"]) == 12
    edit(versioned, "tool.py", "1", "2")
    with (versioned / "stages/code_versions.jsonl").open("a") as stream:
        stream.write(line("same", stage=digest(versioned)).model_dump_json() + "\n")
    assert code_versions(CodeTree(versioned), ["stages.stage", "stages.mine"]) == before
    edit(versioned, "mine.py", "1", "2")
    assert code_versions(CodeTree(versioned), ["stages.stage", "stages.mine"])["mine"] != before["mine"]


@pytest.mark.parametrize("text", ["{", "[]", '{"results": "perhaps"}', "[" * 100_000, '{"results": "same", "why": 1}'])
def test_a_broken_line_is_named(tmp_path, monkeypatch, text):
    monkeypatch.delenv(OTHER_VERSIONS)
    path = tmp_path / "code_versions.jsonl"
    path.write_text(line("new", a="1").model_dump_json() + "\n" + text + "\n")
    with pytest.raises(ArtifactError, match=r"code_versions\.jsonl:2"):
        read_judgements(path)
