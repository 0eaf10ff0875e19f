"""People map TRL's names. Each leads to one of octavo's metrics, and the guide lists them all."""

import re
from pathlib import Path

from compiler.language.trl_names import TRL_NAMES, meant_by
from stages.contracts.history import metric

GUIDE = Path(__file__).parents[2] / "site/docs/guide/import-runs.md"


def test_each_name_of_trl_is_a_metric_of_octavo_and_in_the_guide() -> None:
    listed = dict(re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE))
    assert listed.pop("rewards/<function>/mean") == "gate.<function>.score"
    assert listed == TRL_NAMES
    assert all(metric(name) is not None for name in TRL_NAMES.values())


def test_a_name_of_trl_is_told_from_any_other() -> None:
    assert meant_by("train/frac_reward_zero_std") == "zero_signal_share"
    assert meant_by("rewards/Unit-Tests/mean") == "gate.unit_tests.score"
    assert meant_by("rewards/Ä b/mean") == "gate.__b.score" and meant_by("rewards//mean") is None
    assert all(metric(name) is not None for name in ("gate.unit_tests.score", "gate.__b.score"))
    assert meant_by("num_tokens") is None and meant_by("rewards/tests/std") is None
