"""The small picture of a page's lineage: at most a dozen boxes, grouped by condition, each of which opens without a script."""

import html
import re
from dataclasses import replace
from pathlib import Path

from example_experiment import FAILED, GATED, build

from stages.contracts.analysis_card import RunRef
from stages.contracts.artifact import read, write
from stages.contracts.layout import ExperimentFolder
from stages.contracts.page_card import PageCard
from stages.publish.claims import claim_views
from stages.publish.experiment import ExperimentFiles, load
from stages.publish.facts import Facts
from stages.publish.flow import MOST_BOXES, Column, flow
from stages.publish.page import page
from stages.publish.passports import read_passports
from stages.publish.text import record_anchor, slug


def drawn(experiment: ExperimentFiles) -> tuple[Column, ...]:
    facts = Facts(experiment.findings)
    return flow(experiment, claim_views(experiment, facts), facts.used)


def test_it_goes_from_the_spec_over_conditions_and_findings_to_the_page(project: Path) -> None:
    columns = drawn(load(build(project)))
    assert [[box.name for box in column.boxes] for column in columns] == [
        ["spec", "data and model"],
        ["shaped", "inverted", "random", "zero"],
        ["findings", "figures", "verdicts"],
        ["page"],
    ]
    boxes = {box.name: box for column in columns for box in column.boxes}
    assert sum(len(column.boxes) for column in columns) <= MOST_BOXES
    assert (boxes["random"].text, boxes["random"].tone, boxes["zero"].tone) == ("2 of 3 runs count", "hole", "")
    assert {line.text: line.note for line in boxes["random"].lines}[FAILED] == "failed, 2 attempts"
    assert {line.text: line.note for line in boxes["inverted"].lines}[GATED].startswith("finished, left out, ")
    assert ("specs/quickstart.yaml:10:5", "claim shaped-teaches") in [(line.text, line.note) for line in boxes["spec"].lines]
    assert [box.colour for box in columns[1].boxes] == [0, 1, 2, 3]


def test_many_conditions_share_the_last_box(project: Path) -> None:
    experiment = load(build(project))
    first = experiment.card.conditions[0]
    names = [f"c{number}" for number in range(20)]
    card = experiment.card.model_copy(update={"conditions": tuple(first.model_copy(update={"name": name}) for name in names), "claims": ()})
    runs = tuple(replace(experiment.runs[0], ref=RunRef(name=f"{name}-s1", condition=name, seed=1, target_steps=60)) for name in names)
    columns = drawn(replace(experiment, card=card, runs=runs))
    assert [box.name for box in columns[1].boxes] == ["c0", "c1", "c2", "c3", "16 more conditions"]
    assert [line.text for line in columns[1].boxes[-1].lines] == [f"{name}-s1" for name in names[4:]]
    assert sum(len(column.boxes) for column in columns) <= MOST_BOXES


def test_on_the_page_every_box_is_a_details_element_and_every_address_is_there(project: Path) -> None:
    folder = ExperimentFolder(build(project))
    write(folder.page_card, read(PageCard, folder.page_card).model_copy(update={"run_pages": True}))
    page(folder.root)
    text = html.unescape((folder.page / "index.md").read_text()).split("\n## Lineage\n")[1].split("\n## Methods\n")[0]
    assert text.count("<details") == text.count("<summary>") == 10
    content = read_passports(folder.page / "passports.js")
    anchors = {*map(slug, content["passports"]), *map(record_anchor, content["records"])}
    for address in re.findall(r'href="([^"]*)"', text):
        name, _, anchor = address.partition("#")
        assert (folder.page / name).exists() or (folder.page / "static" / name).exists(), address
        assert not anchor or anchor in anchors, address
    assert 'href="run-shaped-s1.html"' in text
