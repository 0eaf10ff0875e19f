import pytest

from stages.contracts.wilson import wilson


@pytest.mark.parametrize(("k", "n", "low", "high"), [(3, 18, 0.06, 0.39), (9, 9, 0.70, 1.00), (0, 5, 0.0, 0.43), (0, 0, 0.0, 1.0)])
def test_intervals_of_95_percent(k, n, low, high):
    assert [round(x, 2) for x in wilson(k, n, 0.95)] == [low, high]


def test_a_higher_level_is_wider():
    assert wilson(3, 18, 0.99)[0] < wilson(3, 18, 0.95)[0] < wilson(3, 18, 0.5)[0] < 3 / 18 < wilson(3, 18, 0.5)[1]
