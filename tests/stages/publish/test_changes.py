"""A change whose interval holds 0 is printed with the smallest change that would have shown."""

import pytest

from stages.contracts.finding import Finding
from stages.publish.facts import Facts, undetected_change


def finding(low: float | None, high: float | None, detectable: float | None) -> Finding:
    parts = {"subject": "r-s1", "metric": "reward", "statistic": "change", "unit": "reward", "value": 0.01, "level": 0.95}
    return Finding.model_validate(
        {"id": "r-s1/reward/change", "says": "x", "low": low, "high": high, "detectable": detectable, **parts},
    )


@pytest.mark.parametrize(
    ("low", "high", "detectable", "says"),
    [
        (-0.03, 0.05, 0.061, "no change detected (smallest detectable: ±0.061)"),
        (0.001, 0.05, 0.061, ""),
        (-0.05, -0.001, 0.061, ""),
        (None, None, None, ""),
        (0.0, 0.0, 0.0, ""),  # no spread at all: nothing to detect against
    ],
)
def test_the_detectable_change_stands_beside_no_change(low: float | None, high: float | None, detectable: float | None, says: str) -> None:
    found = finding(low, high, detectable)
    assert undetected_change(found) == says
    written = Facts({found.id: found}).change(found, decimals=2)
    assert ("<small" in written) == bool(says) and "0.01</a>" in written
    assert "detectable" in found.model_dump() or detectable is None
