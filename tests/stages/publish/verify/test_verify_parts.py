"""Two versions of a file, part by part."""

import json

from stages.contracts.artifact import canonical_json
from stages.publish.verify.parts import MOST, Part, parts

FINDINGS = {
    "card_id": "c",
    "findings": [
        {"id": "a-s1/reward/final", "low": None, "seeds": [], "value": 0.25},
        {"id": "a-s2/reward/final", "low": 0.1, "seeds": [{"run": "a-s2", "value": 0.5}], "value": 0.75},
    ],
}


def changed(**fields):
    copy = json.loads(json.dumps(FINDINGS))
    copy["findings"][1].update(fields)
    return copy


def compared(new, old=FINDINGS, path="findings.json"):
    return parts(path, canonical_json(old).encode(), canonical_json(new).encode())


def test_equal_files_have_no_parts():
    assert compared(FINDINGS) == []


def test_a_digit_in_json_is_named_by_its_finding_and_its_line():
    text = canonical_json(changed(value=0.76))
    line = next(number for number, line in enumerate(text.splitlines(), start=1) if "0.76" in line)
    assert compared(changed(value=0.76)) == [Part(line, 16, "findings[a-s2/reward/final].value", "0.75", "0.76")]
    assert text.splitlines()[line - 1][15:] == "0.76"


def test_nested_entries_are_called_by_what_they_are():
    new = changed(seeds=[{"run": "a-s2", "value": 0.51}])
    assert [(part.cell, part.expected, part.found) for part in compared(new)] == [
        ("findings[a-s2/reward/final].seeds[a-s2].value", "0.5", "0.51")
    ]


def test_keys_and_entries_that_come_and_go():
    new = changed()
    del new["findings"][1]["low"]
    new["extra"] = True
    assert [(part.cell, part.expected, part.found) for part in compared(new)] == [
        ("extra", "no such key", "true"),
        ("findings[a-s2/reward/final].low", "0.1", "no such key"),
    ]


def test_true_is_not_one_and_an_integer_is_no_float():
    assert [part.found for part in compared({"n": 1}, {"n": True})] == ["1"]
    assert [(part.expected, part.found) for part in compared({"n": 1.0}, {"n": 1})] == [("1", "1.0")]


def test_equal_json_written_otherwise_is_told_by_lines():
    told = parts("a.json", b'{\n  "n": 1\n}\n', b'{"n": 1}\n')
    assert told and told[0].line == 1


def test_what_is_no_json_any_more():
    assert parts("a.json", b"{}\n", b'{"n": }\n')[0].line == 1


def test_a_cell_of_a_table_is_named_by_row_and_column():
    old, new = b"step,value\n1,0.25\n2,0.50\n", b"step,value\n1,0.25\n2,0.58\n"
    assert parts("curves.csv", old, new) == [Part(3, 3, "row 3, column value", "0.50", "0.58")]
    assert parts("curves.csv", old, old + b"3,0.1\n") == [Part(4, 1, "row 4", "no such row", "3,0.1")]


def test_a_digit_on_a_page_is_named_by_the_finding_whose_number_it_is():
    line = '<a href="#x" data-finding="b/reward/final">0.11</a> and <a href="#y" data-finding="a/reward/final">{}</a> end'
    old, new = f"one\n{line.format('0.86')}\nthree\n", f"one\n{line.format('0.87')}\nthree\n"
    assert parts("index.md", old.encode(), new.encode()) == [Part(2, line.index("{}") + 1, "a/reward/final", "0.86", "0.87")]


def test_lines_that_were_added_or_taken_away():
    assert parts("a.md", b"one\ntwo\n", b"one\nmore\ntwo\n") == [Part(2, 1, "", "no such line", "more")]
    assert parts("a.md", b"one\ntwo\nthree\n", b"one\nthree\n")[0][2:] == ("", "two", "nothing")


def test_bytes_that_are_no_text_and_very_different_files():
    assert parts("a.bin", b"\xff\x00", b"\xfe\x00\x00")[0].expected == "2 bytes"
    many = {"list": list(range(100))}, {"list": list(range(100, 200))}
    assert len(compared(many[1], many[0])) == MOST


def test_long_hashes_are_shortened():
    old, new = {"sha256": "0" * 64}, {"sha256": "1" * 64}
    assert compared(new, old)[0].found == '"1111111111111111…"'
