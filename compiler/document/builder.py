"""Parser events -> tree of nodes. Depth, aliases and tags are checked before anything is built: no input recurses or expands.

Specs are data: tags, merge keys, duplicate keys and further documents are refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from compiler.document.node import Node
from compiler.problems import Rejected, sentence
from stages.contracts.diagnostic import Diagnostic, Note, Place

MAX_DEPTH = 40
MAX_NODES = 200_000
MAX_DIGITS = 18

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


class Builder:
    """Builds the tree of nodes from parser events."""

    def __init__(self, file: str, lines: list[str]) -> None:
        self.file, self.lines = file, lines
        self.problems: list[Diagnostic] = []
        self.anchors: dict[str, tuple[Node, int]] = {}
        self.open: set[str] = set()
        self.count = 0

    def build(self, events: Callable[[], Any], broken: type[Exception]) -> Node:
        """The root. `events` gives the next event and raises `broken`. Raises Rejected with E1xx diagnostics."""
        self.next = events
        try:
            root = self._document()
        except broken as error:
            raise Rejected([*self.problems, self._syntax(error)]) from None
        if self.problems:
            raise Rejected(self.problems)
        return root

    def _document(self) -> Node:
        self.next()
        event = self.next()
        if type(event).__name__ == "StreamEndEvent":
            raise Rejected([self._empty()])
        root = self._node(self.next(), 0)
        self.next()
        event = self.next()
        if type(event).__name__ != "StreamEndEvent":
            place = self._place(event.start_mark)
            self._report(
                "E107",
                "a second document begins here",
                place,
                why="one file is one experiment",
                fix="delete this line, or move the rest to its own file",
            )
        if not isinstance(root.value, dict | list):
            if root.value is None:
                raise Rejected([*self.problems, self._empty()])
            self._report(
                "E109", "the file holds a single value, not `key: value` lines", root.place, why="a spec is a map of keys", fix="title: ..."
            )
        return root

    def _empty(self) -> Diagnostic:
        return Diagnostic(
            "E109", "the file is empty", why="a spec is a map of keys", fix="start from specs/quickstart.yaml", place=Place(self.file, 1, 1)
        )

    def _node(self, event: Any, depth: int) -> Node:
        kind = type(event).__name__
        place = self._place(event.start_mark, event.end_mark if kind in ("ScalarEvent", "AliasEvent") else None)
        self.count += 1
        if self.count > MAX_NODES:
            raise Rejected([*self.problems, self._expansion(place)])
        if depth > MAX_DEPTH:
            raise Rejected(
                [
                    *self.problems,
                    Diagnostic(
                        "E108",
                        f"nested more than {MAX_DEPTH} levels deep",
                        why="no key of the language lies deeper; such a file is a mistake or an attack",
                        fix="close the brackets earlier",
                        place=place,
                    ),
                ]
            )
        if kind == "AliasEvent":
            return self._alias(event, place)
        if event.tag is not None and not (kind == "ScalarEvent" and event.tag == "!"):
            self._report(
                "E106",
                f"tag `{sentence(event.tag)}`",
                place,
                why="specs are data: a tag could make a reader run code",
                fix="delete the tag; put text in quotes",
            )
        before = self.count
        if event.anchor:
            self.open.add(event.anchor)
        if kind == "ScalarEvent":
            node = Node(self._scalar(event, place), place)
        elif kind == "SequenceStartEvent":
            node = Node(self._sequence(depth), place)
        else:
            node = Node(self._mapping(depth), place)
        if event.anchor:
            self.open.discard(event.anchor)
            self.anchors[event.anchor] = (node, self.count - before + 1)
        return node

    def _sequence(self, depth: int) -> list[Node]:
        nodes = []
        while type(event := self.next()).__name__ != "SequenceEndEvent":
            nodes.append(self._node(event, depth + 1))
        return nodes

    def _mapping(self, depth: int) -> dict[str, Node]:
        nodes: dict[str, Node] = {}
        while type(event := self.next()).__name__ != "MappingEndEvent":
            is_text = type(event).__name__ == "ScalarEvent"
            name = event.value if is_text else None
            key = self._node(event, depth + 1)
            node = self._node(self.next(), depth + 1)
            if node.key is not None:  # an alias: the same value under another key
                node = Node(node.value, node.place)
            node.key = key.place
            if name is None:
                self._report("E111", "a key that is not plain text", key.place, why="keys are names", fix="write the key as text")
            elif name == "<<" and event.implicit[0]:
                self._report(
                    "E103",
                    "merge key `<<`",
                    key.place,
                    why="merged values lose their place, so no message and no page could point at them",
                    fix="write the values out, or use a profile",
                )
            elif name in nodes:
                first = nodes[name].key
                self._report(
                    "E102",
                    f"`{sentence(name)}` is given twice",
                    key.place,
                    why="only one of the two could count, and a reader cannot tell which",
                    fix="delete one of them",
                    notes=(Note(first, "first given here"),),
                )
            else:
                nodes[name] = node
        return nodes

    def _alias(self, event: Any, place: Place) -> Node:
        if event.anchor in self.open or event.anchor not in self.anchors:
            what = "refers to itself" if event.anchor in self.open else "has no anchor above it"
            self._report(
                "E110",
                f"alias `*{sentence(event.anchor)}` {what}",
                place,
                why="an alias repeats an earlier, finished value",
                fix="write the value out",
            )
            return Node("", place)
        node, size = self.anchors[event.anchor]
        self.count += size
        if self.count > MAX_NODES:
            raise Rejected([*self.problems, self._expansion(place)])
        return node

    def _scalar(self, event: Any, place: Place) -> Any:
        text = event.value
        if event.style not in (None, "") or not event.implicit[0]:
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text) and len(text.lstrip("+-")) <= MAX_DIGITS:
            return int(text)
        if _NOT_FINITE.fullmatch(text) or (_FLOAT.fullmatch(text) and (len(text) > 400 or not math.isfinite(float(text)))):
            self._report(
                "E112",
                f"`{sentence(text[:40])}` is not a finite number",
                place,
                why="octavo's files hold finite numbers only, so that every reader agrees on them",
                fix="write a finite number, or put text in quotes",
            )
            return 0
        return float(text) if _FLOAT.fullmatch(text) else text

    def _expansion(self, place: Place) -> Diagnostic:
        return Diagnostic(
            "E110",
            f"the file expands to more than {MAX_NODES:,} values",
            why="aliases of aliases grow without bound; such a file is a mistake or an attack",
            fix="write the values out, or split the experiment",
            place=place,
        )

    def _syntax(self, error: Any) -> Diagnostic:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        place = self._place(mark) if mark else Place(self.file, 1, 1)
        line = self.lines[place.line - 1]
        indent = line[: len(line) - len(line.lstrip())]
        if "\t" in indent and place.column <= len(indent) + 1:
            return Diagnostic(
                "E104",
                "a tab indents this line",
                why="YAML indents with spaces only: the width of a tab is not defined",
                fix=f"sed -i 's/\\t/  /g' {self.file}",
                place=Place(self.file, place.line, indent.index("\t") + 1),
            )
        context = getattr(error, "context_mark", None)
        notes = (
            (Note(self._place(context), str(error.context)),) if mark and context and error.context and context.line != mark.line else ()
        )
        if line[place.column - 1 : place.column] == "?":
            return Diagnostic(
                "E101",
                "not YAML: a `?` inside { } or [ ] ends a text without quotes",
                why="there a `?` means something else to YAML; on a line of its own it would be text",
                fix='put the text in quotes: {ask: "Did it collapse?", show: signal}',
                place=place,
            )
        return Diagnostic(
            "E101",
            f"not YAML: {getattr(error, 'problem', None) or getattr(error, 'reason', None) or 'cannot be read'}",
            why="the rest of the file cannot be understood without this place",
            fix="close quotes and brackets, put text that holds `: ` or ` #` in quotes, and align keys with spaces",
            place=place,
            notes=notes,
        )

    def _place(self, start: Any, end: Any = None) -> Place:
        line = min(start.line, len(self.lines) - 1)
        column = min(start.column, len(self.lines[line]))
        last = end.column if end is not None and end.line == line else len(self.lines[line].rstrip()) if end is not None else column + 1
        return Place(self.file, line + 1, column + 1, max(1, last - column))

    def _report(self, code: str, what: str, place: Place, *, why: str, fix: str, notes: tuple[Note, ...] = ()) -> None:
        self.problems.append(Diagnostic(code, what, why=why, fix=fix, place=place, notes=notes))
