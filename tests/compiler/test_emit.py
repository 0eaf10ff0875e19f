"""A condition's text is made once and differs between its runs in the seed only; all of it is what the contract writes."""

from compiler.build.emit import cards
from compiler.compile import project
from stages.contracts.artifact import dump, read
from stages.contracts.lineage import Origins


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
    path.write_text(project([one], with_site=False).ignored["runs/example/origins.json"], encoding="utf-8")
    found = read(Origins, path)
    assert found.seeds["2"].position == "specs/example.yaml:23:12"
    assert found.claims["shaped-teaches"].position == "specs/example.yaml:50:5"
    assert found.conditions["zero"].position == "specs/example.yaml:37:3"
    assert str(found.conditions["zero"]) == "specs/example.yaml: conditions.zero"
    gate = found.cards["shaped/train.card.json"]["/reward/gates/0/on_fail"]
    assert str(gate) == "specs/example.yaml: rewards.shaped.gates.format.on_fail"


def test_a_comment_line_changes_no_file_that_git_knows(files, spec):
    plain, commented = files(spec), files(f"# a comment\n{spec}")
    assert plain.files == commented.files and plain.once == commented.once and plain.ignored != commented.ignored
