import pytest

from stages.contracts.wilson import wilson


@pytest.mark.parametrize(
    ("k", "n", "low", "high"), [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)]
)
def test_newcombes_table(k, n, low, high):
    """Newcombe 1998, Statistics in Medicine 17, table I, method 3; and the same counts of what is not counted."""
    assert [round(x, 4) for x in wilson(k, n, 0.95)] == [low, high]
    assert wilson(n - k, n, 0.95) == pytest.approx((1 - high, 1 - low), abs=6e-5)
