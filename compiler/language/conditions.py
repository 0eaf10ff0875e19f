"""When a penalty applies: `truncated and not structure.end_marker`, read to data by the grammar of logic.py.

word := "truncated" | "empty" | <gate>.pass | <gate>.fail | <gate>.not_reached | <gate>.<mark of its kind>
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import product

from compiler.language.logic import Reader, Unreadable
from compiler.problems import listed, nearest, sentence
from stages.contracts.plugin import marks
from stages.contracts.reward_card import AllCard, AnyCard, ConditionCard, MarkCard, SignalCard, StatusCard

SIGNALS = ("truncated", "empty")
STATUSES = ("pass", "fail", "not_reached")
MAX_CASES = 1_000
EXAMPLE = "truncated and not tests.pass"


def condition(text: str, kinds: Mapping[str, str]) -> ConditionCard:
    """The condition that a text says. `kinds`: gate -> kind. Raises Unreadable E350, or E351 for a word that means nothing here."""
    return _Reader(text, kinds).read()


class _Reader(Reader[ConditionCard]):
    TOKEN = re.compile(r"\s*([()]|[A-Za-z0-9_.\-]+|\S)")
    CODE = "E350"
    WHY = "a condition is words joined by `and`, `or`, `not` and brackets, so that it can be checked and never runs anything"
    EXAMPLE = EXAMPLE

    def __init__(self, text: str, kinds: Mapping[str, str]) -> None:
        super().__init__(text)
        self.kinds = kinds

    def joined(self, parts: list[ConditionCard], all_of_them: bool) -> ConditionCard:
        return AllCard(all=tuple(parts)) if all_of_them else AnyCard(any=tuple(parts))

    def word(self, token: str, start: int, holds: bool) -> ConditionCard:
        if not re.fullmatch(r"[A-Za-z0-9_.\-]+", token):
            raise self.unreadable(f"`{sentence(token)}` cannot stand here", start, len(token))
        return self._word(token, start, holds)

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
