"""Experiments side by side: settings that differ, gains and losses on shared metrics only, claims."""

import html
import re
from pathlib import Path

from example_experiment import build, copy_site

from stages.contracts.artifact import read, write
from stages.contracts.finding import Findings
from stages.contracts.layout import ExperimentFolder
from stages.contracts.page_card import ChangeWords, PageCard
from stages.publish.compare import comparisons
from stages.publish.home import summaries
from stages.publish.page import page
from stages.publish.site import site

SHARE = "shaped/evaluation.tests.pass_share/final"
RATE = ChangeWords(key="train.learning_rate", before="1e-3", after="1e-4 <b>")


def publish(project: Path, name: str, parent: str | None, *changes: ChangeWords, share: tuple[float, float, float] | None = None) -> None:
    folder = ExperimentFolder(build(project, name=name))
    card = read(PageCard, folder.page_card)
    write(folder.page_card, card.model_copy(update={"parent": parent, "changes": changes, "hypothesis": "less drift"}))
    if share:
        findings = read(Findings, folder.findings)
        new = dict(zip(("value", "low", "high"), share, strict=True))
        changed = [finding.model_copy(update=new) if finding.id == SHARE else finding for finding in findings.findings]
        write(folder.findings, findings.model_copy(update={"findings": tuple(changed)}))
    page(folder.root)


def compared(project: Path, name: str) -> str:
    return (project / f"build/site/experiments/{name}/compare.html").read_text(encoding="utf-8")


def row(text: str, condition: str, score: str) -> str:
    table = text.split('id="gained-and-lost"')[1].split("</table>")[0]
    (markup,) = [part for part in table.split("<tr>") if re.search(f">{condition}<.*>{score}<", part)]
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", markup))).strip()


def test_gains_and_losses_are_said_where_intervals_do_not_touch(project: Path) -> None:
    copy_site(project)
    publish(project, "first", None, share=(0.5, 0.45, 0.55))
    publish(project, "better", "first", RATE, share=(0.7, 0.65, 0.75))
    publish(project, "touching", "first", RATE, share=(0.6, 0.55, 0.65))
    publish(project, "worse", "first", RATE, share=(0.3, 0.25, 0.35))
    site(Path("runs"))
    text = compared(project, "first")
    assert row(text, "shaped", "tests") == (
        "shaped tests 0.50 [0.45, 0.55] 0.70 [0.65, 0.75] ▲ gained 0.60 [0.55, 0.65] no clear difference 0.30 [0.25, 0.35] ▼ lost"
    )
    assert row(text, "shaped", "format").count("no clear difference") == 3
    assert "shaped-s1" not in text.split('id="gained-and-lost"')[1].split("</table>")[0], "runs are not compared"
    settings = text.split('id="what-differed"')[1].split("</table>")[0]
    assert html.unescape(re.sub(r"<[^>]*>", " ", settings)).count("1e-4 <b>") == 3 and "<b>" not in settings
    assert f'href="../better/numbers.html#passport-{SHARE}"' in text and "train" not in row(text, "shaped", "tests")
    assert "<title>first and what was changed of it - octavo</title>" in text
    assert "better: Shares that pass the shared evaluation: 1 gained, 0 lost, " in html.unescape(re.sub(r"<[^>]*>", "", text))


def test_another_yardstick_is_not_compared(project: Path) -> None:
    copy_site(project)
    publish(project, "first", None, share=(0.5, 0.45, 0.55))
    publish(project, "other", "first", ChangeWords(key="evaluation.temperature", before="1.0", after="0.2"), share=(0.9, 0.85, 0.95))
    site(Path("runs"))
    text = compared(project, "other")
    assert "other has another yardstick" in text and "gained" not in row(text, "shaped", "tests") and "0.90" in row(text, "shaped", "tests")


def test_pages_and_home_lead_to_it(project: Path) -> None:
    copy_site(project)
    publish(project, "first", None)
    publish(project, "second", "first", RATE)
    publish(project, "alone", None)
    page(build(project, name="first@smoke", profile="smoke"))
    site(Path("runs"))
    assert comparisons(summaries(sorted(Path("runs").glob("*/page")))) == {"first": ("first", "second"), "second": ("first", "second")}
    place = project / "build/site"
    for name in ("first", "second"):
        assert 'href="compare.html"' in (place / f"experiments/{name}/index.html").read_text(encoding="utf-8")
    alone = (place / "experiments/alone/index.html").read_text(encoding="utf-8")
    assert "compare.html" not in alone and "octavo: compare" not in alone and not (place / "experiments/alone/compare.html").exists()
    home = html.unescape((place / "index.html").read_text(encoding="utf-8"))
    assert 'href="experiments/first/compare.html"' in home and 'href="experiments/second/compare.html"' in home
