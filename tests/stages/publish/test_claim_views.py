import re

import pytest

from stages.contracts.finding import Finding, Verdict
from stages.publish.bars import bar, place
from stages.publish.claims import explain_verdict


def drawn(value: float | None, low: float | None, high: float | None, margin: float, direction: str) -> dict[str, float]:
    """x of each mark of a claim's bar."""
    finding = Finding(
        id="a/b/final", says="", subject="a", metric="b", statistic="difference", unit="share", value=value, low=low, high=high
    )
    verdict = Verdict(claim="c", verdict="void", why="", finding="a/b/final", direction=direction, margin=margin)  # type: ignore[arg-type]
    at = place(finding, verdict)
    if at is None:
        return {}
    text = bar(at, verdict.verdict, "")
    patterns = {
        "low": r'class="whisker" x1="([^"]*)"',
        "high": r'class="whisker" [^>]*x2="([^"]*)"',
        "value": r'class="point" cx="([^"]*)"',
        "margin": r'<line class="margin" x1="([^"]*)"',
        "zero": r'class="zero" x1="([^"]*)"',
        "side": r'class="side" x="([^"]*)"',
        "side_width": r'class="side" [^>]*width="([^"]*)"',
    }
    return {name: float(found[1]) for name, pattern in patterns.items() if (found := re.search(pattern, text))}


def test_marks_lie_where_their_values_are() -> None:
    at = drawn(0.3, 0.2, 0.4, 0.1, "above")
    assert at["zero"] < at["margin"] < at["low"] < at["value"] < at["high"] <= 308
    steps = [at[b] - at[a] for a, b in (("zero", "margin"), ("margin", "low"), ("low", "value"), ("value", "high"))]
    assert steps == pytest.approx([steps[0]] * 4, abs=0.2)  # all are 0.1 apart


def test_the_claimed_side_is_the_shaded_one() -> None:
    above, below = drawn(0.3, 0.2, 0.4, 0.1, "above"), drawn(0.3, 0.2, 0.4, 0.1, "below")
    assert above["side"] == above["margin"] and above["side"] + above["side_width"] == 320
    assert below["side"] == 0 and below["side_width"] == below["margin"]


def test_a_value_without_interval_has_no_whisker_and_no_value_has_no_bar() -> None:
    assert "low" not in drawn(0.3, None, None, 0.1, "above")
    assert drawn(None, None, None, 0.1, "above") == {}
    assert drawn(0.0, None, None, 0.0, "above")["value"] == drawn(0.0, None, None, 0.0, "above")["margin"]


def test_a_claim_on_equal_seeds_does_not_speak_of_an_interval_that_is_not_there() -> None:
    no_width = "no spread between seeds: the interval would have no width"
    finding = Finding(id="a/b/final", says="", subject="a", metric="b", statistic="final", unit="", value=5.0, method=no_width, n=3)
    verdict = Verdict(claim="c", verdict="inconclusive", why="", finding="a/b/final", direction="below", margin=-1.5)
    says = f"There is no interval ({no_width}), so the value alone does not say on which side of the margin \u22121.5 the truth lies."
    assert explain_verdict(verdict, finding, listed=False) == says
    bounded = finding.model_copy(update={"low": -2.0, "high": 1.0})
    assert explain_verdict(verdict, bounded, listed=False) == "The interval contains the margin \u22121.5."
    counted = bounded.model_copy(update={"equal_seeds": True, "high": -1.6, "method": "seeds are equal; Wilson interval from 0 of 9"})
    says = "The whole interval lies below the margin \u22121.5. The seeds are equal; Wilson interval from 0 of 9"
    assert (
        explain_verdict(verdict.model_copy(update={"verdict": "supported"}), counted, listed=False)
        == f"{says}; it does not cover other seeds."
    )
