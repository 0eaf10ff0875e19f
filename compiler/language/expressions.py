"""Texts of conditions, read to the data of stages/contracts/expressions.py. A text never runs.

either := both ("or" both)*        both := one ("and" one)*        one := "not" one | "(" either ")" | leaf
Of penalties and scores:   leaf := "truncated" | "empty" | <gate>.pass | <gate>.fail | <gate>.not_reached | <gate>.<mark of its kind>
Of stop rules:             leaf := quantity ("<" | "<=" | ">" | ">=" | "==" | "!=") number ["%"]
                           quantity := metric | "slope(" metric ["," length] ")"        length := `60 steps` or `20%` of the run
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import cast

from compiler.document.node import Document, Node
from compiler.problems import problem, sentence, unknown
from stages.contracts.diagnostic import Diagnostic, Place
from stages.contracts.expressions import OPPOSITE, AllOf, AnyOf, Comparison, Expression, Mark, Sign, Signal, Status, leaves
from stages.contracts.names import OneBound
from stages.contracts.plugin import declared
from stages.contracts.stops import length

MAX_CHARS = 500
MAX_DEPTH = 20
SIGNALS = ("truncated", "empty")
STATUSES = ("pass", "fail", "not_reached")
FEWEST = 3
"""Steps of a slope: through two points every line fits."""
SLOPE = "20%"
"""Window of a slope that names none."""

_WORD = r"(?P<word>(?:and|or|not)(?![A-Za-z0-9_.\-])|[()])"
_REWARD_TOKEN = re.compile(rf"\s*(?:{_WORD}|(?P<leaf>[A-Za-z0-9_.\-]+)|(?P<stray>\S+))")
_STOP_TOKEN = re.compile(
    rf"\s*(?:{_WORD}|(?P<leaf>(?P<slope>slope\s*\(\s*)?(?P<metric>[A-Za-z_][A-Za-z0-9_.\-]*)\s*(?(slope)(?:,(?P<length>[^()]*))?\))"
    r"\s*(?P<sign>[<>=!]=|[<>])\s*(?P<value>[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)(?P<percent>\s*%)?)"
    r"|(?P<stray>.+?)(?=\s+(?:and|or)\b|\s*$))"
)


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


def reward_condition(text: str, kinds: Mapping[str, str]) -> Expression:
    """The condition of a penalty or a score. `kinds`: gate -> kind. Raises Unreadable E350, or E351 for a word that means nothing."""

    def leaf(token: re.Match[str], holds: bool) -> Expression:
        word = token["leaf"]
        gate, _, seen = word.rpartition(".")
        if word in SIGNALS:
            return Signal.model_validate({"signal": word, "holds": holds})
        if gate in kinds and seen in STATUSES:
            return Status.model_validate({"gate": gate, "status": seen, "holds": holds})
        if gate in kinds and seen in declared(kinds[gate], "MARKS"):
            return Mark(gate=gate, mark=seen, holds=holds)
        words = [*SIGNALS, *(f"{name}.{word}" for name, kind in kinds.items() for word in (*STATUSES, *declared(kind, "MARKS")))]
        raise Unreadable(unknown("E351", word, words, None), token.start("leaf"), len(word))

    return _read(text, "E350", _REWARD_TOKEN, leaf)


@lru_cache(4096)
def stop_condition(text: str, target_steps: int) -> Expression:
    """The condition of a rule, for a run of this many steps. Metrics are not looked up here. Raises Unreadable E360."""

    def leaf(token: re.Match[str], holds: bool) -> Expression:
        slope, value, sign = None, float(token["value"]), cast(Sign, token["sign"])
        if not math.isfinite(value):
            raise Unreadable(problem("E360", reason=f"`{token['value']}` is too large"), token.start("value"), len(token["value"]))
        if token["slope"]:
            window = length(SLOPE if token["length"] is None else token["length"])
            if window is None or (window.unit == "steps" and window.amount < FEWEST):
                reason = f"a slope needs a length of at least {FEWEST} steps after its comma, such as `60 steps` or `20%`"
                raise Unreadable(problem("E360", reason=reason), token.start("length"), max(1, len(token["length"])))
            slope = max(FEWEST, window.steps(target_steps))
        if token["percent"]:
            value = float(f"{value / 100:.15g}")
        return Comparison(metric=token["metric"], slope=slope, sign=sign if holds else OPPOSITE[sign], value=value)

    return _read(text, "E360", _STOP_TOKEN, leaf)


def written_comparisons(text: str, read: Expression) -> Iterator[tuple[Comparison, re.Match[str]]]:
    """The comparisons of a stop rule's condition, each with its characters in the text: `leaf`, and of it `metric`."""
    comparisons = (leaf for leaf in leaves(read) if isinstance(leaf, Comparison))
    return zip(comparisons, (token for token in _STOP_TOKEN.finditer(text) if token["leaf"]), strict=True)


def is_decided(leaf: Comparison) -> bool | None:
    """For a comparison of a share (0..1): True if it always holds, False if it never does, None if it depends."""
    bound = leaf.value
    answers = {leaf.holds_at(value) for value in (0.0, 1.0, *([bound, bound / 2, (1 + bound) / 2] if 0 <= bound <= 1 else []))}
    return answers.pop() if len(answers) == 1 else None


def as_comparison(name: str, rule: OneBound) -> Comparison:
    """What a bound asks of a metric."""
    return Comparison(metric=name, sign=">" if rule.direction == "above" else "<", value=rule.bound)


def _read(text: str, code: str, pattern: re.Pattern[str], leaf: Callable[[re.Match[str], bool], Expression]) -> Expression:
    """A text by the grammar, with negations pushed down to the leaves. Raises Unreadable."""

    def refused(reason: str, start: int, length: int = 1) -> Unreadable:
        return Unreadable(problem(code, reason=reason), start, length)

    def misplaced(token: re.Match[str], why: str) -> Unreadable:
        shown = token[0].strip()
        return refused(f"`{sentence(shown)}` {why}", token.end() - len(shown), len(shown))

    def next_is(word: str) -> bool:
        return bool(tokens) and tokens[0]["word"] == word

    def chain(word: str, holds: bool, depth: int) -> Expression:
        """Parts between `or`, or between `and`. A negation turns the one into the other."""
        parts: list[Expression] = []
        while not parts or (next_is(word) and tokens.popleft()):
            parts.append(chain("and", holds, depth) if word == "or" else part(holds, depth))
        if len(parts) == 1:
            return parts[0]
        return AllOf(all=tuple(parts)) if (word == "and") == holds else AnyOf(any=tuple(parts))

    def part(holds: bool, depth: int) -> Expression:
        if not tokens:
            raise refused("the condition ends too early", max(0, len(text) - 1))
        token = tokens.popleft()
        if depth > MAX_DEPTH:
            raise misplaced(token, f"is nested more than {MAX_DEPTH} deep")
        if token["word"] == "not":
            return part(not holds, depth + 1)
        if token["word"] == "(":
            expression = chain("or", holds, depth + 1)
            if not next_is(")"):
                raise refused("this bracket is never closed", token.start("word"))
            tokens.popleft()
            return expression
        if token["leaf"] is None:
            is_word = token["word"] or code == "E350"
            raise misplaced(token, "cannot stand here" if is_word else "is no comparison of a metric with a number")
        return leaf(token, holds)

    if len(text) > MAX_CHARS:
        raise refused(f"a condition of more than {MAX_CHARS} characters", 0)
    tokens = deque(pattern.finditer(text))
    expression = chain("or", True, 0)
    if tokens:
        raise misplaced(tokens[0], "cannot follow here")
    return expression
