import html
import re
from pathlib import Path

import pytest
from example_experiment import HOSTILE, build

from stages.contracts.artifact import read, write
from stages.contracts.finding import Findings, Verdict
from stages.contracts.intention import ActionWords, ChangeWords, ContingencyWords, MoveWords
from stages.contracts.layout import ExperimentFolder
from stages.contracts.page_card import PageCard
from stages.publish.intentions import claim_state
from stages.publish.page import page

CHANGE = ChangeWords(key="train.temperature", before="1", after="1.1 <b>|")


def action(id_: str, tried: tuple[str, ...] = (), **more: object) -> ActionWords:
    fields = {"do": "Raise the `temperature` <i>.", "priority": 1, "because": "", "changes": (CHANGE,), "expects": ()} | more
    return ActionWords(id=id_, tried=tried, **fields)  # type: ignore[arg-type]


def plan(claim: str, *verdicts: str, tried: tuple[str, ...] = ()) -> ContingencyWords:
    return ContingencyWords(id=f"if-{claim}", claim=claim, verdicts=verdicts, do="Stop.", changes=(CHANGE,), tried=tried)


def section(project: Path, **fields: object) -> str:
    folder = ExperimentFolder(build(project))
    write(folder.page_card, read(PageCard, folder.page_card).model_copy(update=fields))
    page(folder.root)
    return (folder.page / "index.md").read_text(encoding="utf-8").split("## Actions and contingency plans")[1].split("\n## ")[0]


def plain(markup: str) -> str:
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", markup))).strip()


def test_actions_with_their_state_and_what_they_should_move(project: Path) -> None:
    moves = (MoveWords(metric="zero_signal_share", direction="below", bound=0.1),)
    text = section(project, actions=(action("hotter", ("warm", "warmer"), expects=moves, because=HOSTILE), action("longer", priority=2)))
    assert "<b>|" not in text and "<i>" not in text and "<script" not in text and "{{" not in text
    first, second = (plain(row) for row in text.split('<tr id="action-')[1:])
    assert "1 Raise the temperature <i>." in first and "train.temperature 1 → 1.1 <b>|" in first
    assert "zero-signal share below 0.1 now: shaped 0.21 , inverted 0.21 , random 0.21 , zero 1.00" in first
    assert "tried in warm , warmer" in first and " open" in second
    links = set(map(html.unescape, re.findall(r'data-finding="([^"]*)"', text)))
    assert "shaped/zero_signal_share/final" in links


def test_plans_with_the_state_that_verdicts_give(project: Path) -> None:
    """shaped-teaches is supported, random-harmless refuted, inverted-lengthens void, shaped-forms inconclusive."""
    plans = (
        plan("shaped-teaches", "refuted", "void"),
        plan("random-harmless", "refuted", tried=("eased",)),
        plan("inverted-lengthens", "refuted"),
        plan("shaped-forms", "inconclusive", "void"),
    )
    text = section(project, contingency=plans)
    rows = [plain(row) for row in text.split('<tr id="plan-')[1:]]
    assert "shaped-teaches is refuted or void" in rows[0] and "not triggered the claim is supported" in rows[0]
    assert "triggered the claim is refuted tried in eased" in rows[1] and "not triggered" not in rows[1]
    assert "undecided the claim is void, neither refuted nor the opposite" in rows[2]
    assert " triggered the claim is inconclusive" in rows[3]
    assert 'href="#claim-random-harmless"' in text and "Actions</h3>" not in text


@pytest.mark.parametrize(
    ("verdict", "wanted", "state"),
    [
        (None, ("refuted",), "undecided"),
        ("refuted", ("refuted",), "triggered"),
        ("supported", ("refuted",), "not triggered"),
        ("inconclusive", ("refuted",), "undecided"),
        ("void", ("refuted", "inconclusive"), "undecided"),
        ("void", ("void",), "triggered"),
        ("refuted", ("void", "inconclusive"), "not triggered"),
    ],
)
def test_states(verdict: str | None, wanted: tuple[str, ...], state: str) -> None:
    made = Verdict(claim="c", verdict=verdict, why="", finding=None, direction="above", margin=0) if verdict else None  # type: ignore[arg-type]
    assert claim_state(made, wanted)[0] == state


def test_a_page_without_them_has_no_such_section_and_one_without_findings_makes_nothing_up(project: Path) -> None:
    folder = ExperimentFolder(build(project))
    page(folder.root)
    assert "Actions and contingency" not in (folder.page / "index.md").read_text(encoding="utf-8")
    write(folder.findings, read(Findings, folder.findings).model_copy(update={"findings": (), "verdicts": ()}))
    fields = {"contingency": (plan("shaped-teaches", "refuted"),), "claims": ()}
    write(folder.page_card, read(PageCard, folder.page_card).model_copy(update=fields))
    page(folder.root)
    assert "undecided there is no verdict yet" in plain((folder.page / "index.md").read_text(encoding="utf-8"))
