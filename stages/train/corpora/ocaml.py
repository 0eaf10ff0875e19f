"""Corpus `ocaml`: a phrase such as `keep even, square, sum` becomes a function `f` over a list, in five items and ten lines.

Faulty completions are of every class that the OCaml gates tell apart: a wrong value, one to three items that do not type check, items
that type check and no program that compiles, a syntax error, no end (cut off, no end marker, or lines repeated for ever), and too few
lines of code. The texts stand in ocaml.yaml.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stages.contracts.files import load_table
from stages.train.corpus import Problem, Shipped

TEXTS: dict[str, Any] = load_table(Path(__file__).with_suffix(".yaml"))
FAULTS: dict[str, int] = TEXTS["faults"]
"""Class of fault -> weight."""
LISTS = ((), (1, 2, 3), (4, -2, 7, 8), (-5, 0, 6), (9, 9, -1, 2), (-8, -3))
"""The tests of a row are the values of its function of these."""
NUMBERS = {"0": 0, "1": 1, "min_int": -(2**62), "max_int": 2**62 - 1}
"""OCaml's integers have 63 bits."""
_MEANINGS: dict[str, Callable[[int, int], Any]] = {
    "even": lambda x, k: x % 2 == 0,
    "odd": lambda x, k: x % 2 != 0,
    "above {k}": lambda x, k: x > k,
    "below {k}": lambda x, k: x < k,
    "double": lambda x, k: x * 2,
    "square": lambda x, k: x * x,
    "negate": lambda x, k: -x,
    "add {k}": lambda x, k: x + k,
    "subtract {k}": lambda x, k: x - k,
    "times {k}": lambda x, k: x * k,
    "sum": lambda a, y: a + y,
    "product": lambda a, y: a * y,
    "largest": max,
    "smallest": min,
}


def composed(keep: str, above: int, change: str, by: int, join: str) -> Problem:
    """The task to keep what is `keep` with its number, to change it with its number, and to join."""
    code, start = TEXTS["code"], TEXTS["start"][join]
    bodies = {"keep": code["keep"][keep].format(k=above), "change": code["change"][change].format(k=by), "join": code["join"][join]}
    bodies["f"] = f"go {start} xs"
    cases = []
    for numbers in LISTS:
        value = NUMBERS[start]
        for x in numbers:
            if _MEANINGS[keep](x, above):
                value = _MEANINGS[join](value, _MEANINGS[change](x, by))
        cases.append(f"  assert (f [{'; '.join(map(str, numbers))}] = {_number(value)});\n")
    prompt = TEXTS["prompt"].format(keep=keep.format(k=above), change=change.format(k=by), join=join)
    tests = f"let () =\n{''.join(cases)}"
    return Problem({"prompt": prompt, "answer": TEXTS["program"].format(**bodies), "tests": tests}, {**bodies, "start": start})


def _number(value: int) -> str:
    """A number as OCaml text; the ends of the range by their names."""
    ends = {number: name for name, number in NUMBERS.items() if name.endswith("_int")}
    return ends.get(value) or (f"({value})" if value < 0 else str(value))


def problem(rng: random.Random) -> Problem:
    """Any three parts."""
    keep, change, join = (list(TEXTS["code"][part]) for part in ("keep", "change", "join"))
    return composed(rng.choice(keep), rng.randint(1, 9), rng.choice(change), rng.randint(1, 9), rng.choice(join))


def with_fault(problem: Problem, rng: random.Random) -> tuple[str, str]:
    """(class of the fault, one of FAULTS; a completion that has it)."""
    fault = rng.choices(list(FAULTS), list(FAULTS.values()))[0]
    return fault, _faulty(problem, fault, rng)


def _faulty(problem: Problem, fault: str, rng: random.Random) -> str:
    bodies, answer, program = problem.parts, str(problem.row["answer"]), str(TEXTS["program"])
    if fault == "value":
        return program.format(**bodies | _other_item(bodies, rng))
    if fault == "type":
        spoiled = rng.sample(list(TEXTS["ill_typed"]), rng.choice([1, 1, 2, 3]))
        ill_typed = {name: rng.choice(TEXTS["ill_typed"][name]).format(k=rng.randint(1, 9)) for name in spoiled}
        return program.format(**bodies | ill_typed)
    if fault == "syntax":
        return answer.replace(*rng.choice(TEXTS["syntax"]))
    if fault == "open":
        return f"{TEXTS['open']}{answer}"
    if fault == "short":  # right in one line, or a constant
        return str(TEXTS["constant" if rng.random() < 0.5 else "fold"]).format(**bodies)
    kind, lines = rng.choice(["cut", "no marker", "no marker", "runaway"]), answer.split("\n")
    if kind == "cut":
        return answer[: rng.randint(len(answer) // 3, len(answer) - len(lines[-1]))]
    return "\n".join(lines[:-1] if kind == "no marker" else [*lines[:9], *[lines[8]] * 40])


def _other_item(bodies: dict[str, str], rng: random.Random) -> dict[str, str]:
    """One item of another meaning."""
    name = rng.choice(["keep", "change", "join", "f"])
    others = TEXTS["other_f"] if name == "f" else list(TEXTS["code"][name].values())
    if name in ("keep", "change"):
        others = [code.format(k=rng.randint(1, 9)) for code in others]
    return {name: rng.choice([other for other in others if other != bodies[name]])}


SHIPPED = Shipped(composed("even", 1, "square", 1, "sum"), seed=5000, train=600, heldout=96)
