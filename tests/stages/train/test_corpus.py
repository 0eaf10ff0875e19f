import json
from itertools import islice
from pathlib import Path

import pytest

from stages.contracts.plugin import CORPORA, kinds, load
from stages.contracts.pretrain_card import CorpusSettings
from stages.train.corpora.expressions import OPERATIONS, POINTS, pairs, problem, problems, prompt_sets

DATA = Path(__file__).parents[3] / "data/quickstart"


def test_a_problem_by_hand():
    found = problem([(OPERATIONS[3], 1), (OPERATIONS[5], 1), (OPERATIONS[0], 3)])
    assert (found.prompt, found.answer) == ("double then negate then add 3\n", "(-(x*2))+3")
    assert found.values == tuple(-2 * x + 3 for x in POINTS)


def test_answers_compute_their_values():
    for found in islice(problems(seed=1), 300):
        assert [eval(found.answer, {"x": x}) for x in POINTS] == list(found.values)


def test_the_declared_share_is_faulty_and_mostly_wrong():
    clean = list(pairs(CorpusSettings(rows=2000, faulty=0.0, seed=7)))
    half = list(pairs(CorpusSettings(rows=2000, faulty=0.5, seed=7)))
    assert [prompt for prompt, _ in clean] == [prompt for prompt, _ in half]
    changed = sum(right != written for (_, right), (_, written) in zip(clean, half, strict=True))
    assert 0.45 < changed / 2000 < 0.52


@pytest.mark.parametrize("name", ["train", "heldout"])
def test_the_shipped_prompt_sets_are_those_of_the_generator(name):
    rows = [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text().splitlines()]
    assert rows == prompt_sets()[name]


def test_no_prompt_occurs_twice():
    sets = prompt_sets()
    prompts = [row["prompt"] for rows in sets.values() for row in rows]
    assert len(prompts) == len(set(prompts)) == 1192
    assert all(prompt.endswith("\n") for prompt in prompts)


def test_a_corpus_is_a_file_and_an_unknown_kind_is_named():
    with pytest.raises(ValueError, match=r"no corpus of kind `expresions`.*known: .*expressions"):
        CorpusSettings(kind="expresions", rows=1, faulty=0.0, seed=1)
    assert CorpusSettings.model_json_schema()["properties"]["kind"]["enum"] == kinds(CORPORA)


@pytest.mark.parametrize("kind", kinds(CORPORA))
def test_every_corpus_keeps_to_the_protocol(kind):
    settings = CorpusSettings(kind=kind, rows=200, faulty=0.5, seed=3)
    found = list(pairs(settings))
    assert len(found) == 200 and found == list(pairs(settings))
    assert all(prompt.endswith("\n") and prompt.strip() and completion.strip() for prompt, completion in found)
    sets = load(CORPORA, kind).prompt_sets()
    assert set(sets) == {"train", "heldout"}
    ids = [row["id"] for rows in sets.values() for row in rows]
    assert len(ids) == len(set(ids)) and all(row["prompt"].endswith("\n") for rows in sets.values() for row in rows)
