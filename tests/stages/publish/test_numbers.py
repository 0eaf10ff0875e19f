import pytest
from example_experiment import plain

from stages.contracts.finding import Finding, SeedValue
from stages.publish import numbers
from stages.publish.facts import Facts, metric_digits
from stages.publish.numbers import column_decimals, counted, fixed, interval, listed, number, setting

M = numbers.MINUS


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (0.8812, 0.8391, 0.9202, "0.88 [0.84, 0.92]"),
        (0.9901, 0.9852, 0.9949, "0.990 [0.985, 0.995]"),
        (0.5, None, None, "0.50"),
        (18.24, 17.1, 19.4, "18.2 [17.1, 19.4]"),
        (-0.28, -0.37, -0.19, f"{M}0.28 [{M}0.37, {M}0.19]"),
        (1.0, 1.0, 1.0, "1.00 [1.00, 1.00]"),
        (1.54e-5, 1.21e-5, 1.87e-5, "0.000015 [0.000012, 0.000019]"),  # it was 0.0000 [0.0000, 0.0000]
        (None, None, None, "–"),
    ],
)
def test_digits_follow_the_interval(value: float | None, low: float | None, high: float | None, text: str) -> None:
    assert interval(value, low, high) == text


def test_changes_carry_their_sign() -> None:
    assert interval(0.359, 0.301, 0.417, signed=True) == "+0.36 [+0.30, +0.42]"
    assert fixed(0.0, 2, signed=True) == "0.00"


@pytest.mark.parametrize(
    ("initial", "final", "printed"),
    [
        (0.0018, 0.0352, ["0.0018", "0.0352", "+0.0334"]),  # case 15: never a percentage
        (0.1410, 0.1394, ["0.1410", "0.1394", f"{M}0.0016"]),  # case 16: never +11.6%
        (0.6249, 0.8751, ["0.62", "0.88", "+0.26"]),  # 0.2502 alone would be +0.25, which does not follow from the printed numbers
    ],
)
def test_a_printed_change_follows_from_the_printed_numbers(initial: float, final: float, printed: list[str]) -> None:
    values = {"initial": initial, "final": final, "change": final - initial}
    findings = {f"shaped/x/{statistic}": _number("shaped", statistic, value) for statistic, value in values.items()}
    facts = Facts(findings)
    assert [plain(facts.value(finding)) for finding in findings.values()] == printed


def test_all_numbers_of_a_metric_have_the_same_digits() -> None:
    """Of conditions as many as an interval needs, but not six; what a single run has says nothing of the digits."""
    row = (("shaped", "initial", 2.12345, 0.02), ("shaped", "final", 2.33445, 0.05), ("shaped-s1", "final", 2.000001, None))
    findings = {f"{subject}/x/{statistic}": _number(subject, statistic, value, half) for subject, statistic, value, half in row}
    assert metric_digits(findings.values()) == {"x": 2}
    assert "2.33" in Facts(findings).interval(findings["shaped/x/final"]) and ">2.00<" in Facts(findings).value(
        findings["shaped-s1/x/final"]
    )


def _number(subject: str, statistic: str, value: float, half: float | None = None) -> Finding:
    ends = {} if half is None else {"low": value - half, "high": value + half}
    seeds = () if subject.endswith("-s1") else (SeedValue(run="shaped-s1", seed=1, value=value, included=True),)
    own = {"subject": subject, "metric": "x", "statistic": statistic, "unit": "loss", "value": value, "seeds": seeds, **ends}
    return Finding.model_validate({"id": f"{subject}/x/{statistic}", "says": "x", **own})


def test_a_column_takes_the_digits_of_the_cell_that_needs_most_but_not_more_than_three() -> None:
    assert column_decimals([(0.73, 0.71, 0.76), (0.967, 0.957, 0.977)]) == 2
    assert column_decimals([(0.73, 0.71, 0.76), (0.967, 0.963, 0.971)]) == 3
    assert column_decimals([(0.74, None, None), (0.0039, None, None)]) == 3
    assert column_decimals([(None, None, None)]) == 2
    assert column_decimals([(120.4, 100.0, 140.0), (118.0, 100.0, 136.0)]) == 0


def test_few_things_are_counted_in_words() -> None:
    assert [counted(n) for n in (0, 1, 12, 13)] == ["no", "one", "twelve", "13"]
    assert [listed(parts) for parts in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]


def test_a_rounded_zero_has_no_sign_and_small_numbers_have_an_exponent() -> None:
    assert fixed(-0.0004, 2) == "0.00"
    assert number(-1.6e-6) == f"{M}1.6 × 10⁻⁶"
    assert number(3.0, "count") == "3"
    assert number(12345.6) == "12\u202f346"


def test_settings_are_printed_as_a_spec_holds_them() -> None:
    printed = {1e-6: "1e-6", 0.001: "0.001", 0.0: "0", True: "true", None: "null", "constant": "constant", ("q", "v"): "[q, v]"}
    assert {value: setting(value) for value in printed} == printed


def test_case_36_a_falling_rate_has_a_negative_change() -> None:
    """Decay, not warm-up: the numbers say so, and the change follows from them."""
    first, last = 3.58e-6, 3.55e-6
    assert [number(first, "1", decimals=4), number(last, "1", decimals=4)] == ["3.58 × 10⁻⁶", "3.55 × 10⁻⁶"]
    assert number(last - first, "1", decimals=4, signed=True) == f"{M}3.00 × 10⁻⁸"
    assert number(first - last, "1", decimals=4, signed=True) == "+3.00 × 10⁻⁸"
    assert number(0.001, "1", decimals=4) == "0.0010"


def test_numbers_beside_a_margin_lie_on_their_own_side_of_it() -> None:
    assert numbers.decimals_beside(0.05, 0.03, 0.01, 0.04) == numbers.decimals_for(0.03, 0.01, 0.04) == 2
    assert numbers.decimals_beside(0.05, 0.048, 0.0462, 0.0498) == 4  # with three digits 0.050 looks like the margin itself
    assert numbers.decimals_beside(0.05, 0.04, 0.03, 0.05) == 2  # an end on the margin is printed there


def test_numbers_of_any_size_are_printed() -> None:
    """A gradient norm of a run that blew up."""
    assert numbers.number(1.25e30) == "1.25 × 10³⁰" and numbers.number(-1e300, signed=True) == "−1.00 × 10³⁰⁰"
    assert numbers.interval(2e20, 1e20, 3e20, signed=True) == "+2.00 × 10²⁰ [+1.00 × 10²⁰, +3.00 × 10²⁰]"
    assert numbers.interval(0.0, -1.7e308, 1.7e308) == "0 [−1.70 × 10³⁰⁸, 1.70 × 10³⁰⁸]"
    assert numbers.number(999_999_999_999_999.0) == "999\u202f999\u202f999\u202f999\u202f999"
