"""Arrays of a history against the same rows as plain Python: two ways to one answer, on histories as odd as logs get."""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from synthetic import CONDITIONS, complete, write_completions, write_history

from stages.analyse.arrays import read_table
from stages.analyse.completions import completions_summary, read_completions, same_text
from stages.analyse.correlated import neighbours
from stages.analyse.duplicates import fingerprint
from stages.analyse.summary import series
from stages.analyse.tables import read_history
from stages.contracts.analysis_card import RunRef
from stages.contracts.history import HISTORY_SCHEMA
from stages.contracts.observed import Observed
from stages.contracts.plugin import DETECTORS, kinds, load
from stages.contracts.rolling import outliers
from stages.contracts.series import Cell
from stages.train import recorder

ROOT = Path(__file__).parents[3]
NAMES = ("reward", "group_range", "zero_signal_share", "truncated", "completion_tokens", "entropy", "loss", "grad_norm", "skipped", "kl")
NAMES += ("reward_std", "step_seconds", "reward_seconds", "unknown_share", "objective.kl", "objective.scores", "objective.rlhf_reward")
NAMES += ("loss.value", "policy.clipfrac", "policy.ratio", "policy.first_ratio", "policy.approxkl", "value.explained_variance", "other")


def odd_rows(rng: np.random.Generator, steps: int) -> list[dict[str, Any]]:
    """Rows of one attempt: a grid or sparse metrics, in or out of order, with NaN, Inf, null, repeats, spikes and constant series."""
    grid, used = rng.random() < 0.4, [name for name in NAMES if rng.random() < 0.8]
    every = {name: 1 if grid else int(rng.choice([1, 1, 2, 3])) for name in used}
    level = {name: float(rng.choice([0.0, 0.5, 1.0, -0.2])) for name in used}
    noise = {name: float(rng.choice([0.0, 0.01, 0.3])) for name in used}
    wrong = {name: 0.0 if grid and rng.random() < 0.5 else float(rng.choice([0, 0, 0.05, 0.4])) for name in used}
    rows = []
    for step in range(1, steps + 1):
        for name in used:
            if step % every[name]:
                continue
            value = level[name] + noise[name] * rng.standard_normal() + 50 * (rng.random() < 0.02)
            value = float(rng.random() < 0.05) if name == "skipped" else value
            state = str(rng.choice(["nonfinite", "null", "nan"])) if rng.random() < wrong[name] else "value"
            row = {"attempt": "a", "step": step, "tokens": None, "seconds": 0.0, "metric": name, "state": state, "value": value}
            row |= {"nan": {"value": math.nan, "state": "value"}, "value": {}}.get(state, {"value": None})
            rows += [row, {**row, "value": 7.0, "state": "value"}] if not grid and rng.random() < 0.01 else [row]
    return rows if grid or rng.random() < 0.7 else [rows[place] for place in rng.permutation(len(rows))]


def plainly(rows: list[dict[str, Any]]) -> dict[str, tuple[Cell, ...]]:
    """Cells by metric: of rows of one step the last counts, and what is no finite number under the state `value` is not finite."""
    found: dict[str, dict[int, Cell]] = {}
    for row in rows:
        state = row["state"] if row["state"] != "value" or math.isfinite(row["value"]) else "nonfinite"
        found.setdefault(row["metric"], {})[row["step"]] = (row["step"], row["value"] if state == "value" else None, state)
    return {name: tuple(cells[step] for step in sorted(cells)) for name, cells in sorted(found.items())}


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("write", [write_history, recorder.write_history], ids=["as they came", "recorded"])
def test_a_history_as_arrays_is_the_history_as_rows(tmp_path: Path, write: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps = int(rng.choice([3, 25, 60]))
    rows = odd_rows(rng, steps)
    write(tmp_path / "h.parquet", rows, card_id="c", attempt="a")
    history, cells = read_history(tmp_path / "h.parquet"), plainly(rows)
    assert {name: column.cells() for name, column in history.columns.items()} == cells
    assert history.columns.repeated == len(rows) - sum(map(len, cells.values()))
    assert history.steps.tolist() == sorted({row["step"] for row in rows})
    ref = RunRef(name="r", condition=CONDITIONS[0].name, seed=1, target_steps=steps)
    empty = read_completions(tmp_path / "none.parquet")
    fast = series(ref, CONDITIONS[0], history, empty)
    slow = Observed(
        run="r",
        condition=CONDITIONS[0].name,
        role=CONDITIONS[0].role,
        target_steps=steps,
        stride=history.stride,
        metrics=cells,
        repeated=history.columns.repeated,
    )
    assert (fast.bad_steps, fast.gradient, fast.valid_until) == (slow.bad_steps, slow.gradient, slow.valid_until)
    for name in (*NAMES, "absent"):
        assert fast.values(name) == slow.values(name)
        assert (fast.logs(name), fast.numbers(name), fast.varies(name)) == (slow.logs(name), slow.numbers(name), slow.varies(name))
        assert fast.ends(name) == slow.ends(name)
    for kind in kinds(DETECTORS):
        plugin = load(DETECTORS, kind)
        assert plugin.detect(plugin.Settings(), fast) == plugin.detect(plugin.Settings(), slow), kind


def slow_outliers(values: list[float], window: int, k: float) -> list[tuple[int, float]] | None:
    def mad(of: list[float]) -> float:
        return statistics.median(abs(value - statistics.median(of)) for value in of)

    if mad(values) == 0:
        return None
    middles = [statistics.median(values[at - window : at]) for at in range(window, len(values))]
    distances = [abs(value - middle) for value, middle in zip(values[window:], middles, strict=True)]
    usual = statistics.median(distances)
    around = {at: values[:at] + values[at + 1 : window + 1] for at in range(window)} | {
        at: values[at - window : at] for at in range(window, len(values))
    }
    far = {at: abs(values[at] - statistics.median(those)) > k * max(usual, mad(those)) for at, those in around.items()}
    pairs = [at for at in range(1, window - 1) if not far[at] and not far[at + 1]]
    begins = 0 if not far[0] else pairs[0] + 2 if pairs else window  # from there on a far value is an outlier
    return [(at, statistics.median(around[at])) for at in around if far[at] and at >= begins]


@pytest.mark.parametrize("window", [5, 20])
def test_outliers_by_the_slow_definition(window: int) -> None:
    rng = np.random.default_rng(window)
    for _ in range(10):
        values = np.where(rng.random(150) < 0.03, 30.0, 1.0) * rng.standard_normal(150).round(int(rng.integers(1, 4)))
        assert outliers(values, window, 6.0) == slow_outliers(values.tolist(), window, 6.0)
    assert outliers(np.where(np.arange(99) % 3 == 0, 1.0, 0.0), window, 6.0) is None


def slow_neighbours(values: list[float]) -> float:
    """A line out of each stretch of about sixty rows, then the correlation within stretches, corrected, and one standard error more."""
    n = len(values)
    many = min(10, max(1, n // 60))
    shared = whole = 0.0
    for part in range(many):
        stretch = values[n * part // many : n * (part + 1) // many]
        slope, start = statistics.linear_regression(range(len(stretch)), stretch)
        rest = [value - start - slope * at for at, value in enumerate(stretch)]
        shared += math.fsum(a * b for a, b in pairwise(rest))
        whole += math.fsum(one * one for one in rest)
    found = min(0.999, max(0.0, (shared / whole + 2 * many / n) / (1 - 4 * many / n)))
    return round(min(0.999, found + math.sqrt((1 - found**2) / n)), 3)


@pytest.mark.parametrize("n", [12, 59, 119, 120, 125, 700, 1303])
def test_the_correlation_of_neighbours_by_the_slow_definition(n: int) -> None:
    """Slopes that differ between stretches leave large rests at their ends, which are no neighbours."""
    rng = np.random.default_rng(n)
    for strength in (0.0, 0.6, 0.95):
        values = rng.standard_normal(n)
        for at in range(1, n):
            values[at] += strength * values[at - 1]
        values += 0.002 * (np.arange(n) % 60 - 30.0) ** 2
        assert neighbours(values) == pytest.approx(slow_neighbours(values.tolist()), abs=0.0011)


@pytest.mark.parametrize("seed", range(10))
def test_completions_by_the_slow_definition(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [
        {"attempt": "a", "step": int(step), "prompt_id": "p", "group": int(rng.integers(0, 3)), "tokens": 3}
        | {"text": str(rng.choice(["x", "y", "z", "zz"])), "truncated": bool(rng.random() < 0.3)}
        | {"reward": None if rng.random() < 0.2 else float(rng.choice([0.0, 0.1 + 0.2, 0.3, 1.0]))}
        for step in rng.integers(1, 9, 80)
    ]
    write_completions(tmp_path / "c.parquet", rows, [])
    read = read_completions(tmp_path / "c.parquet", texts=True)
    found = completions_summary(read)
    steps = sorted({row["step"] for row in rows})
    at = {step: [row for row in rows if row["step"] == step] for step in steps}
    assert found.truncated == tuple((step, sum(row["truncated"] for row in at[step]), len(at[step])) for step in steps)
    counted = Counter((row["step"], round(row["reward"], 9)) for row in rows if row["reward"] is not None)
    assert found.rewards == tuple((step, reward, counted[step, reward]) for step, reward in sorted(counted))
    silent = []
    for step in steps:
        groups = [[row["reward"] for row in at[step] if row["group"] == group] for group in range(3)]
        several = [group for group in groups if len(group) > 1]
        same = sum(len({reward for reward in group if reward is not None}) < 2 for group in several)
        silent += [(step, same, len(several))] if several else []
    assert found.zero_signal == tuple(silent)
    texts = {step: Counter(row["text"] for row in at[step]).most_common(1)[0][1] for step in steps}
    mixed = [step for step in steps if len({row["group"] for row in at[step]}) > 1]
    assert same_text(read) == tuple((step, texts[step], len(at[step])) for step in mixed)
    for reward, examples in found.examples.items():
        held = [row["text"] for row in rows if row["reward"] is not None and round(row["reward"], 9) == reward]
        assert examples == tuple(list(dict.fromkeys(held[::-1]))[:3][::-1])


def _file(path: Path, states: list[str | None], group: int) -> Path:
    table = pa.table({"state": pa.array(states, pa.string()), "value": pa.array([1.0, None, 3.0, 4.0][: len(states)])})
    pq.write_table(table.replace_schema_metadata({"octavo.schema": HISTORY_SCHEMA}), path, row_group_size=group)
    return path


@pytest.mark.parametrize("group", [1, 3, 10])
def test_a_column_of_one_word_is_known_from_the_statistics_of_the_file(tmp_path: Path, group: int) -> None:
    def read(states: list[str | None]) -> Any:
        table, _ = read_table(_file(tmp_path / "t.parquet", states, group), HISTORY_SCHEMA, ["state"], lambda *_: ["state", "value"])
        assert table is not None
        return table

    same = read(["value"] * 4)
    assert (same.alone, dict(same.words)) == ({"state": "value"}, {})
    assert same.text("state").count("value", "null") == (4, 0)
    assert np.array_equal(same.numbers["value"], [1.0, math.nan, 3.0, 4.0], equal_nan=True)
    for states in (["value", "value", None, "value"], ["value", "value", "value", "null"]):
        mixed = read(states)
        assert mixed.alone == {}
        words = mixed.words["state"]
        assert [words.names[code] if code >= 0 else None for code in words.codes.tolist()] == states


def test_equal_series_have_one_fingerprint_whatever_else_was_logged(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)

    def rows(extra: bool, last: float) -> list[dict[str, Any]]:
        cells = [(step, name, step / 10 if step < 9 else last) for step in range(1, 10) for name in ("reward", "kl")]
        cells += [(step, "mine", float(rng.random())) for step in range(1, 10, 2)] if extra else []
        shared = {"attempt": "a", "tokens": None, "seconds": 0.0, "state": "value"}
        return [{**shared, "step": step, "metric": name, "value": value} for step, name, value in cells]

    prints = []
    for name, extra, last in (("a", False, 0.9), ("b", True, 0.9), ("c", False, 0.8)):
        write_history(tmp_path / f"{name}.parquet", rows(extra, last))
        prints.append(fingerprint(read_history(tmp_path / f"{name}.parquet").columns))
    assert prints[0] == prints[1] != prints[2]


def test_values_of_a_history_are_stored_without_a_dictionary(tmp_path: Path) -> None:
    row = {"attempt": "a", "step": 1, "tokens": 1, "seconds": 0.0, "metric": "reward", "value": 0.5, "state": "value"}
    recorder.write_history(tmp_path / "h.parquet", [row], card_id="c", attempt="a")
    group = pq.ParquetFile(tmp_path / "h.parquet").metadata.row_group(0)
    stored = {group.column(place).path_in_schema: group.column(place) for place in range(group.num_columns)}
    assert (stored["value"].has_dictionary_page, stored["value"].compression) == (False, "LZ4")
    assert stored["metric"].has_dictionary_page
    assert read_history(tmp_path / "h.parquet").values("reward", 1, 1).tolist() == [0.5]


def test_no_stage_of_analysis_imports_pandas(tmp_path: Path) -> None:
    folder = complete(tmp_path)
    code = f"""
import sys
from pathlib import Path
from stages.analyse.screen import screen
from stages.analyse.conclude import conclude
from stages.analyse.draw import draw
for stage in (screen, conclude, draw):
    stage(Path({str(folder.root)!r}))
assert "numpy" in sys.modules and not {{"pandas", "pyarrow.compute", "torch"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": ""}, check=True, capture_output=True)
