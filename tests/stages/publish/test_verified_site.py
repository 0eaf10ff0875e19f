"""The built site against one that is built again, and what is left of runs that were taken out. More: tests/e2e/test_verify.py."""

from pathlib import Path

import pytest
from example_experiment import build

from stages.contracts.layout import ExperimentFolder
from stages.publish.verify import _outputs, differences, verify_site

PAGE = "experiments/quickstart/index.html"


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


@pytest.fixture
def site(built: Path, monkeypatch):
    """Change a file of the built site; it is put back afterwards."""
    monkeypatch.chdir(built)
    before: dict[Path, str] = {}

    def change(place: str, old: str, new: str) -> None:
        path = Path("build/site") / place
        text = before.setdefault(path, path.read_text())
        assert old in text
        path.write_text(text.replace(old, new, 1))

    yield change
    for path, text in before.items():
        path.write_text(text)


def test_the_site_of_hostile_pages_is_what_they_give(built: Path, monkeypatch):
    monkeypatch.chdir(built)
    differences, files = checked()
    assert differences == [] and files["files of the site"] > 60
    assert checked(only=["quickstart"])[1]["files of the site"] < files["files of the site"] - 20


@pytest.mark.parametrize(
    ("place", "before", "now"),
    [
        ("index.html", "<dt>runs</dt><dd>12", "<dt>runs</dt><dd>13"),
        (PAGE, ">&#43;0.36", ">&#43;0.37"),
        ("experiments/quickstart/passports.js", "+0.36", "+0.37"),
        ("search/search_index.json", "0.36", "0.37"),
    ],
)
def test_a_changed_digit_anywhere_in_the_site_is_named(site, place: str, before: str, now: str):
    site(place, before, now)
    [(path, _, expected, actual)] = checked()[0]
    assert path == place and expected != actual


def test_files_that_are_gone_or_that_no_page_gives(built: Path, monkeypatch):
    monkeypatch.chdir(built)
    gone, extra = Path("build/site/experiments/quickstart/summary.json"), Path("build/site/experiments/other.html")
    before = gone.read_bytes()
    try:
        gone.unlink()
        extra.write_text("7")
        comparison = verify_site(pages("quickstart"), due=set())
    finally:
        gone.write_bytes(before)
        extra.unlink()
    assert comparison and [(difference.path, difference.what) for difference in comparison.differences] == [
        (gone.as_posix(), "the site lacks it"),
        (extra.as_posix(), "no page gives this file"),
    ]


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


def test_no_site_is_nothing_to_check(project: Path):
    assert verify_site({}, due=set()) is None


def test_what_is_left_of_a_run_that_is_no_longer_declared_is_no_difference(project: Path):
    """DVC leaves the outputs of runs that were taken out; nothing reads them, and no repair would remove them."""
    experiment = ExperimentFolder(build(project))
    dropped = experiment.root / "shaped-s8/health.json"
    dropped.parent.mkdir()
    dropped.write_text("{}")
    outputs = [path for stage in ("screen", "conclude", "draw", "page") for path in _outputs(experiment, stage)]
    contents = {path.as_posix(): path.read_bytes() for path in outputs if path != dropped}
    assert differences(experiment, contents) == ([], [f"{dropped} is left of a run that the spec no longer has; nothing reads it"])
    declared = experiment.root / "shaped-s1/health.json"
    del contents[declared.as_posix()]
    assert [difference.path for difference in differences(experiment, contents)[0]] == [declared.as_posix()]
