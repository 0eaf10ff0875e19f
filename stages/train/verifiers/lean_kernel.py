"""The kernel's word on a compiled proof, in a box in which no answer runs; loaded there from source text: standard library only.

Names, levels and expressions of the file that an answer's process left are made anew by Lean's own constructors. The kernel checks all
declarations that the proof rests on, over what header and goal alone were compiled to; then the goal itself, with the proof as its value.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from stages.train.verifiers.lean_file import AXIOM, CONSTRUCTOR, DEFINITION, INDUCTIVE, OPAQUE, RECURSOR, THEOREM, Compiled, Name, Refused
from stages.train.verifiers.lean_library import Library, box, field, kept, tag

GOAL = "Goal"
FOLDER = "/out"
_MOST_INDEX = 2**19
"""Lean's own note of an expression has 20 bits for an index."""
_Kinds = Mapping[int, tuple[int, slice]]
"""Tag -> number of fields, and which of them are of the same sort."""
_NONE = slice(0)
_LEVELS: _Kinds = {0: (0, _NONE), 1: (1, slice(1)), 2: (2, slice(2)), 3: (2, slice(2)), 4: (1, _NONE)}
_EXPRESSIONS: _Kinds = {
    0: (1, _NONE), 3: (1, _NONE), 4: (2, _NONE), 5: (2, slice(2)), 6: (3, slice(1, 3)), 7: (3, slice(1, 3)), 8: (4, slice(1, 4)),
    9: (1, _NONE), 10: (2, slice(1, 2)), 11: (3, slice(2, 3)),
}  # fmt: skip
"""Without the variables that only a proof at work has (1 and 2)."""
_CONSTANT = 4
_RESERVED = """
    Bool Bool.true Bool.false Char Char.ofNat List List.nil List.cons String String.mk String.ofList Quot Quot.mk Quot.lift Quot.ind
    Nat Nat.zero Nat.succ Nat.add Nat.sub Nat.mul Nat.div Nat.mod Nat.gcd Nat.beq Nat.ble Nat.land Nat.lor Nat.xor Nat.shiftLeft
    Nat.shiftRight Nat.pow Nat.log2 Lean.reduceBool Lean.reduceNat eagerReduce
"""
"""The kernel computes with these by name, whatever stands behind it; so only a header may declare them. Neither may an answer declare what
is named as a recursor, which the kernel would overwrite."""

_RUN = {("Lean", "reduceBool"), ("Lean", "reduceNat")}
"""For these some kernels run whatever machine code has the name of the argument; so no answer may use them."""


class Replay:
    """The declarations of a file, made anew over a trusted environment. Methods raise Refused, or whatever else an odd file leads to."""

    def __init__(self, library: Library, environment: int, file: Compiled) -> None:
        self._lean, self.environment, self._file = library, environment, file
        self._levels: dict[int, int] = {}
        self._expressions: dict[int, int] = {}
        self.parameters: dict[int, None] = {}
        """Names of level parameters, in the order in which they came up: equal for types that differ in these names alone."""

    def declare(self, wanted: Name) -> None:
        """Have the kernel check a constant and all that it rests on."""
        units: dict[Name, tuple[int, list[Name]]] = {}
        done, waiting = set[Name](), [wanted]
        while waiting:
            name = waiting[-1]
            if self._is_known(name):
                waiting.pop()
                continue
            main = self._main(name)
            if main in done:
                raise Refused(f"`{_words(name)}` is not what the kernel makes of `{_words(main)}`")
            is_opened = main in units
            if not is_opened:
                units[main] = (self._inductive if self._file.constant(main)[0] == INDUCTIVE else self._definition)(main)
            declaration, used = units[main]
            missing = [other for other in used if not self._is_known(other)]
            if missing and is_opened:
                raise Refused(f"`{_words(main)}` rests on itself")
            waiting += missing
            if not missing:
                self._add(declaration, f"the kernel refuses `{_words(main)}`")
                done.add(main)

    def prove(self, goal: Compiled, goal_name: Name, proof: Name, final: Name) -> None:
        """Have the kernel check the goal as a theorem whose value is the declared proof."""
        ours, theirs = Replay(self._lean, self.environment, goal), Replay(self._lean, self.environment, self._file)
        parameters, type_ = goal.constant(goal_name)[2][1:]
        theirs_of_type, their_type = self._file.constant(proof)[2][1:]
        theirs.expression(their_type)
        head = self._head(final, ours._names(parameters), ours.expression(type_))
        matched = dict(zip(theirs.parameters, ours.parameters, strict=False))
        levels = [
            self._lean.level[4](matched[name]) if name in matched else self._lean.level[0](box(0)) for name in self._names(theirs_of_type)
        ]
        value = self._lean.expression[_CONSTANT](self._lean.name(proof), self._lean.sequence(levels))
        self._add(self._theorem(final, head, value), "what was compiled does not prove the goal")

    def axioms(self, name: Name) -> set[str]:
        """All that a constant rests on."""
        axioms, seen, waiting = set[str](), set[int](), [self._lean.name(name)]
        while waiting:
            option = self._lean.find(self.environment, kept(waiting.pop()))
            if option & 1:
                raise Refused("rests on what is nowhere declared")
            if (constant := field(option, 0)) in seen:
                continue
            seen.add(constant)
            kind, value = tag(constant), field(constant, 0)
            head = field(value, 0)
            if kind == AXIOM:
                axioms.add(self._lean.words(field(head, 0)))
            waiting += self._lean.constants(field(head, 2))
            if kind in (DEFINITION, THEOREM, OPAQUE):
                waiting += self._lean.constants(field(value, 1))
            following = field(value, 4) if kind == INDUCTIVE else box(0)
            while not following & 1:
                waiting.append(field(following, 0))
                following = field(following, 1)
        return axioms

    def expression(self, pointer: int) -> int:
        """An expression of the file, as Lean makes it."""
        return self._fold(pointer, self._expressions, _EXPRESSIONS, self._expression)

    def _is_known(self, name: Name) -> bool:
        return not self._lean.find(self.environment, self._lean.name(name)) & 1

    def _add(self, declaration: int, otherwise: str) -> None:
        environment = self._lean.added(self.environment, declaration)
        if environment is None:
            raise Refused(otherwise)
        self.environment = environment

    def _main(self, name: Name) -> Name:
        """The constant that a constant is declared with: of an inductive type the first of its group."""
        kind, fields, _ = self._file.constant(name)
        if kind == CONSTRUCTOR:
            kind, fields, _ = self._file.constant(self._file.name(fields[1]))
        place = {INDUCTIVE: 3, RECURSOR: 1}.get(kind)
        return name if place is None else self._file.name(self._file.items(fields[place])[0])

    def _names(self, pointer: int) -> list[int]:
        return [self._lean.name(self._file.name(item)) for item in self._file.items(pointer)]

    def _head(self, name: Name, parameters: list[int], type_: int) -> int:
        if _words(name) in _RESERVED.split() or re.fullmatch(r"rec(_\d+)?", str(name[-1])):
            raise Refused(f"declares `{_words(name)}`, which is the kernel's")
        return self._lean.object(0, self._lean.name(name), self._lean.sequence(parameters), type_)

    def _theorem(self, name: Name, head: int, value: int) -> int:
        return self._lean.object(2, self._lean.object(0, head, value, self._lean.sequence([self._lean.name(name)])))

    def _definition(self, name: Name) -> tuple[int, list[Name]]:
        """A declaration with a value, and the constants that it uses. All are checked as safe and total."""
        kind, fields, (_, parameters, type_) = self._file.constant(name)
        if kind not in (DEFINITION, THEOREM, OPAQUE):
            raise Refused(f"declares `{_words(name)}` without a value")
        head, value = self._head(name, self._names(parameters), self.expression(type_)), self.expression(fields[1])
        itself = self._lean.sequence([self._lean.name(name)])
        if kind == THEOREM:
            declaration = self._theorem(name, head, value)
        elif kind == OPAQUE:
            declaration = self._lean.object(3, self._lean.object(0, head, value, itself, scalars=b"\0"))
        else:
            height = self._file.fields(fields[2])[0]
            hint = box(height) if height < 2 else self._lean.object(2, scalars=self._file.scalar(fields[2]))
            declaration = self._lean.object(1, self._lean.object(0, head, value, hint, itself, scalars=b"\1"))
        return declaration, self._used(self.expression(type_), value)

    def _inductive(self, main: Name) -> tuple[int, list[Name]]:
        """A group of inductive types, and the other constants that it uses. The kernel makes the recursors itself."""
        _, fields, (_, parameters, _) = self._file.constant(main)
        types, members, expressions = [], set[Name](), []
        for place in self._file.items(fields[3]):
            name = self._file.name(place)
            _, inner, (_, _, type_) = self._file.constant(name)
            constructors = []
            for each in map(self._file.name, self._file.items(inner[4])):
                expressions.append(self.expression(self._file.constant(each)[2][2]))
                constructors.append(self._lean.object(0, field(self._head(each, [], expressions[-1]), 0), expressions[-1]))
                members.add(each)
            expressions.append(self.expression(type_))
            types.append(
                self._lean.object(0, field(self._head(name, [], expressions[-1]), 0), expressions[-1], self._lean.sequence(constructors))
            )
            members.add(name)
        group = (self._lean.sequence(self._names(parameters)), box(self._small(fields[1])), self._lean.sequence(types))
        used = self._used(*expressions)
        return self._lean.object(6, *group, scalars=b"\0"), [name for name in used if name not in members]

    def _used(self, *expressions: int) -> list[Name]:
        pointers = dict.fromkeys(pointer for expression in expressions for pointer in self._lean.constants(expression))
        names = [self._lean.name_at[pointer] for pointer in pointers]
        if _RUN & set(names):
            raise Refused("has compiled code run in its proof")
        return names

    def _small(self, pointer: int) -> int:
        number = self._file.number(pointer)
        if number > _MOST_INDEX:
            raise Refused("what was compiled counts too far")
        return number

    def _fold(self, root: int, done: dict[int, int], kinds: _Kinds, make: Callable[[int, tuple[int, ...]], int]) -> int:
        """What an object becomes when its parts have become it: without recursion, once for each object."""
        opened, waiting = set[int](), [root]
        while waiting:
            pointer = waiting[-1]
            if pointer in done:
                waiting.pop()
                continue
            kind, fields = self._file.fields(pointer)
            if kind not in kinds or len(fields) != kinds[kind][0]:
                raise Refused("what was compiled holds what is no expression")
            missing = [part for part in fields[kinds[kind][1]] if part not in done]
            if missing and pointer in opened:
                raise Refused("what was compiled holds an expression within itself")
            opened.add(pointer)
            waiting += missing
            if not missing:
                done[pointer] = make(kind, fields)
        return done[root]

    def _level(self, kind: int, fields: tuple[int, ...]) -> int:
        if kind == 4:
            name = self._lean.name(self._file.name(fields[0]))
            self.parameters[name] = None
            return self._lean.level[4](name)
        return self._lean.level[kind](*[self._levels[part] for part in fields] or [box(0)])

    def _expression(self, kind: int, fields: tuple[int, ...]) -> int:
        made, lean, file = self._expressions, self._lean, self._file
        match kind:
            case 0:  # a bound variable
                parts = [box(self._small(fields[0]))]
            case 3:  # a sort
                parts = [self._fold(fields[0], self._levels, _LEVELS, self._level)]
            case 4:  # a constant
                levels = [self._fold(level, self._levels, _LEVELS, self._level) for level in file.items(fields[1])]
                parts = [lean.name(file.name(fields[0])), lean.sequence(levels)]
            case 5:  # a function applied
                parts = [made[fields[0]], made[fields[1]]]
            case 6 | 7 | 8:  # a function, a function type, a definition within; with a flag that the kernel does not read
                parts = [lean.name(file.name(fields[0])), *(made[part] for part in fields[1:]), 0]
            case 9:  # a literal
                is_text, (value,) = file.fields(fields[0])
                parts = [lean.object(1, lean.text(file.text(value))) if is_text else lean.object(0, lean.number(file.number(value)))]
            case 10:  # a note
                return made[fields[1]]
            case _:  # a field of a structure
                parts = [lean.name(file.name(fields[0])), box(self._small(fields[1])), made[fields[2]]]
        return lean.expression[kind](*parts)


def _words(name: Name) -> str:
    return ".".join(map(str, name))


_library: list[Library] = []


def prepare(path: str) -> None:
    """Load Lean once, for all processes that are forked."""
    sys.set_int_max_str_digits(0)
    _library.append(Library(path))


def run(answer: bytes, rest: bytes) -> bytes:
    """The `axioms` that a proof rests on, or why it is `refused`, or what is the `fault` of header, goal or this program, as JSON.

    `answer`: the file that was compiled with the answer; `rest`: names as a line of JSON, then the file that was compiled without it.
    """
    (library,) = _library
    line, _, trusted = rest.partition(b"\n")
    names = {key: (name,) for key, name in json.loads(line).items()}
    try:
        Path(FOLDER, f"{GOAL}.olean").write_bytes(trusted)
        environment, goal = library.imported(GOAL), Compiled(trusted)
        goal.constant(names["goal"])
    except Exception as error:
        return json.dumps({"fault": str(error)}).encode()
    try:
        replay = Replay(library, environment, Compiled(answer))
        replay.declare(names["proof"])
        replay.prove(goal, names["goal"], names["proof"], names["final"])
        return json.dumps({"axioms": sorted(replay.axioms(names["final"]))}).encode()
    except Refused as refused:
        reason = str(refused)[:400]
    except Exception as error:  # from here on, whatever goes wrong is the answer's
        reason = f"what was compiled cannot be read: {type(error).__name__}"
    return json.dumps({"refused": reason}).encode()
