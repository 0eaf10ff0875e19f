"""What a page says of git may change without any file of the run: it is no difference, whatever git says."""

from pathlib import Path

import pytest

from stages.publish.committed import RuleDate, against_data
from stages.publish.verify.parts import parts
from stages.publish.verify.recompute import _only_dates

RULES = [
    RuleDate("2026-11-27T10:00:00Z", "0123456789"),
    RuleDate("2026-11-29T10:00:00Z", "abcdef0123"),
    RuleDate(None, why="not committed yet"),
    RuleDate(None, why="unknown: the clone is shallow"),
    RuleDate(None, why="unknown: not in a git repository"),
    RuleDate(None, why="unknown: git did not answer"),
]


def line(rule, data, value="0.25"):
    words, late = against_data(rule, data)
    return f"""<div{' class="late"' if late else ""}><dd>{words} <code>a&#46;yaml</code> {value}</dd></div>\n"""


@pytest.mark.parametrize("data", ["2026-11-28T10:00:00Z", None])
@pytest.mark.parametrize("rule", RULES)
def test_only_gits_answer_differs(tmp_path: Path, rule, data):
    old, page = line(RULES[0], data), tmp_path / "index.md"
    page.write_text(line(rule, data))
    for part in parts("index.md", old.encode(), page.read_bytes()):
        assert _only_dates(part, old.encode(), page)


def test_a_number_on_the_same_line_is_a_difference(tmp_path: Path):
    data = "2026-11-28T10:00:00Z"
    old, page = line(RULES[0], data), tmp_path / "index.md"
    page.write_text(line(RULES[1], data, "0.26"))
    assert [_only_dates(part, old.encode(), page) for part in parts("index.md", old.encode(), page.read_bytes())] == [False]
    page.write_text("<svg>1</svg>\n")
    assert [_only_dates(part, b"<svg>2</svg>\n", page) for part in parts("index.md", b"<svg>2</svg>\n", page.read_bytes())] == [False]
