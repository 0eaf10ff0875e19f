import subprocess
from pathlib import Path

import pytest

from stages.contracts.code_hash import Code, code_hash

ROOT = Path(__file__).parents[3]
STAGE = '''
"""Docstring."""
import stages.tool


def train(x: int) -> str:
    """Docstring."""
    # a comment
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
    return tmp_path


def hashed(project):
    return code_hash(project, ["stages.stage"])


def edit(project, name, old, new):
    path = project / "stages" / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_closure_holds_late_imports_and_nothing_else(project):
    assert Code(project).files(["stages.stage"]) == {"stages/late.py", "stages/stage.py", "stages/tool.py"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# a comment", "# another comment"),
        ('"""Docstring."""', '"""Other words."""'),
        ("x: int", "x:int"),
        ("    return", "\n\n    return"),
        ("import stages.tool\n", "import stages.tool  # type: ignore\n"),
        ('f"a{x}b" "c"', 'f"a{x}bc"'),
    ],
)
def test_writing_differently_keeps_the_hash(project, old, new):
    before = hashed(project)
    edit(project, "stage.py", old, new)
    assert hashed(project) == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("stage.py", "late(x)", "late(x + 1)"),
        ("stage.py", 'f"a{x}b"', 'f"a{x!r}b"'),
        ("stage.py", 'f"a{x}b"', 'f"a{x:>3}b"'),
        ("tool.py", "1", "True"),
        ("tool.py", "1", "1.0"),
        ("late.py", "str(x)", "repr(x)"),
    ],
)
def test_a_change_of_meaning_changes_the_hash(project, name, old, new):
    before = hashed(project)
    edit(project, name, old, new)
    assert hashed(project) != before


def test_code_that_is_not_imported_does_not_count(project):
    before = hashed(project)
    edit(project, "page.py", "'x'", "'y'")
    assert hashed(project) == before


def test_relative_imports_are_refused(project):
    edit(project, "stage.py", "import stages.tool", "from . import tool")
    with pytest.raises(ValueError, match="relative import"):
        hashed(project)


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_the_hash_is_equal_on_other_pythons(version, tmp_path):
    """The module needs only `digest` of the artifact module, so a bare interpreter without pydantic can run it."""
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    found += [path for path in [Path(f"/usr/bin/python{version}")] if path.exists()]
    if not found:
        pytest.skip(f"no Python {version} on this machine")
    script = tmp_path / "hash.py"
    script.write_text(
        "import hashlib, sys, types\n"
        "from pathlib import Path\n"
        "stub = types.ModuleType('stages.contracts.artifact')\n"
        "stub.digest = lambda text: hashlib.sha256(text.encode()).hexdigest()\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "import stages.contracts\n"
        "sys.modules['stages.contracts.artifact'] = stub\n"
        "from stages.contracts.code_hash import code_hash\n"
        "print(code_hash(Path(sys.argv[1]), ['stages.train.trl', 'stages.train.evaluate', 'stages.train.pretrain']))\n"
    )
    output = subprocess.run([found[0], script, ROOT], capture_output=True, text=True, check=True).stdout.strip()
    assert output == code_hash(ROOT, ["stages.train.trl", "stages.train.evaluate", "stages.train.pretrain"])
