"""Texts of conditions, read to the data of stages/contracts/expressions.py. A text never runs.

either := both ("or" both)*        both := one ("and" one)*        one := "not" one | "(" either ")" | leaf
Of penalties and scores:   leaf := "truncated" | "empty" | <gate>.pass | <gate>.fail | <gate>.not_reached | <gate>.<mark of its kind>
Of stop rules:             leaf := quantity ("<" | "<=" | ">" | ">=" | "==" | "!=") number ["%"]
                           quantity := metric | "slope(" metric ["," length] ")"        length := `60 steps` or `20%` of the run
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import cast, get_args

from compiler.document.node import Document, Node
from compiler.problems import problem, sentence, unknown
from stages.contracts.diagnostic import Diagnostic, Place
from stages.contracts.expressions import OPPOSITE, AllOf, AnyOf, Comparison, Expression, Mark, Sign, Signal, Status
from stages.contracts.plugin import marks
from stages.contracts.stops import Length, length

MAX_CHARS = 500
MAX_DEPTH = 20
SIGNALS = ("truncated", "empty")
STATUSES = ("pass", "fail", "not_reached")
SIGNS = get_args(Sign)
FEWEST = 3
"""Steps of a slope: through two points every line fits."""
SLOPE_SHARE = 0.2
"""Window of a slope that names none, as a share of the run."""


class Unreadable(Exception):
    """What is wrong with a text, and the characters that it is about."""

    def __init__(self, problem: Diagnostic, start: int, length: int) -> None:
        super().__init__(problem.what)
        self.problem, self.start, self.length = problem, start, length

    def at(self, node: Node, document: Document) -> Diagnostic:
        """The problem at its characters in the file."""
        return replace(self.problem, place=characters(node, self.start, self.length, document))


def characters(node: Node, start: int, length: int, document: Document) -> Place:
    """The place of some characters of a text; of the whole text if it is in another file or not written as it is meant."""
    place, lines = node.place, document.lines if node.place.file == document.file else []
    line = lines[place.line - 1] if place.line <= len(lines) else ""
    column = line.find(node.value, place.column - 1)
    return Place(place.file, place.line, column + start + 1, max(1, length)) if column >= 0 else place


@dataclass(frozen=True)
class Mention:
    """A comparison of a text: the metric's first character, and the first and the last one of the whole comparison."""

    leaf: Comparison
    start: int
    begins: int
    ends: int


@dataclass(frozen=True)
class StopCondition:
    """The condition of a stop rule, with the places of its comparisons."""

    when: Expression
    mentions: tuple[Mention, ...]


def reward_condition(text: str, kinds: Mapping[str, str]) -> Expression:
    """The condition of a penalty or a score. `kinds`: gate -> kind. Raises Unreadable E350, or E351 for a word that means nothing."""
    return _RewardReader(text, kinds).read()


@lru_cache(4096)
def stop_condition(text: str, target_steps: int) -> StopCondition:
    """The condition of a rule, for a run of this many steps. Metrics are not looked up here. Raises Unreadable E360."""
    reader = _StopReader(text, target_steps)
    return StopCondition(reader.read(), tuple(reader.mentions))


def always(leaf: Comparison) -> bool | None:
    """For a comparison of a share (0..1): True if it always holds, False if it never does, None if it depends."""
    bound = leaf.value
    values = [0.0, 1.0, *([bound, bound / 2, (1 + bound) / 2] if 0 <= bound <= 1 else [])]
    answers = {leaf.holds_at(value) for value in values}
    return answers.pop() if len(answers) == 1 else None


class _Reader(ABC):
    """Reads one text by the shared grammar. A negation is pushed down to the leaves."""

    TOKEN: re.Pattern[str]
    """White space, then one token as the first group."""
    CODE: str

    def __init__(self, text: str) -> None:
        if len(text) > MAX_CHARS:
            raise self.unreadable(f"a condition of more than {MAX_CHARS} characters", 0, 1)
        self.text = text
        self.tokens = [(match[1], match.start(1)) for match in self.TOKEN.finditer(text)]
        self.at = 0

    @abstractmethod
    def leaf(self, token: str, start: int, holds: bool) -> Expression:
        """The leaf that begins with this token; it may take more tokens."""

    def read(self) -> Expression:
        """The whole text. Raises Unreadable."""
        expression = self._chain("or", True, 0)
        if self.at < len(self.tokens):
            token, start = self.tokens[self.at]
            raise self.unreadable(f"`{sentence(token)}` cannot follow here", start, len(token))
        return expression

    def peek(self) -> str | None:
        """The next token."""
        return self.tokens[self.at][0] if self.at < len(self.tokens) else None

    def take(self) -> tuple[str, int]:
        """The next token and its place. Raises Unreadable at the end."""
        if self.at >= len(self.tokens):
            raise self.unreadable("the condition ends too early", max(0, len(self.text) - 1), 1)
        self.at += 1
        return self.tokens[self.at - 1]

    def unreadable(self, reason: str, start: int, length: int) -> Unreadable:
        """An error of the text's form."""
        return Unreadable(problem(self.CODE, reason=reason), start, length)

    def _chain(self, word: str, holds: bool, depth: int) -> Expression:
        """Parts between `or` or between `and`. A negation turns the one into the other."""
        parts = [self._part(word, holds, depth)]
        while self.peek() == word:
            self.at += 1
            parts.append(self._part(word, holds, depth))
        if len(parts) == 1:
            return parts[0]
        return AllOf(all=tuple(parts)) if (word == "and") == holds else AnyOf(any=tuple(parts))

    def _part(self, word: str, holds: bool, depth: int) -> Expression:
        return self._chain("and", holds, depth) if word == "or" else self._leaf_or_brackets(holds, depth)

    def _leaf_or_brackets(self, holds: bool, depth: int) -> Expression:
        if depth > MAX_DEPTH:
            start = self.tokens[self.at][1] if self.peek() is not None else len(self.text)
            raise self.unreadable(f"nested more than {MAX_DEPTH} deep", start, 1)
        token, start = self.take()
        if token == "not":
            return self._leaf_or_brackets(not holds, depth + 1)
        if token == "(":
            expression = self._chain("or", holds, depth + 1)
            if self.peek() != ")":
                raise self.unreadable("this bracket is never closed", start, 1)
            self.at += 1
            return expression
        if token in ("and", "or", ")"):
            raise self.unreadable(f"`{sentence(token)}` cannot stand here", start, len(token))
        return self.leaf(token, start, holds)


class _RewardReader(_Reader):
    TOKEN = re.compile(r"\s*([()]|[A-Za-z0-9_.\-]+|\S)")
    CODE = "E350"

    def __init__(self, text: str, kinds: Mapping[str, str]) -> None:
        super().__init__(text)
        self.kinds = kinds

    def leaf(self, token: str, start: int, holds: bool) -> Expression:
        if not re.fullmatch(r"[A-Za-z0-9_.\-]+", token):
            raise self.unreadable(f"`{sentence(token)}` cannot stand here", start, len(token))
        gate, dot, seen = token.rpartition(".")
        if not dot and token in SIGNALS:
            return Signal.model_validate({"signal": token, "holds": holds})
        if gate in self.kinds and seen in STATUSES:
            return Status.model_validate({"gate": gate, "status": seen, "holds": holds})
        if gate in self.kinds and seen in marks(self.kinds[gate]):
            return Mark(gate=gate, mark=seen, holds=holds)
        known = [*SIGNALS, *(f"{name}.{word}" for name, kind in self.kinds.items() for word in (*STATUSES, *marks(kind)))]
        raise Unreadable(unknown("E351", token, known, None), start, len(token))


class _StopReader(_Reader):
    TOKEN = re.compile(r"\s*(<=|>=|==|!=|[()<>=,%]|[A-Za-z0-9_.+\-]+|\S)")
    CODE = "E360"

    def __init__(self, text: str, target_steps: int) -> None:
        super().__init__(text)
        self.target_steps = target_steps
        self.mentions: list[Mention] = []

    def leaf(self, token: str, start: int, holds: bool) -> Expression:
        slope, name, at = None, token, start
        if token == "slope" and self.peek() == "(":
            name, at, slope = self._slope()
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.\-]*", name):
            raise self.unreadable(f"`{sentence(name)}` is no metric: a comparison begins with one", at, len(name))
        sign, place = self.take()
        if sign not in SIGNS:
            equal = "one `=` says nothing here: equal is `==`"
            raise self.unreadable(equal if sign == "=" else f"`{sentence(sign)}` is no comparison of `{name}`", place, len(sign))
        value, signed = self._number(), cast(Sign, sign)
        leaf = Comparison(metric=name, slope=slope, sign=signed if holds else OPPOSITE[signed], value=value)
        last, before = self.tokens[self.at - 1]
        self.mentions.append(Mention(leaf, at, start, before + len(last)))
        return leaf

    def _slope(self) -> tuple[str, int, int]:
        _, opened = self.take()
        name, at = self.take()
        window: Length | None = Length(SLOPE_SHARE, "%")
        token, place = self.take()
        if token == ",":
            begins = place + 1
            while token != ")":
                token, place = self.take()
            window = length(self.text[begins:place])
            if window is None or (window.unit == "steps" and window.amount < FEWEST):
                reason = f"a slope needs a length of at least {FEWEST} steps after its comma, such as `60 steps` or `20%`"
                raise self.unreadable(reason, begins, max(1, place - begins))
        if token != ")":
            raise self.unreadable("this bracket is never closed", opened, 1)
        assert window is not None
        return name, at, max(FEWEST, window.steps(self.target_steps))

    def _number(self) -> float:
        token, place = self.take()
        try:
            value = float(token) if re.fullmatch(r"[-+0-9.eE]+", token) else math.nan
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self.unreadable(f"`{sentence(token)}` is no number to compare with", place, len(token))
        if self.peek() == "%":
            self.at += 1
            return float(f"{value / 100:.15g}")
        return value
