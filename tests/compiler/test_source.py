"""YAML to values and places: right values, right places, and no input that breaks, hangs or expands."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.document.node import Node
from compiler.document.read import MAX_BYTES, parse
from compiler.problems import Rejected


def plain(text: str) -> object:
    return parse(text.encode(), "spec.yaml").root.plain()


def rejected(content: bytes) -> list[str]:
    with pytest.raises(Rejected) as caught:
        parse(content, "spec.yaml")
    return [problem.code for problem in caught.value.diagnostics]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(
            ("1e-6", 1e-6),
            ("1.0e-6", 1e-6),
            ("-3", -3),
            ("+3", 3),
            (".5", 0.5),
            ("5.", 5.0),
            ("1E5", 1e5),
            ("true", True),
            ("False", False),
        ),
        *((text, text) for text in ("007", "1_000", "1:30", "yes", "off", "2024-01-01", "60s", "0x1F")),
        *(("true", True), ("False", False), ("'1'", "1"), ('"1e-6"', "1e-6"), ("1234567890123456789012", 1234567890123456789012.0)),
    ],
)
def test_scalars(text, value):
    scalar = plain(f"key: {text}")["key"]
    assert scalar == value and type(scalar) is type(value)


def test_places_of_keys_and_values():
    root = parse(b"train:\n  learning_rate: 1e-6  # peak\nseeds: [1, 22]\n", "spec.yaml").root
    rate = root.get("train", "learning_rate")
    assert (rate.place.line, rate.place.column, rate.place.length) == (2, 18, 4)
    assert (rate.key.line, rate.key.column, rate.key.length) == (2, 3, 13)
    assert (root.get("seeds", 1).place.line, root.get("seeds", 1).place.column) == (3, 12)


def test_columns_line_ends_and_aliases():
    """Columns count characters, not bytes; Windows' line ends and byte order marks are none; an alias has the place of its own key."""
    root = parse('owner: {name: "Bj\u00f6rn \U0001f600", unit: x}'.encode(), "spec.yaml").root
    assert root.get("owner", "unit").place.column == 32
    document = parse(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n", "spec.yaml")
    assert document.root.plain() == {"a": 1, "b": 2}
    assert document.root.get("b").place.line == 2 and document.lines[1] == "b: 2"
    root = parse(b"a: &x {k: 1}\nb: *x\n", "spec.yaml").root
    assert (root.get("a").key.line, root.get("b").key.line, root.get("b", "k").place.line) == (1, 2, 1)


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_deep_nesting_is_refused_at_once(opening):
    began = time.process_time()
    assert rejected((opening * 200_000).encode()[: MAX_BYTES - 10]) == ["E108"]
    assert time.process_time() - began < 60


def test_alias_bomb_is_refused_at_once():
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    began = time.process_time()
    assert rejected("\n".join(lines).encode()) == ["E110"]
    assert time.process_time() - began < 60


@given(st.binary(max_size=300))
def test_any_bytes_are_a_document_or_a_diagnostic(content):
    """Every place lies inside the file."""
    try:
        document = parse(content, "spec.yaml")
    except Rejected as error:
        assert error.diagnostics
        lines = error.sources.get("spec.yaml", [""])
        for problem in error.diagnostics:
            assert problem.why and problem.fix
            inside(problem.place, lines)
        return
    pending: list[Node] = [document.root]
    while pending:
        node = pending.pop()
        inside(node.place, document.lines)
        if node.key:
            inside(node.key, document.lines)
        pending += node.value.values() if isinstance(node.value, dict) else node.value if isinstance(node.value, list) else []


def inside(place, lines):
    assert 1 <= place.line <= len(lines)
    assert 1 <= place.column <= len(lines[place.line - 1]) + 1
    assert place.length >= 1


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn", "Zl", "Zp"]), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


def without_null(value):
    if isinstance(value, dict):
        return {key: without_null(item) for key, item in value.items() if item is not None}
    return [without_null(item) for item in value] if isinstance(value, list) else value


@given(st.dictionaries(TEXT.filter(lambda key: key != "<<"), VALUES, min_size=1, max_size=4))
def test_json_means_in_yaml_what_it_means(value):
    """JSON is YAML: strings in quotes stay text, numbers stay numbers."""
    read = plain(json.dumps(value, ensure_ascii=False))
    assert read == without_null(value)
