"""The fast writer gives the bytes of the contract's writer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler import canonical
from compiler.emit import cards
from stages.contracts.artifact import canonical_json, dump, read
from stages.contracts.origin import Origins

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=30,
)


@given(VALUES)
def test_equal_bytes(value):
    assert canonical.encoded(value) + "\n" == canonical_json(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")], {"a": float("nan")}])
def test_strict(value):
    with pytest.raises(ValueError):
        canonical.encoded(value)


def test_every_emitted_card_is_what_the_contract_writes(compiled, spec, work):
    one = compiled(spec)
    files = cards(one.experiment, one.expansion.runs, one.cards)
    for run in one.expansion.runs:
        card = one.cards.train[run.setup.name].model_copy(update={"seed": run.seed})
        assert files[f"runs/example/{run.name}/train.card.json"] == dump(card)
    for path, card in one.cards.single.items():
        assert files[f"runs/example/{path}"] == dump(card)


def test_origins_are_what_the_contract_writes(compiled, spec, work):
    one = compiled(spec)
    path = work / "origins.json"
    path.write_text(cards(one.experiment, one.expansion.runs, one.cards)["runs/example/origins.json"], encoding="utf-8")
    found = read(Origins, path)
    assert path.read_text(encoding="utf-8") == dump(found)
    assert str(found.cards["shaped-s2/train.card.json"]["/seed"]) == "specs/example.yaml:23:12"
    assert str(found.claims["shaped-teaches"]) == "specs/example.yaml:50:5"
    assert str(found.conditions["zero"]) == "specs/example.yaml:37:3"
