"""Words and tags of a page, as written and as MkDocs built it."""

from pathlib import Path

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
    assert overviews() == []


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
