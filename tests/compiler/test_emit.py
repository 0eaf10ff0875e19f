"""A condition's text is made once and differs between its runs in the seed only; all of it is what the contract writes."""

from compiler.build.emit import cards
from stages.contracts.artifact import dump, read
from stages.contracts.origin import Origins


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
