"""Two versions of a file: each difference with its place."""

import json
import time

import pytest

from stages.contracts.artifact import canonical_json
from stages.publish.verification import LIMIT, Comparison

FINDINGS = {
    "card_id": "c",
    "findings": [
        {"id": "a-s1/reward/final", "low": None, "seeds": [], "value": 0.25},
        {"id": "a-s2/reward/final", "low": 0.1, "seeds": [{"run": "a-s2", "value": 0.5}], "value": 0.75},
    ],
}


def parts(path, old, new):
    """(line, column, cell, expected, found) of each difference."""
    differences = Comparison("S488", "what the files give", "again").differences(path, old, new)
    assert all((difference.code, difference.path, difference.fix) == ("S488", path, "again") for difference in differences)
    return [(difference.line, difference.column, difference.cell, difference.expected, difference.found) for difference in differences]


def compared(new, old=FINDINGS):
    return parts("findings.json", canonical_json(old).encode(), canonical_json(new).encode())


def changed(**fields):
    copy = json.loads(json.dumps(FINDINGS))
    copy["findings"][1].update(fields)
    return copy


def test_a_digit_in_json_is_named_by_its_finding():
    assert compared(changed(value=0.76)) == [(None, None, "findings[a-s2/reward/final].value", "0.75", "0.76")]
    assert compared(FINDINGS) == []


def test_nested_entries_are_called_by_what_they_are():
    [part] = compared(changed(seeds=[{"run": "a-s2", "value": 0.51}]))
    assert part[2:] == ("findings[a-s2/reward/final].seeds[a-s2].value", "0.5", "0.51")


def test_keys_that_come_and_go():
    new = changed()
    del new["findings"][1]["low"]
    new["extra"] = True
    assert [part[2:] for part in compared(new)] == [("findings[a-s2/reward/final].low", "0.1", "nothing"), ("extra", "nothing", "true")]


def test_true_is_not_one_and_an_integer_is_no_float():
    assert [part[4] for part in compared({"n": 1}, {"n": True})] == ["1"]
    assert [part[3:] for part in compared({"n": 1}, {"n": 1.0})] == [("1.0", "1")]


@pytest.mark.parametrize("new", [b'{"n": 1}\n', b'{"n": }\n', b""])
def test_json_that_is_written_otherwise_or_broken_is_compared_by_lines(new):
    assert parts("a.json", b'{\n  "n": 1\n}\n', new)[0][0] == 1


def test_two_entries_of_one_name_hide_no_digit():
    old = {"list": [{"run": "a", "value": 1}, {"run": "a", "value": 2}]}
    new = {"list": [{"run": "a", "value": 9}, {"run": "a", "value": 2}]}
    assert [part[3:] for part in compared(new, old)] == [("1", "9")]


def test_a_cell_of_a_table_is_named_by_row_and_column():
    old, new = b"step,value\n1,0.25\n2,0.50\n", b"step,value\n1,0.25\n2,0.58\n"
    assert parts("curves.csv", old, new) == [(None, None, "row 3, column value", "0.50", "0.58")]
    assert parts("curves.csv", old, old + b"3,0.1\n")[0][2:] == ("row 4, column step", "nothing", "3")


def test_a_digit_on_a_page_is_named_by_the_finding_whose_number_it_is():
    line = '<a href="#x" data-finding="b/reward/final">0.11</a> and <a href="#y" data-finding="a/reward/final">{}</a> end'
    old, new = f"one\n{line.format('0.86')}\nthree\n", f"one\n{line.format('0.87')}\nthree\n"
    assert parts("index.md", old.encode(), new.encode()) == [(2, line.index("{}") + 1, "a/reward/final", "0.86", "0.87")]


def test_lines_that_were_added_or_taken_away():
    assert parts("a.md", b"one\ntwo\n", b"one\nmore\ntwo\n") == [(2, 1, "", "no such line", "more")]
    assert parts("a.md", b"one\ntwo\nthree\n", b"one\nthree\n")[0][2:] == ("", "two", "nothing")


def test_bytes_that_are_no_text_and_very_different_files():
    assert parts("a.bin", b"\xff\x00", b"\xfe\x00\x00")[0][3] == "2 bytes"
    many = {"list": list(range(100))}, {"list": list(range(100, 200))}
    assert len(compared(many[1], many[0])) == LIMIT


@pytest.mark.parametrize("path", ["a.html", "a.csv", "a.js", "a.json"])
def test_other_line_ends_are_a_difference(path):
    """A line end more or less decides what a comment of a script covers."""
    old = b'{"a":\n1}\n' if path == "a.json" else b"// a\nb\n"
    for new in (old.replace(b"\n", b"\r\n"), old.replace(b"\n", b"\v", 1), old.replace(b"\n", "\x85".encode(), 1), old[:-1]):
        assert parts(path, old, new), new


def test_files_of_any_lines_are_compared_in_bounded_time():
    start = time.monotonic()
    assert len(parts("a.html", b"<p>\n\n</p>\n" * 1000, b"\n" * 20_000)) == LIMIT
    rows = b"a,b\n" * 60_000
    assert parts("a.csv", rows, b'"' + rows) == [(1, 1, "", "nothing", '"')], "a field that is longer than Python's csv reads"
    assert time.monotonic() - start < 60


def test_long_hashes_are_shortened():
    assert compared({"sha256": "1" * 64}, {"sha256": "0" * 64})[0][3] == f'"{"0" * 16}…"'
