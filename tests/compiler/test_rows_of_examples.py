"""Examples that bring their data row along."""

import json

from compiler.__main__ import main

OWN = "row: {tests: [{arguments: [0], expected: 3}, {arguments: [2], expected: 7}]}"


def test_gates_see_the_row_that_an_example_brings(work, spec, capsys):
    """No row of the data has these tests: x*2+3 passes them, and x+3 the first one only."""
    text = spec.replace('"(x*2)+3", row: row-3, expect: 1.0', f'"(x*2)+3", {OWN}, expect: 1.0')
    assert OWN in text
    (work / "specs/example.yaml").write_text(text)
    assert main(["check", "example", "--rewards"]) == 0
    (work / "specs/example.yaml").write_text(text.replace('"(x*2)+3"', '"x+3"'))
    assert main(["check", "example", "--rewards"]) == 1
    assert "E325" in capsys.readouterr().err


def test_the_row_is_on_preflights_card_and_on_no_train_card(work, spec, files):
    texts = files(spec.replace("row: row-3, expect: 1.0", f"{OWN}, expect: 1.0")).files
    card = json.loads(texts["runs/example/preflight/preflight.card.json"])
    rows = [example["row"] for example in card["conditions"][0]["reward"]["examples"]]
    assert rows[0] == {"tests": [{"arguments": [0], "expected": 3}, {"arguments": [2], "expected": 7}]} and rows[1]["id"] == "row-3"
    assert "expected" not in texts["runs/example/shaped-s1/train.card.json"]
