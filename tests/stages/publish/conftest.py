from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from example_experiment import build, copy_site

from stages.publish.page import page
from stages.publish.site import site

PROSE = """# What I make of it

The pass share moved by {{ shaped-vs-zero/evaluation.tests.pass_share/difference | interval }}
to {{ shaped/evaluation.tests.pass_share/final }}; `{{ not/evaluated }}` stays.

<script>window.hacked=1</script> and [bad](javascript:window.hacked=1)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project as working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project with a hostile experiment and its smoke profile, their pages and the site."""
    root = tmp_path_factory.mktemp("built")
    with contextlib.chdir(root):
        copy_site(root)
        page(build(root, prose=PROSE))
        page(build(root, name="quickstart@smoke", profile="smoke"))
        site(Path("runs"))
    yield root
