"""Run pages: asked for by the spec, complete, escaped, and about one run only."""

import html
import json
import re
from pathlib import Path

from example_experiment import FAILED, GATED, build, copy_site

from stages.contracts.artifact import read, write
from stages.contracts.files import write_text
from stages.contracts.finding import Findings
from stages.contracts.layout import ExperimentFolder
from stages.contracts.page_card import PageCard
from stages.publish.page import page
from stages.publish.site import site

SVG = """<svg xmlns="http://www.w3.org/2000/svg" class="octavo-figure" viewBox="0 0 9 9">
<style>
.octavo-figure text{font-size:13px}
</style>
<g data-run="shaped-s1"><title>shaped-s1</title><path d="M0 0"/></g>
<g data-run="shaped-s2"><title>shaped-s2</title><path d="M0 1"/></g>
<g data-run="inverted-s3 (left out)"><title>inverted-s3 (left out)</title><path d="M0 2"/></g>
<g data-run="shaped-s2: gradient not finite, step 3"><title>shaped-s2: gradient not finite, step 3</title><rect/></g>
<g data-run="shaped: mean"><title>shaped: mean</title><path d="M0 3"/></g>
</svg>
"""


def asked(project: Path, *, drawn: bool = True) -> Path:
    """The page's folder of an experiment that asks for run pages."""
    folder = ExperimentFolder(build(project))
    card = read(PageCard, folder.page_card)
    write(folder.page_card, card.model_copy(update={"run_pages": True, "curves": ("reward",)}))
    if drawn:
        figure = folder.figures / "reward.json"
        write_text(folder.figures / "curves-reward.json", figure.read_text().replace('"name": "reward"', '"name": "curves-reward"'))
        write_text(folder.figures / "curves-reward.svg", SVG)
        write_text(folder.figures / "curves-reward.csv", "metric,unit,condition,run,seed,step,value,state,counts,part\n")
    page(folder.root)
    return folder.page


def words(markup: str) -> str:
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", markup)))


def leaf(pages: Path, run: str) -> str:
    return (pages / f"static/run-{run}.html").read_text(encoding="utf-8")


def test_a_page_a_run_and_links_both_ways(project: Path) -> None:
    pages = asked(project)
    runs = [ref.name for ref in read(PageCard, pages.parent / "page.card.json").runs]
    assert {path.name for path in (pages / "static").iterdir()} == {
        "completions.html",
        "numbers.html",
        *(f"run-{run}.html" for run in runs),
    }
    text = (pages / "index.md").read_text(encoding="utf-8")
    assert all(text.count(f'href="run-{run}.html"') >= 2 for run in runs), "from the table of seeds and from the attempts"
    second = leaf(pages, runs[1])
    assert 'href="index.html"' in second and f'href="run-{runs[0]}.html" rel="prev"' in second and f'href="run-{runs[2]}.html"' in second
    assert 'rel="prev"' not in leaf(pages, runs[0]) and 'rel="next"' not in leaf(pages, runs[-1])


def test_a_run_page_holds_its_run_and_no_other(project: Path) -> None:
    pages = asked(project)
    text = leaf(pages, "shaped-s2")
    assert "<title>shaped-s2</title>" in text and "<title>shaped-s2: gradient not finite, step 3</title>" in html.unescape(text)
    assert "<title>shaped-s1</title>" not in text and "inverted-s3" not in text.split("<svg")[1].split("</svg>")[0]
    assert "<title>shaped: mean</title>" in html.unescape(text) and "<style>" not in text
    attempts = words(text.split('<h2 id="attempts">')[1].split("<h2")[0])
    assert "killed" in attempts and "finished" in attempts and "linux-x86_64-2cpu" in attempts
    card = words(text.split('<h2 id="card">')[1].split("<h2")[0])
    assert "learning_rate 0.001 specs/quickstart.yaml:22:18" in card and "octavo trace quickstart shaped-s2" in card


def test_numbers_of_a_run_page_have_their_passports_on_it(project: Path) -> None:
    text = leaf(asked(project), "shaped-s1")
    links = {html.unescape(href) for href in re.findall(r'<a class="fact[^"]*" href="([^"]*)"', text)}
    content = json.loads(text.split('id="octavo-passports">')[1].split("</script>")[0])
    assert {link for link in links if "passport-figure/" not in link} == {f"#passport-{id_}" for id_ in content["passports"]}
    assert "#passport-shaped-s1/reward/final" in links and list(content["records"]) == ["shaped-s1"]


def test_runs_that_failed_or_do_not_count_say_so_first(project: Path) -> None:
    pages = asked(project)
    assert "This run does not count" in words(leaf(pages, FAILED).split("<h2")[0])
    assert "This run does not count" in words(leaf(pages, GATED).split("<h2")[0])
    assert "does not count" not in leaf(pages, "zero-s1")


def test_a_missing_run_has_a_page_with_its_card(project: Path) -> None:
    folder = ExperimentFolder(build(project))
    write(folder.page_card, read(PageCard, folder.page_card).model_copy(update={"run_pages": True}))
    run = folder.run("zero-s3")
    for path in (run.outcome, run.health, run.completions, run.attempts):
        path.unlink()
    page(folder.root)
    text = words(leaf(folder.page, "zero-s3"))
    assert "This run is missing" in text and "No completion was recorded." in text and "No attempt has begun." in text
    assert "No curve was drawn." in text
    findings = read(Findings, folder.findings)
    write(folder.findings, findings.model_copy(update={"findings": (), "verdicts": ()}))
    page(folder.root)
    assert "No number was computed of this run." in words(leaf(folder.page, "zero-s3"))
    assert "train Name Value Written in" in text and "learning_rate " in text


def test_a_run_page_that_is_older_than_its_data_says_so(project: Path) -> None:
    copy_site(project)
    folder = ExperimentFolder(asked(project).parent)
    place = project / "build/site/experiments/quickstart/run-zero-s1.html"
    site(Path("runs"))
    text = place.read_text(encoding="utf-8")
    assert "<title>Run zero-s1 - octavo</title>" in text and "octavo-frame" not in text
    assert "older than its data" not in text and "octavo: age" not in text
    assert "run-zero-s1" not in "".join(path.read_text(encoding="utf-8") for path in (project / "build/site/search").iterdir())
    health = folder.run("zero-s1").health
    health.write_text(health.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    site(Path("runs"))
    assert "This page is older than its data" in place.read_text(encoding="utf-8")
