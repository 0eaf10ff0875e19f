"""What a page says of git may change without any file of the run: it is no difference, whatever git says."""

from pathlib import Path

import pytest
from example_experiment import build

from stages.contracts.layout import ExperimentFolder
from stages.publish.committed import RuleDate, against_data
from stages.publish.verify.parts import parts
from stages.publish.verify.recompute import Recomputed, _all_outputs, _only_dates, differences

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


def test_what_is_left_of_a_run_that_is_no_longer_declared_is_no_difference(project: Path):
    """DVC leaves the outputs of runs that were taken out; nothing reads them, and no repair would remove them."""
    experiment = ExperimentFolder(build(project))
    dropped = experiment.root / "shaped-s8/health.json"
    dropped.parent.mkdir()
    dropped.write_text("{}")
    made = Recomputed({path.as_posix(): path.read_bytes() for path in _all_outputs(experiment) if path != dropped})
    assert differences(experiment, made) == ([], [f"{dropped} is left of a run that the spec no longer has; nothing reads it"])
    declared = experiment.root / "shaped-s1/health.json"
    del made.files[declared.as_posix()]
    assert [one.path for one in differences(experiment, made)[0]] == [declared.as_posix()]
