"""YAML text -> Document: plain values, each with the place of its key and its value.

ruamel's C parser is read as events, so that depth, aliases and tags are checked before anything is built: no input recurses, expands or
hangs. Specs are data: tags, merge keys, duplicate keys and further documents are refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compiler.document.node import Document, Node
from compiler.problems import Rejected, problem, refused_file, sentence
from stages.contracts.diagnostic import Diagnostic, Place
from stages.contracts.files import FileRefused, open_file

MAX_BYTES = 1_000_000
MAX_DEPTH = 40
MAX_NODES = 200_000
MAX_DIGITS = 18

_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_CONFLICT = re.compile(r"(<{7}|\|{7}|>{7})( .*)?|={7}")
_UNQUOTED = re.compile(r"[^\s,{}\[\]'\"]+:[^\s,{}\[\]'\"]+")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


def read(path: Path) -> Document:
    """Read and parse one file. Raises Rejected with E1xx problems."""
    try:
        with open_file(path) as stream:
            content = stream.read(MAX_BYTES + 1)
    except FileRefused as refused:
        raise Rejected([refused_file(refused)]) from None
    except OSError as error:
        facts = {"file": path.as_posix(), "reason": error.strerror or error, "folder": path.parent.as_posix()}
        raise Rejected([problem("E113", None, None, **facts)]) from None
    return parse(content, path.as_posix())


def parse(content: bytes, file: str) -> Document:
    """Parse the bytes of a file. Raises Rejected with E1xx problems."""
    from ruamel.yaml.cyaml import CParser
    from ruamel.yaml.error import YAMLError

    if len(content) > MAX_BYTES:
        raise Rejected([problem("E108", Place(file, 1, 1), limit=f"{MAX_BYTES:,}")])
    lines = _BREAK.split(content.decode("utf-8", "replace").removeprefix("\ufeff"))
    try:
        parser = CParser(_decoded(content, file))
        builder = _Builder(file, lines, parser.get_event)
        try:
            root = builder.document()
        except YAMLError as error:
            raise Rejected([*builder.problems, builder.syntax(error)]) from None
        if builder.problems:
            raise Rejected(builder.problems)
        return Document(file, lines, root)
    except Rejected as rejected:
        rejected.sources[file] = lines
        raise


def _decoded(content: bytes, file: str) -> str:
    try:
        text = content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        place = _end(file, content[: error.start].decode("utf-8", "replace"))
        raise Rejected([problem("E105.bytes", place, byte=f"{content[error.start]:02x}", file=file)]) from None
    if control := _CONTROL.search(text):
        raise Rejected([problem("E105", _end(file, text[: control.start()]), character=f"U+{ord(control[0]):04X}")])
    return text


def _end(file: str, text: str) -> Place:
    """The place after this beginning of a file."""
    lines = _BREAK.split(text)
    return Place(file, len(lines), len(lines[-1]) + 1)


class _Builder:
    """Builds the tree of nodes from parser events."""

    def __init__(self, file: str, lines: list[str], event: Callable[[], Any]) -> None:
        self.file, self.lines, self.next = file, lines, event
        self.problems: list[Diagnostic] = []
        self.anchors: dict[str, tuple[Node, int]] = {}
        """Finished values by anchor, with the number of nodes in each."""
        self.open: set[str] = set()
        self.count = 0

    def document(self) -> Node:
        """The root. Raises Rejected, or what the parser raises."""
        self.next()
        event = self.next()
        if type(event).__name__ == "StreamEndEvent":
            raise Rejected([problem("E109", Place(self.file, 1, 1))])
        root = self._node(self.next(), 0)
        self.next()
        event = self.next()
        if type(event).__name__ != "StreamEndEvent":
            self.problems.append(problem("E107", self._place(event.start_mark)))
        if root.value is None:
            raise Rejected([*self.problems, problem("E109", Place(self.file, 1, 1))])
        if not isinstance(root.value, dict | list):
            self.problems.append(problem("E109.value", root.place))
        return root

    def _node(self, event: Any, depth: int) -> Node:
        kind = type(event).__name__
        place = self._place(event.start_mark, event.end_mark if kind in ("ScalarEvent", "AliasEvent") else None)
        self._counted(1, place)
        if depth > MAX_DEPTH:
            raise Rejected([*self.problems, problem("E108.deep", place, limit=MAX_DEPTH)])
        if kind == "AliasEvent":
            return self._alias(event, place)
        if event.tag is not None and not (kind == "ScalarEvent" and event.tag == "!"):
            self.problems.append(problem("E106", place, tag=sentence(event.tag)))
        before = self.count
        if event.anchor:
            self.open.add(event.anchor)
        if kind == "ScalarEvent":
            value = self._scalar(event, place)
        else:
            value = self._sequence(depth) if kind == "SequenceStartEvent" else self._mapping(depth)
        node = Node(value, place)
        if event.anchor:
            self.open.discard(event.anchor)
            self.anchors[event.anchor] = (node, self.count - before + 1)
        return node

    def _counted(self, nodes: int, place: Place) -> None:
        self.count += nodes
        if self.count > MAX_NODES:
            raise Rejected([*self.problems, problem("E110", place, limit=f"{MAX_NODES:,}")])

    def _sequence(self, depth: int) -> list[Node]:
        nodes = []
        while type(event := self.next()).__name__ != "SequenceEndEvent":
            nodes.append(self._node(event, depth + 1))
        return nodes

    def _mapping(self, depth: int) -> dict[str, Node]:
        nodes: dict[str, Node] = {}
        while type(event := self.next()).__name__ != "MappingEndEvent":
            name = event.value if type(event).__name__ == "ScalarEvent" else None
            key = self._node(event, depth + 1).place
            node = self._node(self.next(), depth + 1)
            if node.key is not None:  # an alias: the same value under another key
                node = Node(node.value, node.place)
            node.key = key
            if name is None:
                self.problems.append(problem("E111", key))
            elif name == "<<" and event.implicit[0]:
                self.problems.append(problem("E103", key))
            elif name in nodes:
                self.problems.append(problem("E102", key, note=nodes[name].key, key=sentence(name)))
            else:
                nodes[name] = node
        return nodes

    def _alias(self, event: Any, place: Place) -> Node:
        if event.anchor in self.open or event.anchor not in self.anchors:
            reason = "refers to itself" if event.anchor in self.open else "has no anchor above it"
            self.problems.append(problem("E110.alias", place, name=sentence(event.anchor), reason=reason))
            return Node("", place)
        node, size = self.anchors[event.anchor]
        self._counted(size, place)
        return node

    def _scalar(self, event: Any, place: Place) -> Any:
        text = event.value
        if event.style not in (None, "") or not event.implicit[0]:
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text) and len(text.lstrip("+-")) <= MAX_DIGITS:
            return int(text)
        is_number = _FLOAT.fullmatch(text) is not None
        if _NOT_FINITE.fullmatch(text) or (is_number and (len(text) > 400 or not math.isfinite(float(text)))):
            self.problems.append(problem("E112", place, text=sentence(text[:40])))
            return 0
        return float(text) if is_number else text

    def syntax(self, error: Any) -> Diagnostic:
        """E101 or E104 for what the parser could not read; what was never closed, where it opens."""
        for number, text in enumerate(self.lines, 1):
            if _CONFLICT.fullmatch(text):
                return problem("E101.conflict", Place(self.file, number, 1), marker=text[:7])
        context = getattr(error, "context_mark", None)
        mark = getattr(error, "problem_mark", None) or context
        place = self._place(mark) if mark else Place(self.file, 1, 1)
        line = self.lines[place.line - 1]
        indent = line[: len(line) - len(line.lstrip())]
        if "\t" in indent and place.column <= len(indent) + 1:
            return problem("E104", Place(self.file, place.line, indent.index("\t") + 1), file=self.file)
        if line[place.column - 1 : place.column] == "?":
            return problem("E101.question", place)
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
        for unquoted in _UNQUOTED.finditer(line):
            if reason == "found unexpected ':'" and unquoted.start() < place.column <= unquoted.end():
                return problem("E101.colon", Place(self.file, place.line, unquoted.start() + 1, len(unquoted[0])), text=unquoted[0])
        opening = self._place(context) if mark and context and context.line != mark.line else None
        above = self.lines[place.line - 2] if place.line > 1 else ""
        if reason == "mapping values are not allowed in this context" and ":" not in above and above.strip():
            opening = Place(self.file, place.line - 1, len(above) - len(above.lstrip()) + 1)
        if opening is None:
            return problem("E101", place, reason=reason)
        context_words = str(getattr(error, "context", None))
        form = (
            "E101.open"
            if "flow" in context_words or "quoted" in context_words
            else "E101.key"
            if "block" not in context_words
            else "E101.block"
        )
        start, end = (place, opening) if form == "E101.block" else (opening, place)
        return problem(form, start, end, reason=reason, text=self.lines[opening.line - 1].strip()[:60], context=context_words)

    def _place(self, start: Any, end: Any = None) -> Place:
        line = min(start.line, len(self.lines) - 1)
        column = min(start.column, len(self.lines[line]))
        last = end.column if end is not None and end.line == line else len(self.lines[line].rstrip()) if end is not None else column + 1
        return Place(self.file, line + 1, column + 1, max(1, last - column))
