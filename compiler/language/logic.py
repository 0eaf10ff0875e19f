"""`and`, `or`, `not` and brackets, read to data: the part that all conditions of the language share. Nothing is ever run.

either := both ("or" both)*        both := one ("and" one)*        one := "not" one | "(" either ")" | what a language says of itself
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from compiler.problems import sentence

C = TypeVar("C")
MAX_CHARS = 500
MAX_DEPTH = 20


class Unreadable(Exception):
    """What is wrong with the text, and the characters that it is about."""

    def __init__(self, code: str, what: str, why: str, fix: str, start: int, length: int) -> None:
        super().__init__(what)
        self.code, self.what, self.why, self.fix, self.start, self.length = code, what, why, fix, start, length


class Reader(ABC, Generic[C]):
    """Reads one text. A negation is pushed down to the words: a condition has no `not`."""

    TOKEN: re.Pattern[str]
    """White space, then one token as the first group."""
    CODE: str
    """Code of a text that cannot be read."""
    WHY: str
    EXAMPLE: str

    def __init__(self, text: str) -> None:
        if len(text) > MAX_CHARS:
            raise self.unreadable(f"a condition of more than {MAX_CHARS} characters", 0, 1)
        self.text = text
        self.tokens = [(found[1], found.start(1)) for found in self.TOKEN.finditer(text)]
        self.at = 0

    @abstractmethod
    def word(self, token: str, start: int, holds: bool) -> C:
        """What a token that is no part of the grammar above says, or does not say; it may take more tokens."""

    @abstractmethod
    def joined(self, parts: list[C], all_of_them: bool) -> C:
        """Two or more parts as one condition."""

    def read(self) -> C:
        """The whole text. Raises Unreadable."""
        found = self._either(True, 0)
        if self.at < len(self.tokens):
            token, start = self.tokens[self.at]
            raise self.unreadable(f"`{sentence(token)}` cannot follow here", start, len(token))
        return found

    def peek(self) -> str | None:
        """The next token."""
        return self.tokens[self.at][0] if self.at < len(self.tokens) else None

    def take(self) -> tuple[str, int]:
        """The next token and its place. Raises Unreadable at the end."""
        if self.at >= len(self.tokens):
            raise self.unreadable("the condition ends too early", max(0, len(self.text) - 1), 1)
        self.at += 1
        return self.tokens[self.at - 1]

    def unreadable(self, what: str, start: int, length: int) -> Unreadable:
        """An error of the text's form."""
        return Unreadable(self.CODE, what, self.WHY, f"write a condition such as `{self.EXAMPLE}`", start, length)

    def _either(self, holds: bool, depth: int) -> C:
        return self._chain("or", holds, depth)

    def _chain(self, word: str, holds: bool, depth: int) -> C:
        """Parts between `or` or between `and`. A negation turns the one into the other."""
        parts = [self._part(word, holds, depth)]
        while self.peek() == word:
            self.at += 1
            parts.append(self._part(word, holds, depth))
        return parts[0] if len(parts) == 1 else self.joined(parts, (word == "and") == holds)

    def _part(self, word: str, holds: bool, depth: int) -> C:
        return self._chain("and", holds, depth) if word == "or" else self._one(holds, depth)

    def _one(self, holds: bool, depth: int) -> C:
        if depth > MAX_DEPTH:
            start = self.tokens[self.at][1] if self.peek() is not None else len(self.text)
            raise self.unreadable(f"nested more than {MAX_DEPTH} deep", start, 1)
        token, start = self.take()
        if token == "not":
            return self._one(not holds, depth + 1)
        if token == "(":
            found = self._either(holds, depth + 1)
            if self.peek() != ")":
                raise self.unreadable("this bracket is never closed", start, 1)
            self.at += 1
            return found
        if token in ("and", "or", ")"):
            raise self.unreadable(f"`{sentence(token)}` cannot stand here", start, len(token))
        return self.word(token, start, holds)
