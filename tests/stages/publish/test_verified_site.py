"""The built site against one that is built again, and what is left of runs that were taken out. More: tests/e2e/test_verify.py."""

from pathlib import Path

import pytest
from example_experiment import build

from stages.contracts.layout import ExperimentFolder
from stages.publish.verify import _outputs, differences, verify_site


def pages(*names: str) -> dict[str, dict[str, bytes]]:
    folders = {name: Path("runs") / name / "page" for name in names}
    files = {name: [path for path in folder.rglob("*") if path.is_file()] for name, folder in folders.items()}
    return {name: {path.relative_to(folders[name]).as_posix(): path.read_bytes() for path in files[name]} for name in names}


def checked(**asked):
    """(what differs, number of files) of the built site."""
    comparison = verify_site(pages("quickstart"), due=asked.get("due", set()), only=asked.get("only", ()))
    assert comparison is not None
    return [
        (difference.path.removeprefix("build/site/"), difference.cell, difference.expected, difference.found)
        for difference in comparison.differences
    ], comparison.checked


def test_the_site_of_hostile_pages_is_what_they_give(built: Path, monkeypatch):
    monkeypatch.chdir(built)
    differences, files = checked()
    assert differences == [] and files["files of the site"] > 60
    assert checked(only=["quickstart"])[1]["files of the site"] < files["files of the site"] - 20


def test_an_older_site_without_a_banner_of_age_is_no_difference(project: Path, built: Path, monkeypatch):
    """A file of the page's lineage changes: the site that is built again says so, and that is told of the file."""
    monkeypatch.chdir(built)
    health = built / "runs/quickstart/zero-s1/health.json"
    before = health.read_text()
    try:
        health.write_text(before + "\n")
        assert checked()[0] == []
    finally:
        health.write_text(before)


@pytest.mark.parametrize("content", [b"<p>no head</p>", b"\xff"])
def test_a_file_that_no_page_is_ends_no_check(built: Path, monkeypatch, content):
    """Of a page that cannot be computed again the folder is taken as it is."""
    monkeypatch.chdir(built)
    added = built / "runs/quickstart@smoke/page" / ("static/added.html" if content == b"\xff" else "added.html")
    changed = built / "build/site/404.html"
    before = changed.read_bytes()
    try:
        added.write_bytes(content)
        changed.write_bytes(before + b"<p>")
        named = [path for path, *_ in checked()[0]]
    finally:
        added.unlink()
        changed.write_bytes(before)
    assert named == (["build/site"] if content == b"\xff" else ["404.html", "experiments/quickstart@smoke/added.html"])


def test_no_site_is_nothing_to_check(project: Path):
    assert verify_site({}, due=set()) is None


def test_what_is_left_of_a_run_that_is_no_longer_declared_is_no_difference(project: Path):
    """DVC leaves the outputs of runs that were taken out; nothing reads them, and the command notes them."""
    experiment = ExperimentFolder(build(project))
    dropped = experiment.root / "shaped-s8/health.json"
    dropped.parent.mkdir()
    dropped.write_text("{}")
    outputs = [path for stage in ("screen", "conclude", "draw", "page") for path in _outputs(experiment, stage)]
    contents = {path.as_posix(): path.read_bytes() for path in outputs}
    assert dropped.as_posix() not in contents and differences(experiment, contents) == ([], [])
    declared = experiment.root / "shaped-s1/health.json"
    del contents[declared.as_posix()]
    assert [difference.path for difference in differences(experiment, contents)[0]] == [declared.as_posix()]
