import json

import pytest

from stages.contracts.artifact import ArtifactError, dump
from stages.contracts.attempt import Ended, Outcome, Started, read_attempts


def started(number, at="2026-01-01T00:00:00Z"):
    return Started(
        attempt=f"shaped-s1-a{number}-00ff",
        number=number,
        at=at,
        card_id="c0",
        commit=None,
        host="linux-x86_64-2cpu",
        devices=("cpu",),
        versions={},
        sandbox="bubblewrap",
        resumed_from=None,
    )


def ended(number, outcome="finished", failure=None):
    return Ended(
        attempt=f"shaped-s1-a{number}-00ff", at="2026-01-01T00:01:00Z", outcome=outcome, failure=failure, last_step=60, seconds=60.0
    )


def ledger(path, *entries, tail=""):
    path.write_text("".join(entry.model_dump_json() + "\n" for entry in entries) + tail)
    return path


def test_a_start_without_an_end_is_a_killed_attempt(tmp_path):
    attempts = read_attempts(ledger(tmp_path / "attempts.jsonl", started(1), started(2, "2026-01-01T01:00:00Z"), ended(2)))
    assert [attempt.state for attempt in attempts] == ["killed", "finished"]
    assert attempts[1].ended.last_step == 60


def test_an_error_that_quotes_line_separators_stays_one_line(tmp_path):
    end = ended(1, "failed", "reward").model_copy(update={"error": "the answer was a\u2028b\u0085c\u2029"})
    path = tmp_path / "attempts.jsonl"
    path.write_text(f"{started(1).model_dump_json()}\n{end.model_dump_json()}\n", encoding="utf-8")
    assert read_attempts(path)[0].ended == end


def test_lines_in_the_order_of_a_union_merge_still_pair_up(tmp_path):
    later = "2026-01-02T00:00:00Z"
    attempts = read_attempts(ledger(tmp_path / "attempts.jsonl", ended(2, "failed", "nonfinite"), started(2, later), started(1), ended(1)))
    assert [(attempt.started.number, attempt.state) for attempt in attempts] == [(1, "finished"), (2, "failed")]


def test_a_torn_last_line_is_left_out_and_a_broken_line_is_named(tmp_path):
    path = ledger(tmp_path / "attempts.jsonl", started(1), tail='{"event": "ended", "att')
    assert [attempt.state for attempt in read_attempts(path)] == ["killed"]
    path.write_text(path.read_text() + "\n" + started(2).model_dump_json() + "\n")
    with pytest.raises(ArtifactError, match=r"attempts.jsonl:2: broken ledger line"):
        read_attempts(path)


def test_a_repeated_line_counts_once(tmp_path):
    attempts = read_attempts(ledger(tmp_path / "attempts.jsonl", started(1), started(1), ended(1), ended(1)))
    assert len(attempts) == 1 and json.loads(attempts[0].ended.model_dump_json())["outcome"] == "finished"


@pytest.mark.parametrize("line", ["[" * 100_000 + "]" * 100_000, '{"event": ' + "9" * 5_000 + "}", "{}", "1"])
def test_a_line_that_json_cannot_hold_is_a_broken_line(tmp_path, line):
    path = ledger(tmp_path / "attempts.jsonl", started(1))
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(ArtifactError, match=r"attempts.jsonl:2: broken ledger line"):
        read_attempts(path)


def order(path, *starts):
    """Numbers and days of a ledger's attempts, as read; `starts`: (number, day)."""
    entries = [
        started(number, f"2026-01-{day:02}T00:00:00Z").model_copy(update={"attempt": f"shaped-s1-a{number}-{at:04x}"})
        for at, (number, day) in enumerate(starts)
    ]
    return [(attempt.started.number, int(attempt.started.at[8:10])) for attempt in read_attempts(ledger(path / "attempts.jsonl", *entries))]


def test_a_clock_that_was_set_back_leaves_attempts_in_their_order(tmp_path):
    """The latest attempt says where the next begins: a finite checkpoint, another micro-batch, the start."""
    assert order(tmp_path, (1, 20), (2, 3), (3, 4), (4, 21)) == [(1, 20), (2, 3), (3, 4), (4, 21)]


def test_attempts_of_two_branches_are_in_the_order_of_their_times(tmp_path):
    assert order(tmp_path, (1, 1), (2, 8), (3, 9), (2, 2), (3, 3)) == [(1, 1), (2, 2), (3, 3), (2, 8), (3, 9)]
    assert order(tmp_path, (1, 1), (2, 8), (3, 9), (2, 6), (3, 3)) == [(1, 1), (2, 6), (3, 3), (2, 8), (3, 9)], "set back on one of them"
    assert order(tmp_path, (1, 1), (2, 8), (2, 5), (4, 3)) == [(1, 1), (2, 5), (2, 8), (4, 3)], "set back after the merge"


def test_a_ledger_torn_inside_of_a_letter_keeps_its_whole_lines(tmp_path):
    path = ledger(tmp_path / "attempts.jsonl", started(1))
    path.write_bytes(path.read_bytes() + '{"attempt": "é'.encode()[:-1])
    assert [attempt.started.number for attempt in read_attempts(path)] == [1]


def test_an_error_that_names_a_file_with_half_a_letter_is_recorded():
    outcome = Outcome(card_id="c", attempt="a", finished=False, steps_done=0, target_steps=1, failure="bug", error="no file \udcff")
    assert dump(outcome).encode() and outcome.error == "no file \\udcff"


@pytest.mark.parametrize("at", ["never", "", "2026-01-01", "2026-1-1T0:0:0Z", "2026-02-30T00:00:00Z", "2026-01-01T00:00:00", "\x1b[2J"])
@pytest.mark.parametrize("event", ["started", "ended"])
def test_a_time_that_is_none_is_a_broken_line(tmp_path, event, at):
    """Pages compare times and compute with them."""
    lines = [json.loads(entry.model_dump_json()) for entry in (started(1), ended(1))]
    lines[event == "ended"]["at"] = at
    path = tmp_path / "attempts.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ArtifactError, match=rf"attempts.jsonl:{1 + (event == 'ended')}: broken ledger line") as refused:
        read_attempts(path)
    assert "\x1b" not in str(refused.value) and "\n  fix: git log" in str(refused.value)
