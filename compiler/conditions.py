"""When a penalty applies: `truncated and not structure.end_marker`, read to data. A closed grammar, and nothing is ever run.

either := both ("or" both)*        both := one ("and" one)*        one := "not" one | "(" either ")" | word
word := "truncated" | "empty" | <gate>.pass | <gate>.fail | <gate>.not_reached | <gate>.<mark of its kind>
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import product

from compiler.diagnostics import listed, nearest, sentence
from stages.contracts.plugin import marks
from stages.contracts.reward_card import AllCard, AnyCard, ConditionCard, MarkCard, SignalCard, StatusCard

SIGNALS = ("truncated", "empty")
STATUSES = ("pass", "fail", "not_reached")
MAX_CHARS = 500
MAX_DEPTH = 20
MAX_CASES = 1_000
EXAMPLE = "truncated and not tests.pass"

_TOKEN = re.compile(r"\s*([()]|[A-Za-z0-9_.\-]+|\S)")


class Unreadable(Exception):
    """What is wrong with the text, and the characters that it is about."""

    def __init__(self, code: str, what: str, why: str, fix: str, start: int, length: int) -> None:
        super().__init__(what)
        self.code, self.what, self.why, self.fix, self.start, self.length = code, what, why, fix, start, length


def condition(text: str, kinds: Mapping[str, str]) -> ConditionCard:
    """The condition that a text says. `kinds`: gate -> kind. Raises Unreadable E350, or E351 for a word that means nothing here."""
    return _Reader(text, kinds).read()


class _Reader:
    def __init__(self, text: str, kinds: Mapping[str, str]) -> None:
        if len(text) > MAX_CHARS:
            raise _unreadable(f"a condition of more than {MAX_CHARS} characters", 0, 1)
        self.text, self.kinds = text, kinds
        self.tokens = [(found[1], found.start(1)) for found in _TOKEN.finditer(text)]
        self.at = 0

    def read(self) -> ConditionCard:
        found = self._either(True, 0)
        if self.at < len(self.tokens):
            token, start = self.tokens[self.at]
            raise _unreadable(f"`{sentence(token)}` cannot follow here", start, len(token))
        return found

    def _either(self, holds: bool, depth: int) -> ConditionCard:
        return self._joined("or", holds, depth)

    def _joined(self, word: str, holds: bool, depth: int) -> ConditionCard:
        """Parts between `or` or between `and`. A negation turns the one into the other."""
        parts = [self._part(word, holds, depth)]
        while self._next() == word:
            self.at += 1
            parts.append(self._part(word, holds, depth))
        if len(parts) == 1:
            return parts[0]
        return AllCard(all=tuple(parts)) if (word == "and") == holds else AnyCard(any=tuple(parts))

    def _part(self, word: str, holds: bool, depth: int) -> ConditionCard:
        return self._joined("and", holds, depth) if word == "or" else self._one(holds, depth)

    def _one(self, holds: bool, depth: int) -> ConditionCard:
        token = self._next()
        start = self.tokens[self.at][1] if token is not None else len(self.text)
        if depth > MAX_DEPTH:
            raise _unreadable(f"nested more than {MAX_DEPTH} deep", start, 1)
        if token is None:
            raise _unreadable("the condition ends too early", max(0, start - 1), 1)
        self.at += 1
        if token == "not":
            return self._one(not holds, depth + 1)
        if token == "(":
            found = self._either(holds, depth + 1)
            if self._next() != ")":
                raise _unreadable("this bracket is never closed", start, 1)
            self.at += 1
            return found
        if token in ("and", "or", ")") or not re.fullmatch(r"[A-Za-z0-9_.\-]+", token):
            raise _unreadable(f"`{sentence(token)}` cannot stand here", start, len(token))
        return self._word(token, start, holds)

    def _next(self) -> str | None:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else None

    def _word(self, word: str, start: int, holds: bool) -> ConditionCard:
        gate, dot, seen = word.rpartition(".")
        if not dot and word in SIGNALS:
            return SignalCard.model_validate({"signal": word, "holds": holds})
        if gate in self.kinds and seen in STATUSES:
            return StatusCard.model_validate({"gate": gate, "status": seen, "holds": holds})
        if gate in self.kinds and seen in marks(self.kinds[gate]):
            return MarkCard(gate=gate, mark=seen, holds=holds)
        known = [*SIGNALS, *(f"{name}.{said}" for name, kind in self.kinds.items() for said in (*STATUSES, *marks(kind)))]
        meant = nearest(word, known)
        raise Unreadable(
            "E351",
            f"`{word[:80]}` is nothing that can be asked here" + (f", did you mean `{meant}`?" if meant else ""),
            f"known: {listed(known)}",
            f"write `{meant}`" if meant else f"write a condition such as `{EXAMPLE}`",
            start,
            len(word),
        )


def outcomes(of: ConditionCard) -> set[bool]:
    """What the condition can be, over everything that gates and completions can say. Both, when there are too many cases to try."""
    signals, asked = _asked(of)
    gates = sorted(asked)
    ways = [[(status, seen) for status in STATUSES for seen in _seen(status, sorted(asked[gate]))] for gate in gates]
    count = 2 ** len(signals)
    for way in ways:
        count *= len(way)
    if count > MAX_CASES:
        return {True, False}
    found: set[bool] = set()
    for values in product([False, True], repeat=len(signals)):
        for said in product(*ways):
            found.add(_is(of, dict(zip(sorted(signals), values, strict=True)), dict(zip(gates, said, strict=True))))
    return found


def _seen(status: str, names: list[str]) -> list[frozenset[str]]:
    """Sets of marks that a gate may have seen: none when it was not reached."""
    if status == "not_reached":
        return [frozenset()]
    return [frozenset(name for name, on in zip(names, bits, strict=True) if on) for bits in product([False, True], repeat=len(names))]


def _asked(of: ConditionCard) -> tuple[set[str], dict[str, set[str]]]:
    """Signals, and marks by gate."""
    signals: set[str] = set()
    gates: dict[str, set[str]] = {}
    waiting = [of]
    while waiting:
        match waiting.pop():
            case AllCard(all=parts) | AnyCard(any=parts):
                waiting += parts
            case SignalCard(signal=signal):
                signals.add(signal)
            case StatusCard(gate=gate):
                gates.setdefault(gate, set())
            case MarkCard(gate=gate, mark=mark):
                gates.setdefault(gate, set()).add(mark)
    return signals, gates


def asked_gates(of: ConditionCard) -> set[str]:
    """Gates that a condition asks for."""
    return set(_asked(of)[1])


def _is(of: ConditionCard, signals: Mapping[str, bool], said: Mapping[str, tuple[str, frozenset[str]]]) -> bool:
    match of:
        case AllCard():
            return all(_is(part, signals, said) for part in of.all)
        case AnyCard():
            return any(_is(part, signals, said) for part in of.any)
        case SignalCard():
            return signals[of.signal] == of.holds
        case StatusCard():
            return (said[of.gate][0] == of.status) == of.holds
        case MarkCard():
            return (of.mark in said[of.gate][1]) == of.holds


def _unreadable(what: str, start: int, length: int) -> Unreadable:
    return Unreadable(
        "E350",
        what,
        "a condition is words joined by `and`, `or`, `not` and brackets, so that it can be checked and never runs anything",
        f"write a condition such as `{EXAMPLE}`",
        start,
        length,
    )
