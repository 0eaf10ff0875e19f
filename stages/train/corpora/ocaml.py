"""Small OCaml programs: a phrase such as `keep even, square, sum` becomes a function `f` over a list, in five items and ten lines.

Faulty completions are of every class that the OCaml gates tell apart: a wrong value, one to three items that do not type check, items
that type check and no program that compiles, a syntax error, no end (cut off, no end marker, or lines repeated for ever), and too few
lines of code.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from stages.train.corpus import Shipped

END = "(* END *)"
LISTS = ((), (1, 2, 3), (4, -2, 7, 8), (-5, 0, 6), (9, 9, -1, 2), (-8, -3))
"""The tests of a row are the values of its function of these."""
FAULTS = {"value": 8, "type": 5, "open": 2, "syntax": 3, "unfinished": 3, "short": 3}
"""Class of fault -> weight."""


@dataclass(frozen=True)
class Part:
    """One of the three parts of a task: its words, its expression in OCaml, its meaning. `{k}` is a number from 1 to 9."""

    words: str
    code: str
    means: Callable[..., Any]


KEEP = (
    Part("even", "x mod 2 = 0", lambda x, k: x % 2 == 0),
    Part("odd", "x mod 2 <> 0", lambda x, k: x % 2 != 0),
    Part("above {k}", "x > {k}", lambda x, k: x > k),
    Part("below {k}", "x < {k}", lambda x, k: x < k),
)
CHANGE = (
    Part("double", "x * 2", lambda x, k: x * 2),
    Part("square", "x * x", lambda x, k: x * x),
    Part("negate", "0 - x", lambda x, k: -x),
    Part("add {k}", "x + {k}", lambda x, k: x + k),
    Part("subtract {k}", "x - {k}", lambda x, k: x - k),
    Part("times {k}", "x * {k}", lambda x, k: x * k),
)
JOIN = (
    Part("sum", "a + y", lambda a, y: a + y),
    Part("product", "a * y", lambda a, y: a * y),
    Part("largest", "max a y", max),
    Part("smallest", "min a y", min),
)
START = {"sum": "0", "product": "1", "largest": "min_int", "smallest": "max_int"}
NUMBERS = {"0": 0, "1": 1, "min_int": -(2**62), "max_int": 2**62 - 1}
"""OCaml's integers have 63 bits."""
ILL_TYPED = {
    "keep": ('x = "{k}"', "x +. 1.0 > 0.0 && x", "x mod true = 0", "List.mem x"),
    "change": ('x ^ "{k}"', "x + true", "y * 2", "x +. {k}"),
    "join": ("a :: y", 'a + y ^ "1"', "a + not y", "max a y z"),
    "f": ("go xs 0", 'go "0" xs', "go 0 x", "run 0 xs"),
}
"""Bodies whose item does not type check, whatever the rest of the program holds."""


@dataclass(frozen=True)
class Problem:
    """A task: what is kept with its number, what is changed with its number, what is joined."""

    keep: Part
    above: int
    change: Part
    by: int
    join: Part

    @property
    def prompt(self) -> str:
        return f"keep {self.keep.words.format(k=self.above)}, {self.change.words.format(k=self.by)}, {self.join.words}\n"

    @property
    def bodies(self) -> dict[str, str]:
        """Name of an item -> its expression."""
        return {
            "keep": self.keep.code.format(k=self.above),
            "change": self.change.code.format(k=self.by),
            "join": self.join.code,
            "f": f"go {START[self.join.words]} xs",
        }

    @property
    def answer(self) -> str:
        return program(self.bodies)

    def value(self, numbers: tuple[int, ...]) -> int:
        """What the function gives for a list."""
        result = NUMBERS[START[self.join.words]]
        for x in numbers:
            if self.keep.means(x, self.above):
                result = self.join.means(result, self.change.means(x, self.by))
        return result

    def row(self, name: str) -> dict[str, Any]:
        """The problem as a row of a prompt set."""
        cases = "\n".join(f"  assert (f {ocaml_list(numbers)} = {ocaml_number(self.value(numbers))});" for numbers in LISTS)
        return {"id": name, "prompt": self.prompt, "answer": self.answer, "tests": f"let () =\n{cases}\n"}


def ocaml_list(numbers: tuple[int, ...]) -> str:
    return f"[{'; '.join(map(str, numbers))}]"


def ocaml_number(value: int) -> str:
    """A number as OCaml text; the ends of the range by their names."""
    ends = {number: name for name, number in NUMBERS.items() if name.endswith("_int")}
    return ends.get(value) or (f"({value})" if value < 0 else str(value))


def program(bodies: dict[str, str]) -> str:
    """The whole answer."""
    return (
        f"let keep x = {bodies['keep']}\n"
        f"let change x = {bodies['change']}\n"
        f"let join a y = {bodies['join']}\n"
        "let rec go a xs =\n"
        "  match xs with\n"
        "  | [] -> a\n"
        "  | x :: t when keep x ->\n"
        "    go (join a (change x)) t\n"
        "  | _ :: t -> go a t\n"
        f"let f xs = {bodies['f']}\n"
        f"{END}"
    )


def problems(seed: int) -> Iterator[Problem]:
    """An endless stream of problems, with repeats."""
    rng = random.Random(seed)
    while True:
        yield Problem(rng.choice(KEEP), rng.randint(1, 9), rng.choice(CHANGE), rng.randint(1, 9), rng.choice(JOIN))


def with_fault(problem: Problem, rng: random.Random) -> tuple[str, str]:
    """(class of the fault, one of FAULTS; a completion that has it)."""
    fault = rng.choices(list(FAULTS), list(FAULTS.values()))[0]
    return fault, _faulty(problem, fault, rng)


def _faulty(problem: Problem, fault: str, rng: random.Random) -> str:
    if fault == "value":
        return program(problem.bodies | _other(problem, rng))
    if fault == "type":
        spoiled = rng.sample(list(ILL_TYPED), rng.choice([1, 1, 2, 3]))
        return program(problem.bodies | {name: rng.choice(ILL_TYPED[name]).format(k=rng.randint(1, 9)) for name in spoiled})
    if fault == "syntax":
        wrong, right = rng.choice(
            [(" t\n  | _", " t)\n  | _"), ("match xs with", "match xs"), ("let f xs =", "let f xs"), ("(join a (", "(join a ")]
        )
        return problem.answer.replace(wrong, right)
    if fault == "open":  # the type of its elements is never fixed: every item type checks, the whole does not compile
        return "let seen = ref []\n" + problem.answer
    return _unfinished(problem.answer, rng) if fault == "unfinished" else _short(problem, rng)


def _other(problem: Problem, rng: random.Random) -> dict[str, str]:
    """One item of another meaning."""
    name = rng.choice(["keep", "change", "join", "f"])
    if name == "f":
        others = ["0", "go 5 xs", "List.length xs"]
    elif name == "join":
        others = [part.code for part in JOIN]
    else:
        others = [part.code.format(k=rng.randint(1, 9)) for part in (KEEP if name == "keep" else CHANGE)]
    return {name: rng.choice([other for other in others if other != problem.bodies[name]])}


def _unfinished(text: str, rng: random.Random) -> str:
    """Cut in the middle, without the end marker, or repeating a line far beyond any limit."""
    kind = rng.choice(["cut", "no marker", "no marker", "runaway"])
    lines = text.split("\n")
    if kind == "cut":
        return text[: rng.randint(len(text) // 3, len(text) - len(END))]
    if kind == "no marker":
        return "\n".join(lines[:-1])
    return "\n".join([*lines[:9], *[lines[8]] * 40])


def _short(problem: Problem, rng: random.Random) -> str:
    """Right in one line, or a constant: fewer lines of code than the structure asks for."""
    bodies = problem.bodies
    if rng.random() < 0.5:
        return f"let f xs = {START[problem.join.words]}\n{END}"
    fold = f"List.fold_left (fun a x -> if {bodies['keep']} then (let y = {bodies['change']} in {bodies['join']}) else a)"
    return f"let f xs =\n  {fold} {START[problem.join.words]} xs\n{END}"


SHIPPED = Shipped(Problem(KEEP[0], 1, CHANGE[1], 1, JOIN[0]), seed=5000, train=600, heldout=96)
