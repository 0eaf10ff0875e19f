"""Format `console`: what a trainer printed while it ran. Numbers are found by their names, wherever they stand in a line.

Shapes that are read: dicts (`{'loss': 0.1, 'reward': '0.5'}`, also over several lines), `step:3 - actor/lr:1e-06 - ...`, `a=1, b=2`,
and the numbers beside a progress bar. Colours, prefixes of Ray, times, tracebacks and other lines between them are passed over.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stages.contracts.files import require_few
from stages.train.imports.log import LINE_STEP, STEPS, Log, NoNumber, Unreadable, content, from_rows, number, sentence, shortened

_COLOURS = re.compile(rb"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\n]{0,200}\x07)")
_RAY = re.compile(r"^\s*\(\w[\w.]{0,80} pid=\d+(?:, ip=[\d.]+)?\) ?")
_PAIR = re.compile(
    r"""(?:(?P<quote>['"])(?P<quoted>[^'"\n]{1,300})(?P=quote)\s{0,4}+:
        |(?<![^\s,;|(\[{])(?P<plain>[A-Za-z_][^\s:='",;{}\[\]|]{0,299}+)\s{0,2}+[:=](?![:/=]))
        \s{0,4}+
        (?:(?P<mark>['"])(?P<text>[^'"\n]{0,80})(?P=mark)
        |(?P<call>\w[\w.]{0,30}\([^()\n]{0,100}\))
        |(?P<bare>[^\s,;}\]|'"\[{(]{1,80}(?:,\d[^\s,;}\]|'"\[{(]{0,40}){0,9}))""",
    re.VERBOSE,
)
"""A name and what stands behind its colon or equals sign. `0,5` and `1,234.5` are one text each: `number` knows which is a number."""
_DICT = re.compile(r"\{[^{}]*\}")
_BAR = re.compile(r"(?<![\d./])(?P<done>\d{1,9}+)/(?P<total>\d{1,9}+) ?\[[\d:]{1,20}<(?P<beside>[^\]\n]{0,2000})")
"""How far a progress bar of tqdm is: `5/40 [06:05<43:34, 74.69s/it, reward=0.5`."""
_PERCENT = re.compile(r"\d{1,3}%")
_OF_TRAINING = ("train", "episode", "epoch", "step", "iteration")
"""First words of the bars that count steps, if they have a name at all; `Map` and `Processed prompts` count other things."""
_EPISODE = re.compile(r"\[(\d{1,6})/(\d{1,6})\]")
_STEP_WORDS = re.compile(r"\b(?:global[ _])?(?:step|iteration|iter)s?\s{0,8}[:=#]?\s{0,8}(\d{1,12})\b", re.IGNORECASE)
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+")
"""Python prints no decimal comma, whatever the language of the machine."""
_FIXED = re.compile(r"[-+]?\d+\.(\d{2,4})")
_LONGEST, _MOST_LINES = 200_000, 200
"""Characters of a line that is looked at; lines of one dict."""


@dataclass
class _Bar:
    """One kind of progress bar: its name without numbers, and its total."""

    name: str
    total: int
    places: list[tuple[int, int]] = field(default_factory=list)
    """(rows of the log above it, steps done), in order."""

    @property
    def steps(self) -> int:
        return len({done for _, done in self.places})

    @property
    def falls(self) -> int:
        """How often it begins again."""
        return sum(after < before for (_, before), (_, after) in zip(self.places, self.places[1:], strict=False))


@dataclass
class _Console:
    """What the lines hold so far."""

    wanted: Set[str]
    index: Set[str]
    rows: list[dict[str, str]] = field(default_factory=list)
    stated: list[int | None] = field(default_factory=list)
    """Row -> the step that stands in words before its numbers."""
    above: list[int | None] = field(default_factory=list)
    """Row -> the step that stands in words in a line between it and the row above."""
    newest: int | None = None
    beside: dict[int, tuple[tuple[str, int], int]] = field(default_factory=dict)
    """Row -> the bar beside which it stands, and the steps done there."""
    bars: dict[tuple[str, int], _Bar] = field(default_factory=dict)
    names: Counter[str] = field(default_factory=Counter)
    ends_open: bool = False
    """Whether the last row read stands in a line that another letter might have gone on with."""

    def add(self, row: dict[str, str], step: int | None) -> None:
        self.rows.append(row)
        self.stated.append(step)
        self.above.append(self.newest)
        self.newest = None

    def read(self, line: str) -> None:
        """One line, or the lines of one dict."""
        dicts = [match for match in _DICT.finditer(line) if self.wanted & pairs(match[0]).keys()] if "{" in line else []
        self._bars(line[: dicts[0].start()] if dicts else line)
        for match in dicts:
            before = line[max(0, match.start() - 200) : match.start()]
            words = _STEP_WORDS.findall(before)
            outside = {name: cell for name, cell in pairs(before).items() if name in self.index}
            self.add({**outside, **pairs(match[0])}, int(words[-1]) if words else None)
        if dicts:
            self._bars(line[dicts[-1].end() :])
            self.ends_open = False
            return
        cells = pairs(line)
        self.names.update(list(cells)[:200])
        begins = _PAIR.search(line)
        words = _STEP_WORDS.findall(line[: begins.start()][:120] if begins else line[:120])
        if self.wanted & cells.keys() and (self.index & cells.keys() or (words and len(cells) > 1)):
            self.add(cells, int(words[-1]) if words else None)
            self.ends_open = True
        elif words := _STEP_WORDS.findall(line[:120]):
            self.newest = int(words[-1])

    def _bars(self, text: str) -> None:
        end = 0
        for match in _BAR.finditer(text):
            title, end = _PERCENT.split(text[end : match.start()])[0].strip(" :|\t"), match.end()
            name = re.sub(r"[^a-z ]", "", title.lower()).strip()
            if name and not name.startswith(_OF_TRAINING):
                continue
            episode, total = _EPISODE.search(title), int(match["total"])
            earlier = (int(episode[1]) - 1) * total if episode else 0
            done = earlier + int(match["done"])
            key = (name, total)
            bar = self.bars.setdefault(key, _Bar(name, total * (int(episode[2]) if episode else 1)))
            bar.places.append((len(self.rows), done))
            cells = pairs(match["beside"])
            if self.wanted & cells.keys():
                self.beside[len(self.rows)] = (key, done)
                self.add(cells, None)


def pairs(text: str) -> dict[str, str]:
    """Names and what stands behind them, the first of each name."""
    cells: dict[str, str] = {}
    for match in _PAIR.finditer(text):
        cell = match["text"] if match["mark"] else match["call"] or match["bare"].rstrip(".")
        cells.setdefault(match["quoted"] or match["plain"], cell)
    return cells


def read_console(path: Path, wanted: Set[str], index: str | None) -> Log:
    """Each line, dict or bar with a number of one of the `wanted` names is a row. Its step is what stands there under the name `index`; if
    none is given, under one of STEPS, in words before a dict (`Global step 3: {...}`), or what the progress bar beside it shows.
    Raises Unreadable when no line holds a wanted name with a step."""
    data = content(path)
    try:
        require_few(data, b"\n\r")
    except ValueError as error:
        raise Unreadable("refused", path=path, what=error) from None
    console = _Console(wanted, {index} if index else set(STEPS))
    for line in _lines(_COLOURS.sub(b"", data)):
        console.read(line)
    if not console.rows:
        names = [name for name, _ in console.names.most_common(12)]
        raise Unreadable("no_console_row", path=path, wanted=shortened(sorted(wanted)), names=", ".join(names) or "none")
    return _log(console, index, data.endswith((b"\n", b"\r")))


def _lines(data: bytes) -> Iterator[str]:
    """Lines that may hold something: what a progress bar wrote over itself is a line each, and a dict over several lines is one."""
    waiting: list[str] = []
    for raw in re.split(rb"[\r\n]+", data):
        is_short = len(raw) < 200  # such as `Step 3`, or `{`
        if len(raw) > _LONGEST or not (waiting or b":" in raw or b"=" in raw or is_short):
            continue
        line = _RAY.sub("", raw.decode("utf-8", "replace"))
        waiting.append(line)
        opened, closed = line.rfind("{"), line.rfind("}")
        is_open = closed < opened or (len(waiting) > 1 and closed < 0)
        is_dict = len(waiting) > 1 or line.endswith("{") or "'" in line[opened:] or '"' in line[opened:]
        if is_open and is_dict and len(waiting) < _MOST_LINES:
            continue
        yield " ".join(waiting)
        waiting = []
    yield from waiting


def _log(console: _Console, index: str | None, is_whole: bool) -> Log:
    """The rows as a log, each with its step."""
    keep, settings = list(range(len(console.rows))), dict[str, Any]()
    own = next((name for name in ([index] if index else STEPS) if sum(name in row for row in console.rows) > len(console.rows) / 2), None)
    rows: list[dict[str, Any]] = [{name: _cell(cell) for name, cell in row.items()} for row in console.rows]
    if own is None and index is None:
        steps = dict(enumerate(console.stated)) if sum(step is not None for step in console.stated) > len(rows) / 2 else None
        if steps is None:
            steps, settings = _steps_of_bars(console)
            steps = steps or dict(enumerate(console.above))
        rows = [{**row, LINE_STEP: steps.get(at)} if steps.get(at) is not None else row for at, row in enumerate(rows)]
        keep = [at for at in keep if at not in console.beside or steps.get(at) is not None]
    log = from_rows([rows[at] for at in keep], own or index or LINE_STEP)
    log.settings = settings
    log.decimals = _decimals([console.rows[at] for at in keep])
    log.notes += [sentence("maybe_cut")] if console.ends_open and not is_whole else []
    return log


def _cell(cell: str) -> Any:
    try:
        return number(cell.replace(",", "") if _THOUSANDS.fullmatch(cell) else cell)
    except NoNumber:
        return cell


def _steps_of_bars(console: _Console) -> tuple[dict[int, int | None], dict[str, Any]]:
    """Row -> step by the bar that counts steps, which begins again the fewest times and shows the most numbers. transformers
    writes it again below each row; others only above. The first row beside a bar at each of its numbers is the one of that step."""
    beside = {key for key, _ in console.beside.values()}
    candidates = [bar for key, bar in console.bars.items() if not beside or key in beside]
    if not candidates:
        return {}, {}
    best = max(candidates, key=lambda bar: (-bar.falls, bar.steps))
    steps: dict[int, int | None] = {}
    if console.beside:
        last = -1
        for row, (key, done) in console.beside.items():
            if console.bars[key] is best and done != last:
                steps[row] = done if done > 0 else None
                last = done
        return steps, {"max_steps": best.total}
    above, below = _around(best, len(console.rows))
    both = [row for row in above if row in below]
    is_below = sum(above[row] == below[row] for row in both) > len(both) / 2 or 0 not in above
    steps = above | below if is_below else below | above
    return steps, {"max_steps": best.total}


def _around(bar: _Bar, rows: int) -> tuple[dict[int, int | None], dict[int, int | None]]:
    """Row -> steps done by the last bar above it, and by the first one between it and the next row."""
    above, below = dict[int, int | None](), dict[int, int | None]()
    for place, done in bar.places:
        if done:
            below.setdefault(place - 1, done)
            above[place] = done
    last: int | None = None
    for row in range(rows):
        last = above.get(row, last)
        if last is not None:
            above[row] = last
    return above, {row: done for row, done in below.items() if row >= 0}


def _decimals(rows: list[dict[str, str]]) -> dict[str, int]:
    """Names whose numbers were all printed with the same few digits behind the point."""
    seen: dict[str, set[int]] = {}
    for row in rows:
        for name, cell in row.items():
            match = _FIXED.fullmatch(cell)
            seen.setdefault(name, set()).add(len(match[1]) if match else 0)
    return {name: counts.pop() for name, counts in seen.items() if len(counts) == 1 and 0 not in counts}
