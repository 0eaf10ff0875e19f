from typing import Any, cast

import pytest

from stages.publish.anomalies import Anomaly, Seen
from stages.publish.claims import ClaimView
from stages.publish.summary import answer


def claims(*verdicts: str) -> tuple[ClaimView, ...]:
    fields: dict[str, Any] = dict.fromkeys(ClaimView.__dataclass_fields__, "")
    return tuple(ClaimView(**{**fields, "verdict": verdict}) for verdict in verdicts)


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ((), "No claim was declared, so nothing is decided."),
        (("void",), "The one declared claim is void."),
        (("supported", "supported"), "Both declared claims are supported."),
        (("refuted",) * 3, "All three declared claims are refuted."),
        (("void", "supported"), "Of two declared claims, one is supported and one is void."),
        (("supported", "inconclusive", "void"), "Of three declared claims, one is supported, one is inconclusive and one is void."),
        (("void", "supported", "void", "supported"), "Of four declared claims, two are supported and two are void."),
    ],
)
def test_the_answer_reads_as_a_sentence(verdicts: tuple[str, ...], said: str) -> None:
    assert answer(claims(*verdicts)) == said


def test_a_warning_is_said_in_plain_words() -> None:
    class Signal:
        onset = 21

    seen = tuple(Seen(run, cast(Any, Signal()), "", ()) for run in ("inverted-s1", "inverted-s2"))
    found = Anomaly("zero_signal", "zero_signal_share", "inverted", "severe", seen, 3)
    assert found.phrase == "groups lose their reward signal in 2 of 3 runs (step 21)"
