import html
import re
from pathlib import Path
from typing import Any

import pytest
from example_experiment import HOSTILE, build, section_of

from stages.contracts.artifact import read, write
from stages.contracts.finding import Expected, Findings, Ruled, RunScore
from stages.contracts.layout import ExperimentFolder
from stages.contracts.page_card import Action, Contingency, PageCard
from stages.publish.page import page
from stages.publish.text import environment

WORDS: Any = environment().get_template("plan_words.html.j2").module
CHANGE = {"train.temperature": "1.1 <b>|"}


def action(id_: str, **more: object) -> Action:
    return Action.model_validate({"id": id_, "do": "Raise the `temperature` <i>.", "change": CHANGE, **more})


def plan(claim: str, *verdicts: str) -> Contingency:
    return Contingency.model_validate({"id": f"if-{claim}", "if": {"claim": claim, "is": verdicts}, "do": "Stop.", "change": CHANGE})


def section(project: Path, **fields: object) -> str:
    folder = ExperimentFolder(build(project))
    write(folder.page_card, read(PageCard, folder.page_card).model_copy(update=fields))
    page(folder.root)
    return section_of((folder.page / "index.md").read_text(encoding="utf-8"), "Actions and contingency plans")


def plain(markup: str) -> str:
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", markup))).strip()


def test_actions_with_their_state_and_what_they_should_move(project: Path) -> None:
    moves = ({"metric": "zero_signal_share", "below": 0.1},)
    text = section(project, actions=(action("hotter", expect=moves, because=HOSTILE), action("longer", priority=2)))
    assert "<b>|" not in text and "<i>" not in text and "<script" not in text and "{{" not in text
    first, second = (plain(row) for row in text.split('<tr id="action-')[1:])
    assert "1 Raise the temperature <i>." in first and "train.temperature → 1.1 <b>|" in first
    assert "zero-signal share below 0.1 now: shaped 0.21 , inverted 0.21 , random 0.21 , zero 1.00" in first
    assert "Raise the temperature" in second
    links = set(map(html.unescape, re.findall(r'data-finding="([^"]*)"', text)))
    assert "shaped/zero_signal_share/final" in links


def test_plans_with_the_state_that_verdicts_give(project: Path) -> None:
    """shaped-teaches is supported, random-harmless refuted, inverted-lengthens void, shaped-forms inconclusive."""
    plans = (
        plan("shaped-teaches", "refuted", "void"),
        plan("random-harmless", "refuted"),
        plan("inverted-lengthens", "refuted"),
        plan("shaped-forms", "inconclusive", "void"),
    )
    text = section(project, contingency=plans)
    rows = [plain(row) for row in text.split('<tr id="plan-')[1:]]
    assert "shaped-teaches is refuted or void" in rows[0] and "not triggered the claim is supported" in rows[0]
    assert "triggered the claim is refuted" in rows[1] and "not triggered" not in rows[1]
    assert "undecided the claim is void, neither refuted nor the opposite" in rows[2]
    assert " triggered the claim is inconclusive" in rows[3]
    assert 'href="#claim-random-harmless"' in text and "Actions</h3>" not in text


def expected(condition: str, *states: str) -> Expected:
    runs = tuple(
        RunScore(run=f"{condition}-s{n}", state=state, finding="shaped/reward/final", window="", why="") for n, state in enumerate(states)
    )  # type: ignore[arg-type]
    return Expected(
        expectation="early",
        condition=condition,
        metric="reward",
        place="50%",
        direction="above",
        bound=0.2,
        finding="shaped/reward/final",
        runs=runs,
    )


@pytest.mark.parametrize(
    ("scored", "if_missed", "if_met"),
    [
        ([], "undecided", "undecided"),
        ([expected("a", "met", "met"), expected("b", "met")], "not triggered", "triggered"),
        ([expected("a", "met", "missed"), expected("b", "met")], "triggered", "not triggered"),
        ([expected("a", "not_reached"), expected("b", "met")], "undecided", "undecided"),
        ([expected("a", "not_reached"), expected("b", "missed")], "triggered", "not triggered"),
    ],
)
def test_states_of_plans_for_an_expectation(scored: list[Expected], if_missed: str, if_met: str) -> None:
    for wanted, state in ((("missed",), if_missed), (("met",), if_met)):
        assert plain(WORDS.expectation_state(scored, wanted)).startswith(state)


@pytest.mark.parametrize(
    ("states", "expected_state", "why"),
    [
        ((), "undecided", "not evaluated yet"),
        (("quiet", "quiet"), "not triggered", "it was never raised"),
        (("quiet", "stopped"), "triggered", "raised in a-s1"),
        (("would_have_stopped", "unknown"), "triggered", "raised in a-s0"),
        (("quiet", "unknown"), "undecided", "never measured in some runs"),
        (("held_back", "quiet"), "not triggered", "a green light held it back in a-s0"),
    ],
)
def test_states_of_plans_for_a_red_flag(states: tuple[str, ...], expected_state: str, why: str) -> None:
    ruled = [
        Ruled(run=f"a-s{n}", condition="a", rule="red_flag-1", says="", state=state)  # type: ignore[arg-type]
        for n, state in enumerate(states)
    ]
    says = plain(WORDS.flag_state(ruled))
    assert says.startswith(expected_state) and why in says


def test_plans_for_expectations_and_red_flags_are_told(project: Path) -> None:
    folder = ExperimentFolder(build(project))
    ruled = Ruled(run="shaped-s1", condition="shaped", rule="red_flag-1", says="", state="stopped")
    more = {"expectations": (expected("shaped", "missed"),), "rules": (ruled,)}
    write(folder.findings, read(Findings, folder.findings).model_copy(update=more))
    plans = (
        Contingency.model_validate({"id": "a", "if": {"expectation": "early"}, "do": "x"}),
        Contingency.model_validate({"id": "b", "if": {"red_flag": 1}, "do": "x"}),
    )
    write(folder.page_card, read(PageCard, folder.page_card).model_copy(update={"contingency": plans}))
    page(folder.root)
    text = (folder.page / "index.md").read_text(encoding="utf-8")
    first, second = (plain(row) for row in text.split('<tr id="plan-')[1:])
    assert "expectation early is missed x triggered missed in shaped" in first
    assert "red flag 1 is raised x triggered raised in shaped-s1" in second


def test_a_page_without_them_has_no_such_section_and_one_without_findings_makes_nothing_up(project: Path) -> None:
    folder = ExperimentFolder(build(project))
    page(folder.root)
    assert "Actions and contingency" not in (folder.page / "index.md").read_text(encoding="utf-8")
    write(folder.findings, read(Findings, folder.findings).model_copy(update={"findings": (), "verdicts": ()}))
    fields = {"contingency": (plan("shaped-teaches", "refuted"),), "claims": ()}
    write(folder.page_card, read(PageCard, folder.page_card).model_copy(update=fields))
    page(folder.root)
    assert "undecided there is no verdict yet" in plain((folder.page / "index.md").read_text(encoding="utf-8"))
