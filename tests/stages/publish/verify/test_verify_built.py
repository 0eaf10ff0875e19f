"""Words and tags of a page, as written and as MkDocs built it."""

import html
import re
from pathlib import Path

import pytest

from stages.contracts.layout import ExperimentFolder
from stages.publish.verify.built import differences, of_page, of_site, overviews

PAGE = '---\ntitle: "x"\n---\n# A title\n\n<p>mean <a class="fact" data-finding="a/reward/final">&#43;0.86</a></p>\n'
SITE = (
    '<html><body><nav>0.99</nav><article class="md-content__inner md-typeset">\n<h1 id="a-title">A title'
    '<a class="headerlink" href="#a-title">&para;</a></h1>\n<p>mean <a class="fact" data-finding="a/reward/final">&#43;0.86</a></p>\n'
    '<article class="claim">inner</article></article><footer>7</footer></body></html>'
)


def words(tokens):
    return [token.text for token in tokens]


def test_a_built_page_has_the_tokens_of_its_source_and_nothing_of_the_theme():
    expected = ["A", "title", "<p>", "mean", "<a class=fact data-finding=a/reward/final>", "+0.86"]
    assert words(of_page(PAGE)) == expected
    assert words(of_site(SITE)) == [*expected, "<article class=claim>", "inner"]


def test_the_words_of_a_number_know_their_finding_and_their_place():
    number = next(token for token in of_site(SITE) if token.text == "+0.86")
    assert (number.finding, number.line) == ("a/reward/final", 3)
    assert SITE.splitlines()[2][number.column - 1 :].startswith("&#43;0.86")


def test_hostile_pages_of_the_example_are_the_same_in_the_site_until_a_digit_changes(built: Path, monkeypatch):
    monkeypatch.chdir(built)
    for name in ("quickstart", "quickstart@smoke"):
        experiment = ExperimentFolder(Path("runs") / name)
        made = {path.as_posix(): path.read_bytes() for path in experiment.page.rglob("*") if path.is_file()}
        found, files = differences(experiment, made)
        assert found == [] and files == len(made)
    found, pages = overviews()
    assert found == [] and pages == 5  # home, list, all tags, two tags


def test_a_changed_digit_in_the_site_is_told_with_the_finding_and_the_place(built: Path, monkeypatch):
    monkeypatch.chdir(built)
    experiment = ExperimentFolder(Path("runs/quickstart"))
    made = {path.as_posix(): path.read_bytes() for path in experiment.page.rglob("*") if path.is_file()}
    page = Path("build/site/experiments/quickstart/index.html")
    text = page.read_text()
    at = text.index("0.36", text.index('data-finding="shaped-vs-zero/evaluation.tests.pass_share/difference"'))
    try:
        page.write_text(f"{text[:at]}0.37{text[at + 4 :]}")
        [found], _ = differences(experiment, made)
    finally:
        page.write_text(text)
    assert (found.code, found.path, found.expected, found.found) == ("S489", page.as_posix(), "+0.36", "+0.37")
    assert found.cell == "shaped-vs-zero/evaluation.tests.pass_share/difference"
    assert found.line == text[:at].count("\n") + 1


def test_a_changed_data_file_and_a_missing_one(built: Path, monkeypatch):
    monkeypatch.chdir(built)
    experiment = ExperimentFolder(Path("runs/quickstart"))
    made = {path.as_posix(): path.read_bytes() for path in experiment.page.rglob("*") if path.is_file()}
    twin, summary = (Path("build/site/experiments/quickstart") / name for name in ("lineage.json", "summary.json"))
    before = twin.read_text(), summary.read_text()
    try:
        twin.write_text(before[0].replace("history.parquet", "histories.parquet", 1))
        summary.unlink()
        found, _ = differences(experiment, made)
    finally:
        twin.write_text(before[0])
        summary.write_text(before[1])
    assert {(one.path, one.code) for one in found} == {(twin.as_posix(), "S489"), (summary.as_posix(), "S489")}


def test_a_site_without_the_experiment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert differences(ExperimentFolder(Path("runs/a")), {}) == ([], 0)
    Path("build/site").mkdir(parents=True)
    assert [one.code for one in differences(ExperimentFolder(Path("runs/a")), {})[0]] == ["S489"]


@pytest.mark.parametrize(
    ("page", "after", "before", "now"),
    [
        ("index.html", "<dt>runs</dt><dd>", "12", "13"),
        ("index.html", "supported</dt><dd>", "1", "2"),
        ("index.html", "<b>+0.36", "[+0.30,", "[+0.31,"),
        ("index.html", 'id="live-experiments"', "10", "11"),
        ("experiments/index.html", "<h1", "10", "11"),
        ("experiments/octavo_list/tag-grpo.html", "<h1", "10", "11"),
    ],
)
def test_a_changed_digit_on_home_and_lists_is_told(built: Path, monkeypatch, page: str, after: str, before: str, now: str):
    monkeypatch.chdir(built)
    path = Path("build/site") / page
    text = path.read_text()
    number = re.compile(rf"(?<![\w.]){re.escape(html.escape(before))}(?![\w.])")
    at = number.search(plain := text.replace("&#43;", "+").replace("&#91;", "[").replace("&#44;", ","), plain.index(after))
    assert at
    try:
        path.write_text(f"{plain[: at.start()]}{now}{plain[at.end() :]}")
        [found] = overviews()[0]
    finally:
        path.write_text(text)
    assert (found.code, found.path, found.expected, found.found) == ("S489", path.as_posix(), before, now)


def test_a_missing_list_and_a_home_page_without_its_computed_part_are_told(built: Path, monkeypatch):
    monkeypatch.chdir(built)
    tags, home = Path("build/site/experiments/octavo_list/tags.html"), Path("build/site/index.html")
    before = tags.read_text(), home.read_text()
    try:
        tags.unlink()
        home.write_text(before[1].replace('class="octavo-', 'class="'))
        found, _ = overviews()
    finally:
        tags.write_text(before[0])
        home.write_text(before[1])
    assert [(one.code, one.path) for one in found] == [("S489", tags.as_posix()), ("S489", home.as_posix())]


def test_what_an_author_writes_around_the_computed_part_is_no_difference(built: Path, monkeypatch):
    monkeypatch.chdir(built)
    home = Path("build/site/index.html")
    before = home.read_text()
    try:
        home.write_text(before.replace("Experiments that can be checked", "Other words 7"))
        assert overviews()[0] == []
    finally:
        home.write_text(before)
