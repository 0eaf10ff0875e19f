"""How much a reader sees at first, in a real browser at 1280: the result, with the evidence folded below it. Skipped without a Chromium."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import CHROMIUM, Browser, browser
from example_experiment import build, copy_site, plain
from test_page_from_analysis import analysed_in

from stages.contracts.artifact import read, write
from stages.contracts.attempt import Outcome
from stages.contracts.claim import VerdictWords
from stages.contracts.diagnostic import StageError
from stages.contracts.files import write_text
from stages.contracts.finding import Findings
from stages.contracts.health import Health
from stages.contracts.layout import ExperimentFolder
from stages.contracts.page_card import PageCard, PageLayout
from stages.contracts.preflight_card import Preflight
from stages.publish.page import page
from stages.publish.site import site

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
SEEN = """(() => {
  const text = document.querySelector("article.md-content__inner").innerText;
  return [document.documentElement.scrollHeight, text.split(/\\s+/).length];
})()"""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Pages of experiments of 12 runs: an analysed one, one of which every run was refused, and one without data."""
    root = tmp_path_factory.mktemp("screens")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        copy_site(root)
        folder = analysed_in(root)
        for made in (folder, _refused(root), _empty(root)):
            page(made.root)
        site(Path("runs"))
        yield root / "build/site/experiments"


def _refused(root: Path) -> ExperimentFolder:
    folder = ExperimentFolder(build(root, name="refused"))
    why = "preflight refuses it: 97% of the groups carry no signal"
    for ref in read(PageCard, folder.page_card).runs:
        run = folder.run(ref.name)
        ended = {"finished": False, "failure": "refused", "error": why, "steps_done": 0}
        write(run.outcome, read(Outcome, run.outcome).model_copy(update=ended))
        left_out = {"included": False, "state": "failed", "reasons": ("failed at step 0 (refused)",), "detections": (), "gates": ()}
        write(run.health, read(Health, run.health).model_copy(update=left_out))
        for path in (run.history, run.completions):
            path.unlink()
    preflight = read(Preflight, folder.preflight)
    results = tuple(result.model_copy(update={"verdict": "refuse", "reasons": (why,)}) for result in preflight.results)
    write(folder.preflight, preflight.model_copy(update={"results": results}))
    _without_numbers(folder)
    return folder


def _empty(root: Path) -> ExperimentFolder:
    folder = ExperimentFolder(build(root, name="empty"))
    for ref in read(PageCard, folder.page_card).runs:
        run = folder.run(ref.name)
        write_text(run.attempts, "")
        for path in (run.outcome, run.health, run.history, run.completions):
            path.unlink()
    folder.preflight.unlink()
    _without_numbers(folder)
    return folder


def _without_numbers(folder: ExperimentFolder) -> None:
    for path in folder.figures.iterdir():
        path.unlink()
    findings = read(Findings, folder.findings)
    verdicts = tuple(verdict.model_copy(update={"verdict": "void", "finding": None}) for verdict in findings.verdicts)
    write(folder.findings, findings.model_copy(update={"findings": (), "verdicts": verdicts}))


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.mark.parametrize(("name", "height", "words"), [("synthetic", 6000, 2500), ("refused", 1500, 700), ("empty", 1500, 700)])
def test_a_page_begins_with_the_result_and_is_short(places: Path, tab: Browser, name: str, height: int, words: int) -> None:
    tab.open(places / name / "index.html")
    pixels, seen = tab.run(SEEN)
    assert pixels < height and seen < words


def test_the_answers_the_figure_and_the_table_are_on_the_first_screen(places: Path, tab: Browser) -> None:
    tab.open(places / "synthetic/index.html")
    bottom = "document.querySelector({}).getBoundingClientRect().bottom"
    assert tab.run(bottom.format("'.answers'")) < 900
    assert tab.run(bottom.format("'.leading svg'")) < 1300 and tab.run(bottom.format("'.two table'")) < 1300
    assert tab.run("document.querySelector('.leading figure').id") == "figure-evaluation-tests"


def test_an_address_inside_a_folded_section_opens_it_and_paper_shows_all(places: Path, tab: Browser) -> None:
    page = (places / "synthetic/index.html").resolve().as_uri()
    opened = "[...document.querySelectorAll('details.part[open] h2')].map((heading) => heading.id)"
    tab.open(places / "empty/index.html")
    tab.open(f"{page}#claim-shaped-teaches")
    assert "claims" in tab.run(opened) and tab.run("document.querySelector('#claim-shaped-teaches').getBoundingClientRect().top") < 900
    tab.run("location.hash = '#lineage'; new Promise((done) => setTimeout(done, 200))")
    assert {"claims", "lineage"} <= set(tab.run(opened)) and "methods" not in tab.run(opened)
    tab.run("dispatchEvent(new Event('beforeprint'))")
    assert len(tab.run(opened)) == tab.run("document.querySelectorAll('details.part').length") > 8


def test_the_author_chooses_the_figures_the_order_and_what_is_folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = ExperimentFolder(build(tmp_path))
    card = read(PageCard, folder.page_card)
    layout = PageLayout(lead=("reward",), order=("methods", "seeds"), fold=("seeds", "claims"))
    own = VerdictWords(supported="It learns: {{ shaped/evaluation.tests.pass_share/final }} pass `tests` <b>.")
    claims = (card.claims[0].model_copy(update={"answers": own}), *card.claims[1:])
    write(folder.page_card, card.model_copy(update={"layout": layout, "claims": claims}))
    page(folder.root)
    text = (folder.page / "index.md").read_text(encoding="utf-8")
    parts = re.findall(r'<details class="part[^"]*"( open)?><summary><h2 id="([^"]*)"', text)
    assert [name for _, name in parts][:3] == ["methods", "seeds", "claims"]
    assert [name for is_open, name in parts if not is_open] == ["seeds", "claims"]
    assert "figure-reward" in text.split('<div class="leading">')[1].split("</figure>")[0] and text.count("figure-reward") == 1
    assert "It learns: 0.87 pass tests <b>." in plain(text.split('id="answer-shaped-teaches"')[1].split("</p>")[0])
    wrong = VerdictWords(supported="{{ shaped/reward/finale }}")
    write(folder.page_card, card.model_copy(update={"claims": (card.claims[0].model_copy(update={"answers": wrong}), *card.claims[1:])}))
    with pytest.raises(StageError, match=r"answers\.supported of the claim shaped-teaches: unknown id 'shaped/reward/finale'"):
        page(folder.root)
