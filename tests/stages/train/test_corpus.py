import json
from itertools import islice
from pathlib import Path

import pytest

from stages.contracts.plugin import CORPORA, kinds
from stages.contracts.pretrain_card import CorpusSettings
from stages.train.corpora.expressions import OPERATIONS, POINTS, composed
from stages.train.corpus import labelled, problems, prompt_sets

DATA = Path(__file__).parents[3] / "data"
FOLDERS = {"expressions": "quickstart", "functions": "python-functions", "ocaml": "ocaml-tiny", "theorems": "theorems"}


def test_a_problem_by_hand():
    row = composed([(OPERATIONS[3], 1), (OPERATIONS[5], 1), (OPERATIONS[0], 3)]).row
    assert (row["prompt"], row["answer"]) == ("double then negate then add 3\n", "(-(x*2))+3")
    assert row["tests"] == [{"arguments": [x], "expected": -2 * x + 3} for x in POINTS]


def test_answers_compute_their_values():
    for problem in islice(problems("expressions", seed=1), 300):
        assert all(eval(problem.row["answer"], {"x": test["arguments"][0]}) == test["expected"] for test in problem.row["tests"])


def test_the_declared_share_is_faulty_and_mostly_wrong():
    clean, half = (list(labelled(CorpusSettings(rows=2000, faulty=faulty, seed=7))) for faulty in (0.0, 0.5))
    assert [problem for problem, _, _ in clean] == [problem for problem, _, _ in half]
    changed = sum(right != written for (_, _, right), (_, _, written) in zip(clean, half, strict=True))
    assert 0.45 < changed / 2000 < 0.52


def test_a_corpus_is_a_file_and_an_unknown_kind_is_named():
    with pytest.raises(ValueError, match=r"no corpus of kind `expresions`.*known: .*expressions"):
        CorpusSettings(kind="expresions", rows=1, faulty=0.0, seed=1)
    assert CorpusSettings.model_json_schema()["properties"]["kind"]["enum"] == kinds(CORPORA)


@pytest.mark.parametrize("kind", kinds(CORPORA))
def test_every_corpus_keeps_to_the_protocol_and_ships_what_it_generates(kind):
    settings = CorpusSettings(kind=kind, rows=200, faulty=0.5, seed=3)
    generated = list(labelled(settings))
    assert len(generated) == 200 and generated == list(labelled(settings))
    assert all(problem.row["prompt"].strip() and completion.strip() for problem, _, completion in generated)
    sets = prompt_sets(kind)
    for key in ("id", "prompt"):
        values = [row[key] for rows in sets.values() for row in rows]
        assert len(values) == len(set(values))
    assert all(row["prompt"].endswith("\n") for rows in sets.values() for row in rows)
    for name in ("train", "heldout"):
        rows = [json.loads(line) for line in (DATA / FOLDERS[kind] / f"{name}.jsonl").read_text().splitlines()]
        assert rows == sets[name]
