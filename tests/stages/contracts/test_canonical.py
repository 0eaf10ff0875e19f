"""The writer gives the bytes of Python's own."""

import json
from enum import StrEnum
from http import HTTPStatus

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.contracts.canonical import encoded

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=30,
)


class Colour(StrEnum):
    RED = "red"


@given(VALUES)
def test_equal_bytes(value):
    assert encoded(value) == json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, indent=2)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")], {"a": float("nan")}])
def test_strict(value):
    with pytest.raises(ValueError):
        encoded(value)


def test_kinds_of_numbers_and_text_are_their_plain_values():
    assert (
        encoded({"a": np.float64(0.1), "b": Colour.RED, "c": (HTTPStatus.OK, True)})
        == '{\n  "a": 0.1,\n  "b": "red",\n  "c": [\n    200,\n    true\n  ]\n}'
    )
    with pytest.raises(ValueError):
        encoded(np.float64("nan"))


@pytest.mark.parametrize("value", [{1: 2}, {"a": {2}}, b"bytes", [object()]])
def test_what_is_no_json_is_refused(value):
    with pytest.raises(TypeError):
        encoded(value)
