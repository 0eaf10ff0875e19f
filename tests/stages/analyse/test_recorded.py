"""What train's recorder writes, analysis reads: the two meet only in files."""

from __future__ import annotations

from pathlib import Path

from stages.analyse.completions import completions_summary, read_completions, read_evaluation
from stages.analyse.tables import read_history
from stages.contracts.history import gate_columns
from stages.contracts.series import Share
from stages.train.recorder import Journal, cell, write_completions, write_evaluation, write_history

STATUS, SCORE, REASON = gate_columns("tests")


def test_a_journal_of_two_attempts(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for attempt, steps in (("zz", (1, 2, 3)), ("aa", (3, 4))):
        for step in steps:
            cells = {"reward": cell(step / 10 + (attempt == "aa")), "grad_norm": cell(float("nan") if step == 2 else 1.0), "kl": cell(None)}
            journal.step(attempt=attempt, step=step, tokens=step, seconds=1.0, cells=cells)
            rows = [
                {"prompt_id": "p", "group": 0, "text": f"<{attempt}>", "reward": reward, "tokens": 2, "truncated": reward is None}
                | {STATUS: "unknown" if reward is None else "pass", SCORE: reward, REASON: ""}
                for reward in (0.5, 0.5, None)
            ]
            journal.batch(attempt=attempt, step=step, rows=rows)
    write_history(tmp_path / "h.parquet", journal.history_rows(), card_id="c", attempt="aa")
    write_completions(tmp_path / "c.parquet", journal.completion_rows(), ["tests"], card_id="c", attempt="aa")
    history = read_history(tmp_path / "h.parquet")
    assert (history.attempt, history.boundaries, history.bad_steps, history.last_step) == ("aa", (3,), {2}, 4)
    assert history.values("reward", 1, 4).tolist() == [0.1, 1.3, 1.4]
    assert [state for _, _, state in history.columns["kl"].cells()] == ["null"] * 4
    frame = read_completions(tmp_path / "c.parquet", ["tests"], texts=True)
    assert frame.rows == 12  # step 3 was made twice and counts once
    found = completions_summary(frame)
    assert found.zero_signal == tuple(Share(step, 1, 1) for step in (1, 2, 3, 4))
    assert found.truncated == tuple(Share(step, 1, 3) for step in (1, 2, 3, 4))
    assert (found.unknown, found.examples) == (4, {0.5: ("<zz>", "<aa>")})


def test_nothing_recorded(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    write_history(tmp_path / "h.parquet", journal.history_rows(), card_id="c", attempt="a")
    write_completions(tmp_path / "c.parquet", journal.completion_rows(), ["tests"], card_id="c", attempt="a")
    write_evaluation(tmp_path / "e.parquet", [], ["tests"], card_id="c", attempt="a")
    assert (read_history(tmp_path / "h.parquet").last_step, read_completions(tmp_path / "c.parquet", ["tests"]).rows) == (0, 0)
    assert read_evaluation(tmp_path / "e.parquet", ["tests"]).scores == {}
