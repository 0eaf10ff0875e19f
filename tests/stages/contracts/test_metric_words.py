import pytest

from stages.contracts.history import METRICS
from stages.contracts.metric_words import words


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("zero_signal_share", "zero-signal share"),
        ("grad_norm", "gradient norm"),
        ("gate.format.pass_share", "share that passes format"),
        ("evaluation.tests.pass_share", "share that passes tests, shared evaluation"),
        ("gate.lean-check.unknown_share", "share that lean-check does not know"),
        ("entropy", "entropy"),
        ("some_new_metric", "some new metric"),
    ],
)
def test_metrics_are_said_in_words(key: str, said: str) -> None:
    assert words(key) == said


def test_no_known_metric_is_said_with_an_underscore_and_no_two_the_same() -> None:
    said = [words(key) for key in METRICS]
    assert not [text for text in said if "_" in text]
    assert len(set(said)) == len(said)
