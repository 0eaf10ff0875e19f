"""Python's own reader decides what a JSON text with bare NaN and Infinity means; ours must never say anything else."""

import json
import math
import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from stages.train.imports.cells import number
from stages.train.imports.json_text import loads

WORDS = ("NaN", "Infinity", "-Infinity")
REFUSED = object()
PIECES = [
    "NaN",
    "Infinity",
    "-Infinity",
    "-",
    '"',
    '\\"',
    "\\",
    ": NaN",
    ": ",
    ":",
    ",",
    ", ",
    "{",
    "}",
    "[",
    "]",
    '"a": ',
    "b",
    " ",
    "\n",
    "1",
]
PIECES += ["1e999", "null", '{"a": NaN, "b": "', '"}', '": NaN,']


def meaning(value):
    """A number that JSON lacks means the same bare and as a text of its name, for every reader of cells."""
    if isinstance(value, dict):
        return {name: meaning(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [meaning(inner) for inner in value]
    if value in WORDS or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return repr(number(value))
    return value


def read(reader, text: str):
    try:
        return meaning(reader(text))
    except (ValueError, RecursionError):
        return REFUSED


TEXTS = st.text(max_size=8) | st.lists(st.sampled_from(PIECES), max_size=4).map("".join)
NUMBERS = st.floats() | st.integers() | st.just(math.nan) | st.just(-math.inf)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=20,
)


@settings(max_examples=400, deadline=None)
@given(VALUES, st.sampled_from([None, 2]), st.sampled_from([(", ", ": "), (",", ":"), (" ,\r\n", "\t: ")]), st.booleans())
@example({"best": 'a ": NaN, "', "rows": [{"r": math.nan, "NaN": -math.inf}, {"r": "NaN"}], "\\": "\\NaN"}, 2, (",", ": "), True)
def test_what_python_writes_is_read_as_python_reads_it(value, indent, separators, ascii_only):
    text = json.dumps(value, indent=indent, separators=separators, ensure_ascii=ascii_only)
    assert read(lambda one: loads(one.encode("utf-8", "surrogatepass")), text) == read(json.loads, text)


@settings(max_examples=2_000, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@example('{"a": "\\NaN}')
@example('["x: NaN y"]')
@example('["-", NaN, "-Infinity", -Infinity, "Infinity", "a-Infinity"]')
@example('["\\"NaN"]')
@example('{"a": 1e999, "b": -NaN}')
def test_any_text_is_read_as_python_reads_it_or_refused(text):
    ours, theirs = read(lambda one: loads(one.encode()), text), read(json.loads, text)
    if re.search(r"(?:NaN|Infinity)\s*:", text) is None or theirs is not REFUSED:  # in place of a key, a bare word is taken for one
        assert ours == theirs
