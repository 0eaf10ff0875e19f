"""The OCaml corpus, held against the real compiler: each class of fault is what it says, and every gate of seed 2 has both sides."""

import os
import shutil
from collections import Counter
from itertools import islice

import pytest

from stages.contracts.plugin import Answer
from stages.contracts.pretrain_card import CorpusSettings
from stages.contracts.reward import Gate, Reward
from stages.train.corpora.ocaml import FAULTS, composed
from stages.train.corpus import labelled, problems
from stages.train.rewards.compose import compose

if shutil.which("ocamlc") is None and os.environ.get("CI") != "true":
    pytest.skip("OCaml is not installed (apt-get install ocaml-nox)", allow_module_level=True)

SEED_2 = Reward(
    name="syntax-aware",
    combine="weighted",
    gates=(
        Gate(name="structure", kind="ocaml_structure", settings={"min_code_lines": 8}, weight=0.05),
        Gate(name="types", kind="ocaml_types", settings={}, weight=0.20),
        Gate(name="compile", kind="ocaml_compile", settings={}, weight=0.10, needs="types"),
        Gate(name="tests", kind="ocaml_tests", settings={}, weight=0.65, needs="compile"),
    ),
)
GATES = ("structure", "types", "compile", "tests")


@pytest.fixture(scope="module")
def judged():
    """(class of fault, by gate (status, score) or None, reward) of each completion of a small corpus."""
    completions = list(labelled(CorpusSettings(kind="ocaml", rows=240, faulty=0.6, seed=5)))
    scored = compose(SEED_2).score([Answer(text, problem.row) for problem, _, text in completions])
    judged_rows = []
    for place, (_, fault, _) in enumerate(completions):
        by_gate = {gate: scored.judgements[gate][place] for gate in GATES}
        seen = {gate: (judgement.status, judgement.score) if judgement else None for gate, judgement in by_gate.items()}
        judged_rows.append((fault, seen, scored.rewards[place]))
    return judged_rows


def test_a_problem_by_hand():
    row = composed("even", 1, "square", 1, "sum").row
    assert row["prompt"] == "keep even, square, sum\n"
    assert "assert (f [] = 0);" in row["tests"] and "assert (f [4; -2; 7; 8] = 84);" in row["tests"]
    row = composed("above {k}", 3, "subtract {k}", 5, "smallest").row
    assert "assert (f [4; -2; 7; 8] = (-1));" in row["tests"] and "assert (f [] = max_int);" in row["tests"]


def test_right_answers_earn_everything():
    rows = [problem.row for problem in islice(problems("ocaml", seed=3), 40)]
    assert compose(SEED_2).score([Answer(row["answer"], row) for row in rows]).rewards == [1.0] * 40


def test_every_class_of_fault_is_what_it_says(judged):
    seen = Counter()
    for fault, by_gate, reward in judged:
        seen[fault] += 1
        types, tests = by_gate["types"], by_gate["tests"]
        if fault == "right":
            assert reward == 1.0
        elif fault == "value":
            assert types == ("pass", 1.0) and tests is not None
        elif fault == "type":
            assert types[0] == "fail" and types[1] in (0.75, 0.5, 0.25) and tests is None
        elif fault == "open":
            assert types == ("pass", 1.0) and by_gate["compile"] == ("fail", 0.0) and tests is None
        elif fault == "syntax":
            assert types == ("fail", 0.0) and by_gate["structure"] == ("pass", 1.0)
        else:
            assert by_gate["structure"] == ("fail", 0.0)
        assert fault == "right" or reward < 1.0 or fault == "value"
    assert set(seen) == {"right", *FAULTS} and min(seen.values()) >= 5, seen


def test_a_wrong_value_is_mostly_wrong(judged):
    """Some tasks have two answers (`times 1` is nothing), but few."""
    scores = [by_gate["tests"][1] for fault, by_gate, _ in judged if fault == "value"]
    assert sum(score == 1.0 for score in scores) <= 0.1 * len(scores)
    assert len(set(scores)) >= 4, "partial credit has grades"


def test_every_gate_has_both_sides(judged):
    for gate in GATES:
        statuses = Counter(by_gate[gate][0] for _, by_gate, _ in judged if by_gate[gate])
        assert set(statuses) == {"pass", "fail"} and min(statuses.values()) >= 5, (gate, statuses)
