"""Corpus `theorems`: a small theorem in Coq, such as `Theorem t : forall n : nat, n + 3 = 3 + n.`, becomes its proof.

Faulty completions are of every class that the proof gates tell apart and that people write: a syntax error, a wrong type or name, a
step that fails or goals that are left, and a proof that does not end (cut off, given up, or prose instead).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from stages.contracts.pretrain_card import CorpusSettings
from stages.train.corpus import split

NUMBERS = "nmxyk"
PROPOSITIONS = "pqrst"
FAULTS = {"syntax": 4, "type": 5, "tactic": 6, "unfinished": 4}
"""Class of fault -> weight."""
PROSE = ("This is obvious.", "By induction on n.", "We have this by definition.", "Trivial, as one can see.")


@dataclass(frozen=True)
class Problem:
    """A theorem with a proof, step by step."""

    claim: str
    steps: tuple[str, ...]
    """Tactics, without their full stops."""

    @property
    def statement(self) -> str:
        return f"Theorem t : {self.claim}."

    @property
    def prompt(self) -> str:
        return self.statement + "\n"

    @property
    def answer(self) -> str:
        return proof(self.steps)

    def row(self, name: str) -> dict[str, Any]:
        """The problem as a row of a prompt set."""
        return {"id": name, "prompt": self.prompt, "statement": self.statement, "answer": self.answer}


def proof(steps: tuple[str, ...] | list[str]) -> str:
    """The whole answer."""
    return " ".join(["Proof.", *(f"{step}." for step in steps), "Qed."])


def _sum(rng: random.Random) -> Problem:
    a, b = rng.randint(0, 9), rng.randint(0, 9)
    return Problem(f"{a} + {b} = {a + b}", ("reflexivity",))


def _witness(rng: random.Random) -> Problem:
    n, a, b = rng.choice(NUMBERS), rng.randint(0, 9), rng.randint(0, 9)
    return Problem(f"exists {n}, {n} + {a} = {a + b}", (f"exists {b}", "reflexivity"))


def _computed(rng: random.Random) -> Problem:
    n, a = rng.choice(NUMBERS), rng.randint(1, 9)
    left, right = rng.choice([(f"{a} + {n}", f"S ({a - 1} + {n})"), (f"0 + {n} + {a}", f"{n} + {a}"), (f"0 * {n} + {a}", f"{a}")])
    return Problem(f"forall {n} : nat, {left} = {right}", (f"intros {n}", "reflexivity"))


def _by_induction(rng: random.Random) -> Problem:
    n, a = rng.choice(NUMBERS), rng.randint(1, 9)
    claim = rng.choice([f"{n} + {a} = {a} + {n}", f"{n} + 0 = {n}", f"{n} + {a} = S ({n} + {a - 1})", f"{n} * 1 = {n}"])
    return Problem(f"forall {n} : nat, {claim}", (f"induction {n}", "reflexivity", "simpl", f"rewrite IH{n}", "reflexivity"))


def _equal(rng: random.Random) -> Problem:
    x, y = rng.sample(NUMBERS, 2)
    a = rng.randint(1, 9)
    claim = rng.choice([f"{y} = {x}", f"S {x} = S {y}", f"{x} + {a} = {y} + {a}", f"{a} + {y} = {a} + {x}"])
    return Problem(f"forall {x} {y} : nat, {x} = {y} -> {claim}", (f"intros {x} {y} e", "rewrite e", "reflexivity"))


def _logic(rng: random.Random) -> Problem:
    p, q = rng.sample(PROPOSITIONS, 2)
    claim, steps = rng.choice(
        [
            (f"{p} -> {q} -> {p}", ("a b", "exact a")),
            (f"{p} -> {q} -> {q}", ("a b", "exact b")),
            (f"{p} /\\ {q} -> {p}", ("[a b]", "exact a")),
            (f"{p} /\\ {q} -> {q} /\\ {p}", ("[a b]", "split", "exact b", "exact a")),
            (f"{p} -> {p} \\/ {q}", ("a", "left", "exact a")),
            (f"{q} -> {p} \\/ {q}", ("a", "right", "exact a")),
            (f"{p} \\/ {q} -> {q} \\/ {p}", ("[a|a]", "right", "exact a", "left", "exact a")),
            (f"{p} -> ({p} -> {q}) -> {q}", ("a f", "apply f", "exact a")),
        ]
    )
    return Problem(f"forall {p} {q} : Prop, {claim}", (f"intros {p} {q} {steps[0]}", *steps[1:]))


FAMILIES: tuple[Callable[[random.Random], Problem], ...] = (_sum, _witness, _computed, _by_induction, _equal, _logic)


def problems(seed: int) -> Iterator[Problem]:
    """An endless stream of problems, with repeats."""
    rng = random.Random(seed)
    while True:
        yield rng.choice(FAMILIES)(rng)


def pairs(settings: CorpusSettings) -> Iterator[tuple[str, str]]:
    """(prompt, completion) pairs of a corpus; a declared share of the completions carries a fault."""
    for found, _, text in labelled(settings):
        yield found.prompt, text


def labelled(settings: CorpusSettings) -> Iterator[tuple[Problem, str, str]]:
    """(problem, class of its fault or `right`, completion)."""
    rng = random.Random(settings.seed + 1)
    for found in itertools.islice(problems(settings.seed), settings.rows):
        if rng.random() < settings.faulty:
            yield (found, *with_fault(found, rng))
        else:
            yield found, "right", found.answer


def with_fault(problem: Problem, rng: random.Random) -> tuple[str, str]:
    """(class of the fault, a faulty completion)."""
    kind = rng.choices(list(FAULTS), weights=list(FAULTS.values()))[0]
    steps = list(problem.steps)
    place = rng.randrange(len(steps))
    if kind == "syntax":
        steps[place] += rng.choice([")", ",", " ;", " ("])
        return kind, proof(steps)
    if kind == "type":
        last = rng.choice(["exact I", "apply same", "exact (S true)", "rewrite plus_zero", "exact h"])
        return kind, proof([*steps[:-1], last])
    if kind == "tactic":
        return kind, proof(_failing(steps, rng))
    cut = ["Proof.", *(f"{step}." for step in steps[: place + 1])]
    return kind, rng.choice([" ".join(cut), " ".join([*cut, "Admitted."]), rng.choice(PROSE)])


def _failing(steps: list[str], rng: random.Random) -> list[str]:
    """Too few steps, a step too many, or one that does not fit."""
    how = rng.choice(["drop", "again", "other"])
    if how == "drop":
        return steps[:-1]
    if how == "again":
        return [*steps, rng.choice(["reflexivity", "simpl", "split"])]
    return [*steps[:-1], rng.choice(["left", "discriminate", "contradiction"])]


def prompt_sets(train_rows: int = 240, heldout_rows: int = 64) -> dict[str, list[dict[str, Any]]]:
    """The two prompt sets. No prompt occurs twice, in one of them or across both."""
    example = Problem("forall n : nat, n + 0 = n", ("induction n", "reflexivity", "simpl", "rewrite IHn", "reflexivity"))
    return split(example, problems(seed=7000), train_rows, heldout_rows)
