"""Shares of completions that are equal in all seeds: what they are counted from, and when nothing is known to count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from synthetic import Run, complete, write_cards, write_evaluation

from stages.analyse.arrays import Table, Words
from stages.analyse.conclude import conclude
from stages.analyse.counted import Count, counted, over_seeds
from stages.analyse.screen import screen
from stages.analyse.statistics import mean, of_completions
from stages.contracts.analysis_card import ClaimCard, Contrast
from stages.contracts.artifact import read
from stages.contracts.finding import Finding, Findings, Verdict
from stages.contracts.layout import ExperimentFolder


def _table(rows: list[tuple[int, int, float | None, bool, str]]) -> Table:
    """step, group, reward, truncated, status of the gate `tests`."""
    steps, groups, rewards, cut, said = zip(*rows, strict=True)
    names = sorted(set(said))
    numbers = {
        "step": np.array(steps),
        "group": np.array(groups),
        "reward": np.array([np.nan if reward is None else reward for reward in rewards]),
        "truncated": np.array(cut),
    }
    return Table(len(rows), numbers, {"gate.tests.status": Words(np.array([names.index(word) for word in said], np.int32), names)}, {})


SHARES = ("truncated", "unknown_share", "zero_signal_share", *(f"gate.tests.{m}_share" for m in ("pass", "reach", "unknown")))


def test_what_each_share_counts() -> None:
    made = _table(
        [
            (1, 0, 1.0, False, "pass"),
            (1, 0, 0.0, True, "fail"),
            (1, 1, 1.0, False, "pass"),
            (1, 1, 1.0, False, "pass"),
            (2, 0, None, True, "unknown"),
            (2, 0, 0.5, False, "not_reached"),
            (2, 1, 0.5, False, "not_reached"),
        ]
    )
    found = counted(made, ("reward", *SHARES, "gate.tests.score", "penalty.long.share", "gate.pass_share.other", "gates.tests.pass_share"))
    assert list(found) == list(SHARES)  # the others are no shares of completions
    assert {name: (c.k, c.n, c.worth, c.what) for name, c in found.items() if c is not None} == {
        "truncated": (2, 7, 2, "completions"),
        "unknown_share": (1, 7, 2, "completions"),
        "zero_signal_share": (2, 3, 2, "groups"),  # a group of one completion compares nothing
        "gate.tests.pass_share": (3, 4, 1, "completions"),  # all at step 1
        "gate.tests.reach_share": (5, 7, 2, "completions"),
        "gate.tests.unknown_share": (1, 5, 2, "completions"),
    }
    none = Table.empty(("step", "group", "reward", "truncated"), ("gate.tests.status",))
    assert set(counted(none, SHARES).values()) == {None}
    assert counted(made, ("gate.format.pass_share",)) == {"gate.format.pass_share": None}  # the gate of another condition


def test_equally_weighted_seeds() -> None:
    """Steps of two seeds, 6 and 3: the mean's variance is p (1 - p) (1/6 + 1/3) / 4, that of 8. The same prompts count once: as 4."""
    pair = [Count(0.5, 12, 24, 6), Count(0.5, 3, 6, 3)]
    assert over_seeds(pair, once=False) == Count(0.5, 15, 30, pytest.approx(8))
    assert over_seeds(pair, once=True).worth == pytest.approx(4)


def _concluded(folder: ExperimentFolder) -> tuple[dict[str, Finding], list[Verdict]]:
    screen(folder.root)
    conclude(folder.root)
    written = read(Findings, folder.findings)
    return {finding.id: finding for finding in written.findings}, list(written.verdicts)


def _claim(id_: str, metric: str, margin: float, direction: str = "below", **fields: Any) -> ClaimCard:
    where = {} if "contrast" in fields else {"condition": "shaped"}
    rule = {"metric": metric, "statistic": "final", "margin": margin, "direction": direction, "seeds": 3}
    return ClaimCard(**{"id": id_, **rule, **where, **fields})


@pytest.fixture
def long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ExperimentFolder, list[Run]]:
    """Three seeds a condition of 300 steps with 8 completions, of which none is cut: 720 in the last windows, 90 steps."""
    monkeypatch.chdir(tmp_path)
    made = [Run(name, seed, target=300, steps=300, passed=20) for name in ("shaped", "zero") for seed in (1, 2, 3)]
    return complete(tmp_path, made=made), made


def test_none_of_all_completions_decides_a_claim(long: tuple[ExperimentFolder, list[Run]]) -> None:
    folder, made = long
    pair = Contrast(condition="shaped", against="zero")
    claims = (
        _claim("few-cut", "truncated", 0.05),
        _claim("hardly-any-cut", "truncated", 0.01),
        _claim("many-cut", "truncated", 0.05, "above"),
        _claim("as-before", "truncated", 0.05, statistic="change"),
        _claim("as-without", "truncated", 0.05, contrast=pair),
        _claim("moved-as-without", "truncated", 0.1, contrast=pair, statistic="change"),
    )
    write_cards(folder, made, claims=claims)
    found, verdicts = _concluded(folder)
    z = stats.norm.ppf(0.975)
    high = z**2 / (90 + z**2)  # Wilson of none of 90: 0.0409
    final = found["shaped/truncated/final"]
    assert (final.value, final.low, final.high, final.n, final.level) == (0.0, 0.0, pytest.approx(high), 3, 0.95)
    assert final.method == "seeds are equal; Wilson interval from 0 of 720 completions, counted as 90 independent ones"
    names = [Path(source.path).name for source in final.sources]
    assert names == ["history.parquet"] * 3 + ["completions.parquet"] * 3
    change, apart = found["shaped/truncated/change"], found["shaped-vs-zero/truncated/final"]
    assert (change.low, change.high) == (apart.low, apart.high) == (pytest.approx(-high), pytest.approx(high))
    both = found["shaped-vs-zero/truncated/change"]  # four shares
    assert both.high == pytest.approx(high * 2**0.5) and both.detectable is None
    assert [verdict.verdict for verdict in verdicts] == ["supported", "inconclusive", "refuted", "supported", "supported", "supported"]
    assert verdicts[0].why == (
        "truncated (final) of shaped is 0 (95% interval 0 to 0.0409, 3 seeds): all of the interval is below 0.05. "
        "The seeds are equal: the interval is that of their completions."
    )
    assert (verdicts[1].detectable, verdicts[1].seeds_needed) == (None, None)
    # no group of a constant reward has a signal
    silent = found["zero/zero_signal_share/final"]
    assert (silent.value, silent.low, silent.high) == (1.0, pytest.approx(1 - high), 1.0) and "180 of 180 groups" in silent.method


def test_where_nothing_is_known_to_count_equal_seeds_decide_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run without completions (as an imported one), and histories that are not made of the completions beside them."""
    monkeypatch.chdir(tmp_path)
    made = [Run(name, seed, passed=20) for name in ("shaped", "zero") for seed in (1, 2, 3)]
    for run in made[3:]:
        run.cells = {"zero_signal_share": dict.fromkeys(range(1, 21), 0.25)}  # the table says 1
    folder = complete(tmp_path, made=made)
    folder.run("shaped-s2").completions.unlink()
    claims = (_claim("few-cut", "truncated", 0.05), _claim("some-signal", "zero_signal_share", 0.5, condition="zero"))
    write_cards(folder, made, claims=claims)
    found, verdicts = _concluded(folder)
    for id_, value in (("shaped/truncated/final", 0.0), ("zero/zero_signal_share/final", 0.25)):
        final = found[id_]
        assert (final.value, final.low, final.equal_seeds) == (value, None, True)
        assert final.method == "no spread between seeds: the interval would have no width"
    assert [verdict.verdict for verdict in verdicts] == ["inconclusive", "inconclusive"]
    assert found["zero/truncated/final"].low == 0.0  # all of its runs have theirs


def test_an_equal_change_on_the_evaluation_counts_both_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """18 of 20 in every seed, 10 of 20 untrained: Newcombe of both, and of a contrast of changes of the final shares alone."""
    monkeypatch.chdir(tmp_path)
    made = [Run(name, seed, passed=passed) for name, passed in (("shaped", 18), ("zero", 10)) for seed in (1, 2, 3)]
    folder = complete(tmp_path, made=made)
    metric, pair = "evaluation.tests.pass_share", Contrast(condition="shaped", against="zero")
    claims = (
        _claim("better", metric, 0.1, "above", statistic="change"),
        _claim("apart", metric, 0.1, "above", statistic="change", contrast=pair),
    )
    write_cards(folder, made, claims=claims)
    found, verdicts = _concluded(folder)
    ends = [stats.binomtest(k, 20).proportion_ci(0.95, "wilson") for k in (18, 10)]
    low = 0.4 - ((0.9 - ends[0].low) ** 2 + (ends[1].high - 0.5) ** 2) ** 0.5
    high = 0.4 + ((ends[0].high - 0.9) ** 2 + (0.5 - ends[1].low) ** 2) ** 0.5
    for id_ in (f"shaped/{metric}/change", f"shaped-vs-zero/{metric}/change", f"shaped-vs-zero/{metric}/final"):
        assert (found[id_].low, found[id_].high) == (pytest.approx(low), pytest.approx(high)), id_
    assert found[f"shaped/{metric}/change"].method == (
        "seeds are equal; Newcombe interval from 54 of 60 completions and 10 of 20 completions, counted as 20 and 20 independent ones"
    )
    assert [verdict.verdict for verdict in verdicts] == ["supported", "supported"] and low > 0.1
    write_evaluation(folder.untrained.evaluation, 0, of=0, unknown=20, attempt="")
    found, verdicts = _concluded(folder)
    assert found[f"shaped/{metric}/change"].value is None and verdicts[0].verdict == "void"


@pytest.mark.parametrize(("between", "within"), [(0.0, 0.0), (0.01, 0.3), (0.1, 0.0)])
def test_equal_seeds_hold_the_truth_where_completions_and_seeds_depend(between: float, within: float) -> None:
    """A share of 0.01, seeds and steps that scatter about it (beta distributions with these correlations), three seeds of ten steps of 32.
    Counting every completion would hold the truth in a fifth of the equal rounds at 0.01 and 0.3, in none at 0.1."""
    rng = np.random.default_rng(12)
    held = []
    for _ in range(3000):
        seeds = np.clip(_beta(rng, np.full(3, 0.01), between), 1e-9, 1 - 1e-9)
        made = rng.binomial(32, _beta(rng, np.repeat(seeds[:, None], 10, axis=1), within)).sum(axis=1)
        if len(set(made.tolist())) == 1:
            counts = [Count(k / 320, k, 320, 10) for k in made.tolist()]
            found = of_completions([over_seeds(counts, once=False)], [], 0.95)
            assert mean([count.share for count in counts], 0.95).low is None
            held.append((found.low or 0.0) <= 0.01 <= (found.high or 0.0))
    assert len(held) > 60 and np.mean(held) > 0.95


def _beta(rng: np.random.Generator, at: Any, correlation: float) -> Any:
    return at if correlation == 0 else rng.beta(at * (1 - correlation) / correlation, (1 - at) * (1 - correlation) / correlation)
