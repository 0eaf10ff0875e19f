import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.publish import numbers
from stages.publish.numbers import agreed_rows, column_decimals, counted, fixed, interval, listed, number, setting

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
        (0.0018, 0.0352, ("0.0018", "0.0352", "+0.0334")),  # case 15: never a percentage
        (0.1410, 0.1394, ("0.1410", "0.1394", f"{M}0.0016")),  # case 16: never +11.6%
        (0.6249, 0.8751, ("0.625", "0.875", "+0.250")),  # with two digits 0.88 - 0.62 would not be +0.25
    ],
)
def test_a_printed_change_follows_from_the_printed_numbers(initial: float, final: float, printed: tuple[str, str, str]) -> None:
    change = final - initial
    digits = agreed_rows([(initial, final, change)])[0]
    assert (fixed(initial, digits), fixed(final, digits), fixed(change, digits, signed=True)) == printed


@given(st.integers(-9999, 9999), st.integers(-9999, 9999))
def test_with_four_digits_the_change_always_follows(first: int, last: int) -> None:
    initial, final = first / 1e4, last / 1e4
    digits = agreed_rows([(initial, final, final - initial)])[0]

    def printed(value: float) -> float:
        return round(float(fixed(value, digits).replace(M, "-")), 6)

    assert round(printed(final) - printed(initial), 6) == printed(final - initial)


def test_a_column_takes_the_digits_of_the_cell_that_needs_most_but_not_more_than_three() -> None:
    assert column_decimals([(0.73, 0.71, 0.76), (0.967, 0.957, 0.977)]) == 2
    assert column_decimals([(0.73, 0.71, 0.76), (0.967, 0.963, 0.971)]) == 3
    assert column_decimals([(0.74, None, None), (0.0039, None, None)]) == 3
    assert column_decimals([(None, None, None)]) == 2
    assert column_decimals([(120.4, 100.0, 140.0), (118.0, 100.0, 136.0)]) == 0


def test_changes_follow_with_the_fewest_digits_of_the_column() -> None:
    assert agreed_rows([(0.62, 0.87, 0.25), (0.5, 0.4, -0.1)]) == [2, 2]
    assert agreed_rows([(0.6249, 0.8751, 0.2502), (0.5, 0.4, -0.1)]) == [3, 3]
    assert agreed_rows([(0.0018, 0.0352, 0.0334), (0.62, 0.87, 0.25)]) == [4, 4]  # case 15 in a table: +0.0334, not +0.033
    fits_two, fits_more = (0.10044, 0.30056, 0.20012), (0.1849, 0.3451, 0.1602)  # 0.10 + 0.20 = 0.30; 0.18 + 0.16 is not 0.35
    assert (agreed_rows([fits_two]), agreed_rows([fits_more])) == ([2], [3])
    assert agreed_rows([fits_more], least=4) == [4]  # digits that an interval beside it asks for


def test_a_row_whose_change_does_not_follow_with_the_digits_of_its_column_has_its_own() -> None:
    fits_two, fits_more = (0.10044, 0.30056, 0.20012), (0.1849, 0.3451, 0.1602)
    assert agreed_rows([fits_two, fits_more, fits_more]) == [2, 3, 3]
    # a report's table of two conditions: 0.4361 - 0.1609 is not +0.2753, and no four digits suit both
    shaped, zero = (0.160870, 0.436142, 0.275272), (0.138800, 0.136600, -0.002200)
    assert agreed_rows([shaped, zero]) == [2, 4]
    assert [fixed(value, 2) for value in shaped] == ["0.16", "0.44", "0.28"]
    assert agreed_rows([(None, 0.5, None)]) == [2]
    # with an interval that asks for four digits: 0.4361 - 0.1609 = 0.2752, so five
    assert agreed_rows([shaped], least=4) == [5]
    assert [fixed(value, 5) for value in shaped] == ["0.16087", "0.43614", "0.27527"]


def test_near_zero_a_row_has_two_digits_of_its_smallest_number() -> None:
    assert agreed_rows([(1.02e-5, 2.53e-5, 1.51e-5), (0.62, 0.87, 0.25)]) == [6, 4]
    assert agreed_rows([(3.58e-6, 3.55e-6, -3e-8)]) == [9]
    assert agreed_rows([(0.000984, 0.0000266, -0.0009574)]) == [6]  # 0.000027 - 0.000984 = -0.000957
    assert agreed_rows([(2e-10, 3e-10, 1e-10), (0.0, 0.0, 0.0)]) == [None, 4]


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
    assert numbers.agreed_rows([(1e30, 3e30, 2e30)]) == [0]
