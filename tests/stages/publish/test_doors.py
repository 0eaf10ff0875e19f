"""Figures and verdicts have passports as numbers have: on the page of numbers, in its script, and for programs."""

import html
import json
import re
from pathlib import Path

from example_experiment import build

from stages.contracts.artifact import file_digest, read, write
from stages.contracts.figure import Figure, Mark
from stages.contracts.finding import Source
from stages.contracts.layout import ExperimentFolder
from stages.publish.page import page


def passport(folder: Path, anchor: str) -> str:
    """One passport of the page of numbers as HTML."""
    text = (folder / "page/leaves/numbers.html").read_text(encoding="utf-8")
    return text.split(f'id="passport-{anchor}"')[1].split("</details>")[0]


def words(markup: str) -> str:
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", markup)))


def test_a_figure_leads_to_its_numbers_files_and_table(project: Path) -> None:
    folder = ExperimentFolder(build(project))
    figure = read(Figure, folder.figures / "reward.json")
    histories = [folder.run(name).history for name in ("shaped-s1", "shaped-s2")]
    sources = tuple(Source(path=path.as_posix(), sha256=file_digest(path), attempt=None) for path in histories)
    mark = Mark(run="shaped-s1", kind="stopped", first=3, last=3, says="shaped-s1: stopped at step 3")
    write(folder.figures / "reward.json", figure.model_copy(update={"sources": sources, "marks": (mark,)}))
    page(folder.root)
    said = passport(folder.root, "figure/reward")
    assert "Reward rises from 0.62 to 0.87." in words(said) and "shaped-s1: stopped at step 3" in words(said)
    assert 'href="numbers.html#passport-shaped/reward/final"' in html.unescape(said) and "0.87" in said
    assert 'href="#behind-shaped-s1"' in said and 'href="#behind-shaped-s2"' in said and "behind-zero-s1" not in said
    assert 'href="figures/reward.csv"' in html.unescape(said)
    assert "dvc repro --force --single-item runs/quickstart/dvc.yaml:draw" in words(said)
    twin = json.loads((folder.page / "figures.json").read_text())["reward"]
    assert twin["figure"]["findings"] == ["shaped/reward/final"] and twin["figure"]["sources"][0]["path"] == histories[0].as_posix()
    assert twin["files"] == {name: file_digest(folder.figures / name) for name in ("reward.svg", "reward.csv")}


def test_a_figure_on_the_page_has_a_link_to_its_passport_and_to_its_table(project: Path) -> None:
    folder = build(project)
    page(folder)
    figure = (folder / "page/index.md").read_text().split('id="figure-reward"')[1].split("</figure>")[0]
    assert re.search(r'<a class="fact passport-of" href="numbers.html#passport-figure/reward" data-finding="figure/reward"', figure)
    assert 'href="figures/reward.csv"' in figure


def test_a_verdict_leads_to_its_rule_its_number_and_its_seeds(project: Path) -> None:
    folder = build(project)
    page(folder)
    said = words(passport(folder, "verdict/shaped-teaches"))
    assert "Supported" in said and "The whole interval lies above the margin 0.05." in said
    assert "share that passes tests, shared evaluation (evaluation.tests.pass_share), final, shaped minus zero, above 0.05" in said
    assert "shaped-vs-zero/evaluation.tests.pass_share/difference +0.36 [+0.30, +0.42]" in said
    assert "shaped-s1" in said and "specs/quickstart.yaml:10:5 claim shaped-teaches" in said
    twin = json.loads((folder / "page/verdicts.json").read_text())["shaped-teaches"]
    assert (twin["verdict"]["verdict"], twin["rule"]["margin"], twin["spec"]) == ("supported", 0.05, "specs/quickstart.yaml:10:5")


def test_a_void_verdict_without_a_number_has_a_passport_too(project: Path) -> None:
    folder = build(project)
    page(folder)
    twins = json.loads((folder / "page/verdicts.json").read_text())
    [claim] = [name for name, twin in twins.items() if twin["verdict"]["verdict"] == "void" and twin["verdict"]["finding"] is None] or [
        None
    ]
    said = words(passport(folder, f"verdict/{claim or 'inverted-lengthens'}"))
    assert "Void" in said and "rule" in said
