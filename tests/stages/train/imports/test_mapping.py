"""Logs as history: states, resumes, contamination, merged names, epochs, and units."""

import json
import random
from itertools import pairwise
from pathlib import Path

import pytest

from stages.contracts.import_card import ColumnCard, Gap, ReadCard
from stages.train.imports.log import Unreadable, from_rows
from stages.train.imports.mapping import map_log
from stages.train.imports.readers import read_jsonl

FIXTURES = Path(__file__).parents[5] / "shared" / "cases" / "fixtures"
shared = pytest.mark.skipif(not FIXTURES.exists(), reason="the shared cases are not here")


def read_card(**columns: str) -> ReadCard:
    return ReadCard(format="jsonl", columns=tuple(ColumnCard(metric=m, column=c, unit="as it is") for m, c in columns.items()))


def rows(mapped, metric="reward"):
    return [(row["step"], row["value"], row["state"]) for row in mapped.rows if row["metric"] == metric]


def test_states_stay_apart_and_units_are_converted():
    log = from_rows([{"step": 1, "r": 50}, {"step": 2, "r": None}, {"step": 3}, {"step": 4, "r": "NaN"}], "step")
    read = ReadCard(format="jsonl", columns=(ColumnCard(metric="truncated", column="r", factor=0.01, unit="%"),))
    mapped = map_log(log, read, 4, "a")
    assert rows(mapped, "truncated") == [(1, 0.5, "value"), (2, None, "null"), (4, None, "nonfinite")]


def test_case_10_stride_and_gaps():
    log = from_rows(({"step": step, "r": 0.0} for step in range(1, 301, 2) if step not in (5, 7)), "step")
    mapped = map_log(log, read_card(reward="r"), 300, "a")
    assert mapped.record["stride"] == 2 and mapped.record["gaps"] == (Gap(after=3, before=9),) and mapped.last == 299


def test_case_12_step_301_is_contamination():
    mapped = map_log(from_rows(({"step": step, "r": 1.0} for step in range(1, 302)), "step"), read_card(reward="r"), 300, "a")
    assert mapped.record["notes"] == ("contaminated: the log reaches step 301 of 300, so a finished run was trained on",)


def test_case_18_resume_makes_a_part_of_its_own():
    log = from_rows([{"step": step, "r": 0.0} for step in range(1, 213)] + [{"step": step, "r": 1.0} for step in range(201, 221)], "step")
    mapped = map_log(log, read_card(reward="r"), 220, "a")
    assert {row["attempt"] for row in mapped.rows} == {"a-part1", "a-part2"}
    assert "resumed: logged to step 212, then again from step 201; the later rows count" in mapped.record["notes"]


@shared
def test_case_7_merged_names_are_flagged_and_honest_ones_are_not():
    merged = map_log(read_jsonl(FIXTURES / "two_gates_same_name.jsonl"), read_card(reward="reward"), 6, "a")
    assert any(note.startswith("merged: ") and "gate" in note for note in merged.record["notes"])
    for name in ("healthy", "nan_persistent_from_3", "all_none_reward", "zero_reward", "num_iterations2_sparse_rows"):
        mapped = map_log(read_jsonl(FIXTURES / f"{name}.jsonl"), read_card(reward="reward"), 6, "a")
        assert not any("merged" in note for note in mapped.record["notes"]), name


@shared
def test_case_1_and_4_nan_and_sparse_rows():
    mapped = map_log(read_jsonl(FIXTURES / "nan_persistent_from_3.jsonl"), read_card(grad_norm="grad_norm", kl="kl"), 6, "a")
    assert [state for _, _, state in rows(mapped, "grad_norm")][2:] == ["nonfinite"] * (len(rows(mapped, "grad_norm")) - 2)
    assert {state for step, _, state in rows(mapped, "kl") if step >= 3} <= {"null", "nonfinite"}
    sparse = map_log(read_jsonl(FIXTURES / "num_iterations2_sparse_rows.jsonl"), read_card(reward="reward"), 6, "a")
    assert [step for step, _, _ in rows(sparse)] == [1, 3, 5]


def epochs(printed, steps_per_epoch, target):
    read = ReadCard(
        format="jsonl", epoch="e", steps_per_epoch=steps_per_epoch, columns=(ColumnCard(metric="reward", column="r", unit="reward"),)
    )
    return map_log(from_rows([{"e": epoch, "r": float(row)} for row, epoch in enumerate(printed)], "e"), read, target, "a")


def test_case_35_an_epoch_is_no_step():
    mapped = epochs([0.28, 0.28, 0.29], 100, 100)
    assert rows(mapped) == [(28, 0.0, "value"), (28, 1.0, "value"), (29, 2.0, "value")]
    assert any("index is the epoch" in note for note in mapped.record["notes"])
    assert any("3 rows print 2 epochs: those of one are spread evenly up to the next" in note for note in mapped.record["notes"])


@pytest.mark.parametrize(
    ("printed", "steps"),
    [
        ([0.28, 0.28, 0.29, 0.29, 0.29, 0.29], [280, 285, 290, 292, 295, 297]),
        ([0.1, 0.2, 0.3], [100, 200, 300]),
        ([0.99, 0.99, 1.0], [990, 995, 1000]),  # nothing lies beyond the target
        ([0.5, 0.5], [500, 500]),  # nothing says how far apart printed epochs are
        ([0.28, 0.28, 0.29, 0.28, 0.28], [280, 285, 290, 280, 285]),  # resumed
        ([0.1, 0.1, 0.2, 0.2, 0.3, 0.3], [100, 150, 200, 250, 300, 350]),  # two rows an epoch are no two runs
    ],
)
def test_rows_of_one_printed_epoch_keep_their_order_and_a_step_each(printed, steps):
    mapped = epochs(printed, 1000, 1000)
    assert [step for _, step in sorted((value, step) for step, value, _ in rows(mapped))] == steps
    assert mapped.record["last_step"] <= 1000 and not any("contaminated" in note for note in mapped.record["notes"])
    spread = [note for note in mapped.record["notes"] if "known to within 10 steps" in note or "known to within 100 steps" in note]
    assert len(spread) == (len(printed) > 3 or printed[0] == 0.99)


def test_what_the_rows_hold():
    (held,) = epochs([0.1, 0.2, 0.3, 0.4], 10, 10).record["held"]
    assert (held.metric, held.rows, held.first, held.last, held.lowest, held.highest, held.mean) == ("reward", 4, 0.0, 3.0, 0.0, 3.0, 1.5)


def test_steps_from_zero():
    log = from_rows([{"step": 0, "r": 1.0}, {"step": 1, "r": 2.0}], "step")
    assert any("step 0" in note for note in map_log(log, read_card(reward="r"), 2, "a").record["notes"])
    shifted = map_log(log, read_card(reward="r").model_copy(update={"counts_from": 0}), 2, "a")
    assert [step for step, _, _ in rows(shifted)] == [1, 2] and not shifted.record["notes"]


def test_what_cannot_be_mapped_says_so():
    log = from_rows([{"step": 1, "rewards": 1.0}], "step")
    with pytest.raises(Unreadable, match="no column `reward` for the metric `reward`; did you mean `rewards`"):
        map_log(log, read_card(reward="reward"), 1, "a")
    optional = ReadCard(format="jsonl", columns=(ColumnCard(metric="kl", column="kl", unit="x", optional=True),))
    assert map_log(log, optional, 1, "a").rows == []


def test_an_uneven_log_looks_sampled():
    steps = [step for step in range(1, 1000) if json.dumps(step)[-1] in "147" or step % 13 == 0]
    mapped = map_log(from_rows(({"step": step, "r": 1.0} for step in steps), "step"), read_card(reward="r"), 1000, "a")
    assert any(note.startswith("uneven: ") for note in mapped.record["notes"])


@pytest.mark.parametrize("prefix", ["", "train/", "a/b/"])
def test_case_7_a_sum_of_any_parts_is_honest_and_of_one_name_for_several_it_is_flagged(prefix):
    """One to four functions of any scale and sign; sparse rows, rows with NaN, and totals rounded to single precision."""
    rng = random.Random(7)
    for trial in range(20):
        names = [f"f{number}" for number in range(rng.randint(1, 4))]
        scale, merged = 10 ** rng.uniform(-2, 3), trial % 2 == 1
        rows = []
        for step in range(1, 41):
            parts = {name: scale * rng.uniform(-1, 2) for name in names}
            twin = scale * rng.uniform(0.5, 2) if merged else 0.0  # a second function under the first one's name
            row = {"step": step, f"{prefix}reward": (sum(parts.values()) + twin) * (1 + rng.uniform(-1, 1) * 2**-24)}
            row |= {f"{prefix}rewards/{name}/mean": value for name, value in parts.items()}
            if step % 5 < 4:
                row[f"{prefix}rewards/f0/mean"] = None if step % 5 else float("inf")
            rows.append({"step": step} if step % 7 == 0 else row)
        mapped = map_log(from_rows(rows, "step"), read_card(reward=f"{prefix}reward"), 40, "a")
        flagged = [note for note in mapped.record["notes"] if note.startswith("merged: ")]
        assert len(flagged) == merged, (names, scale, mapped.record["notes"])
        if merged:
            assert f"not the sum of its logged parts {', '.join(names)} (" in flagged[0]


@pytest.mark.parametrize("total", [501, 520, 600, 777, 1000, 1500, 5000, 20_000])
def test_case_32_an_export_of_500_rows_never_passes_for_a_whole_log(total):
    """As `history()` samples: one row picked from each of 500 stretches of the run."""
    rng = random.Random(total)
    edges = [1 + total * number // 500 for number in range(501)]
    steps = [rng.randrange(first, last) for first, last in pairwise(edges)]
    mapped = map_log(from_rows(({"step": step, "r": 1.0} for step in steps), "step"), read_card(reward="r"), total, "a")
    missing = sum(after - before > 1 for before, after in pairwise(steps))
    assert missing == 0 or mapped.record["stride"] > 1 or mapped.record["gap_count"] == missing
    is_reported = mapped.record["stride"] > 1 or any(note.startswith("uneven: ") for note in mapped.record["notes"])
    assert is_reported or total < 600, "of 600 rows a sixth is missing, of fewer the gaps are counted"


def of_steps(*steps: int):
    """A log of the steps, each reward the place of its row."""
    return map_log(
        from_rows(({"step": step, "r": float(row)} for row, step in enumerate(steps, 1)), "step"), read_card(reward="r"), 10, "a"
    )


@pytest.mark.parametrize("steps", [(1, 2, 4, 3, 5), (1, 10, 2, 3, 11), (7, 6, 5, 4, 3, 2, 1), (10, 20, 30, 25, 35)])
def test_steps_in_no_order_are_refused_and_never_taken_for_a_resume(steps):
    """1, 10, 2 is the order of texts; the last is a resume whose rows nobody can put into place."""
    with pytest.raises(
        Unreadable, match=r"no order: row \d of the log goes back from step \d+ to \d+, and the steps between are not logged"
    ):
        of_steps(*steps)


@pytest.mark.parametrize(
    ("steps", "parts"),
    [
        ((1, 2, 3, 4, 3, 4, 5), [1, 1, 1, 1, 2, 2, 2]),
        ((10, 20, 30, 25, 30, 35), [1, 1, 1, 2, 2, 2]),  # logged more often after the resume
        ((1, 2, 3, 2), [1, 1, 1, 2]),
        ((10, 20, 15), [1, 1, 2]),  # it ended before it came to a logged step
        ((1, 2, 3, 2, 3, 2, 3, 4), [1, 1, 1, 2, 2, 3, 3, 3]),
    ],
)
def test_a_resume_logs_steps_again(steps, parts):
    mapped = of_steps(*steps)
    assert [(row["attempt"], row["step"], row["value"]) for row in mapped.rows] == [
        (f"a-part{part}", step, float(row)) for row, (step, part) in enumerate(zip(steps, parts, strict=True), 1)
    ]


def test_rows_of_another_metric_may_come_late():
    """An evaluation that runs beside the training is logged when it is done, at the step that it looked at."""
    rows_ = [{"step": 1, "r": 1.0}, {"step": 2, "r": 2.0}, {"step": 1, "e": 0.5}, {"step": 3, "r": 3.0}, {"step": 2, "e": 0.75}]
    mapped = map_log(from_rows(rows_, "step"), read_card(reward="r", kl="e"), 3, "a")
    assert rows(mapped) == [(1, 1.0, "value"), (2, 2.0, "value"), (3, 3.0, "value")] and rows(mapped, "kl") == [
        (1, 0.5, "value"), (2, 0.75, "value"),
    ]  # fmt: skip
    assert {row["attempt"] for row in mapped.rows} == {"a"} and not any("resumed" in note for note in mapped.record["notes"])


def test_several_runs_in_one_log_are_refused_and_equal_rows_of_processes_are_not():
    def log(other):
        lines = [{"step": step, "r": float(step) + offset} for step in range(1, 6) for offset in (0.0, other)]
        return map_log(from_rows(lines, "step"), read_card(reward="r"), 5, "a")

    with pytest.raises(
        Unreadable, match=r"`r` has several values at 5 of 5 steps \(1.0, 1.5 at step 1\), so the log holds several runs or"
    ):
        log(0.5)
    mapped = log(0.0)
    assert [value for _, value, _ in rows(mapped)] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert mapped.record["notes"] == ("logged again at a step that it held already, so many times: `r` 5; the later value counts",)


def test_a_share_in_per_cent_is_refused_and_a_few_impossible_values_are_reported():
    def share(*cells, factor=1.0):
        read = ReadCard(format="jsonl", columns=(ColumnCard(metric="truncated", column="r", factor=factor, unit="x"),))
        return map_log(from_rows(({"step": step, "r": cell} for step, cell in enumerate(cells, 1)), "step"), read, 3, "a")

    with pytest.raises(Unreadable, match=r"share, and 2 of 3 .* \(50 at step 1\); is it in per cent\? truncated: {column: r, unit: '%'}"):
        share(50, 0, 95)
    assert share(50, 0, 95, factor=0.01).record["notes"] == () and share(0, 1, None).record["notes"] == ()
    assert share(0.5, 1.5, 0.25).record["notes"] == ("`truncated` is a share, and 1 of 3 values of `r` are beyond 0 to 1 (1.5 at step 2)",)
    with pytest.raises(Unreadable, match="is its `unit` really so"):
        share(500, 950, 0, factor=0.01)


def test_a_trainer_that_was_told_another_number_of_steps_is_reported():
    log = from_rows([{"step": 1, "r": 1.0}], "step")
    log.settings["max_steps"] = 500
    assert map_log(log, read_card(reward="r"), 300, "a").record["notes"] == (
        "the trainer was told to make 500 steps, and the spec says 300",
    )


def test_an_epoch_below_zero_begins_no_second_part():
    mapped = epochs([-1, 0.2, 0.3], 10, 10)
    assert {row["attempt"] for row in mapped.rows} == {"a"} and mapped.last == 3
