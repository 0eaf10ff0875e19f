"""Waivers: which card may keep which code hash."""

import json

import pytest

from stages.contracts.artifact import ArtifactError, canonical_json, digest, write_text
from stages.contracts.diagnostic import StageError
from stages.contracts.retry import Retry
from stages.contracts.stage import open_card
from stages.contracts.waiver import Waiver, chain, coded, covers, identity, read_waivers, recoded

CARD = canonical_json({"schema": "x/1", "code_hash": "aaaa", "seed": 1, "inner": {"code_hash": "kept"}})


def waiver(before, after, card="a-s1/train.card.json", of=CARD):
    return Waiver(card=card, identity=identity(of), code_from=before, code_to=after, who="A <a@b>", why="same", at="2026-11-28T02:00:00Z")


def write_lines(path, *waivers):
    write_text(path, "".join(json.dumps(one.model_dump()) + "\n" for one in waivers))


def test_a_reason_with_a_line_separator_stays_one_line(tmp_path):
    one = waiver("a", "b").model_copy(update={"why": "same\u2028results"})
    write_text(tmp_path / "waivers.jsonl", one.model_dump_json() + "\n")
    assert read_waivers(tmp_path / "waivers.jsonl") == (one,)


def test_identity_is_everything_but_the_cards_own_code_hash():
    assert identity(CARD) == digest(CARD.replace('"aaaa"', '""'))[:16]
    assert identity(recoded(CARD, "bbbb")) == identity(CARD) != identity(CARD.replace('"seed": 1', '"seed": 2'))
    assert coded(recoded(CARD, "bbbb")) == "bbbb" and '"code_hash": "kept"' in recoded(CARD, "bbbb")
    assert identity(CARD.replace("kept", "other")) != identity(CARD)


@pytest.mark.parametrize(
    ("links", "code", "expected"),
    [
        ([], "b", []),
        (["ab"], "b", ["ab"]),
        (["ab"], "a", []),
        (["ab"], "c", []),
        (["ab", "bc"], "c", ["bc", "ab"]),
        (["bc", "ab"], "c", ["bc", "ab"]),  # merged by union: the order of lines does not make the chain
        (["ab", "cb"], "b", ["cb"]),  # the later line counts
        (["ab", "ba"], "b", ["ab", "ba"]),  # a circle ends
    ],
)
def test_a_chain_leads_back_to_the_code_that_ran(links, code, expected):
    found = chain([waiver(*link) for link in links], "a-s1/train.card.json", identity(CARD), code)
    assert [one.code_from + one.code_to for one in found] == expected


def test_a_chain_is_of_one_card_as_it_was():
    known = [waiver("a", "b")]
    assert chain(known, "a-s2/train.card.json", identity(CARD), "b") == ()
    assert chain(known, "a-s1/train.card.json", identity(CARD.replace('"seed": 1', '"seed": 2')), "b") == ()


def test_a_card_covers_the_code_that_its_waivers_lead_to(tmp_path):
    path = tmp_path / "a-s1/train.card.json"
    write_text(path, CARD)
    assert not covers(path, "cccc")
    write_lines(tmp_path / "waivers.jsonl", waiver("aaaa", "bbbb"), waiver("bbbb", "cccc"))
    assert covers(path, "bbbb") and covers(path, "cccc") and not covers(path, "dddd")
    write_text(path, CARD.replace('"seed": 1', '"seed": 2'))
    assert not covers(path, "bbbb")
    below = tmp_path / "tiny/pretrain.card.json"
    write_text(below, CARD)
    write_lines(tmp_path / "tiny/waivers.jsonl", waiver("aaaa", "bbbb", card="pretrain.card.json"))
    assert covers(below, "bbbb")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "2: no"),
        ('{"card": "x"}', "2: no waiver: identity: Field required"),
        ("[" * 100_000, "2: no"),
        ("3", "2: no"),
    ],
)
def test_a_broken_line_is_named(tmp_path, line, said):
    path = tmp_path / "waivers.jsonl"
    write_lines(path, waiver("a", "b"))
    assert read_waivers(path) == (waiver("a", "b"),)
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(ArtifactError, match=said):
        read_waivers(path)
    path.write_bytes(b"\xff\n")
    with pytest.raises(ArtifactError, match="not UTF-8"):
        read_waivers(path)
    assert read_waivers(tmp_path / "none.jsonl") == ()


class Coded(Retry):
    SCHEMA = "octavo.coded/1"
    code_hash: str


def test_a_stage_opens_a_card_that_is_waived_to_its_code_and_no_other(tmp_path):
    path = tmp_path / "a-s1/train.card.json"
    card = Coded(code_hash="00" * 8)
    text = canonical_json({"schema": Coded.SCHEMA, **card.model_dump()})
    write_text(path, text)
    with pytest.raises(StageError) as stale:
        open_card(Coded, path, ["stages.contracts.retry"])
    now = str(stale.value).rpartition(" ")[2]
    write_lines(tmp_path / "waivers.jsonl", waiver("00" * 8, "11" * 8, of=text), waiver("11" * 8, now, of=text))
    assert open_card(Coded, path, ["stages.contracts.retry"]) == card
    with pytest.raises(StageError, match="stale"):
        open_card(Coded, path, ["stages.contracts.origin"])


def test_a_folder_in_the_place_of_the_file_is_said(tmp_path):
    (tmp_path / "waivers.jsonl").mkdir()
    with pytest.raises(ArtifactError, match="no waiver: Is a directory"):
        read_waivers(tmp_path / "waivers.jsonl")
