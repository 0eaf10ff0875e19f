"""What was changed once there were data: rules of claims, health gates, how logs are read, the shared evaluation, expectations, runs.

Whoever may choose after the data which runs count, or which column is the reward, has chosen the result. Git tells it, by the cards in
commits from before and since the data, and by the lines of the spec. It is asked with fixed arguments.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from stages.contracts.analysis_card import ConcludeCard, ScreenCard
from stages.contracts.artifact import ArtifactError, load_json, read
from stages.contracts.attempt import first_data, read_attempts
from stages.contracts.claim import ClaimRule
from stages.contracts.evaluation import Sampling
from stages.contracts.layout import ExperimentFolder
from stages.contracts.lineage import Changed, Origin, Origins, Written
from stages.publish.numbers import listed

_SCREEN, _CONCLUDE = "analysis/screen.card.json", "analysis/conclude.card.json"
_OWN = "the rule was written or edited"
_GATES = "the health gates that decide which runs count were edited"
_READ = "the steps or columns that its runs are read by were edited"
_MEASURE = "the shared evaluation that it rests on was edited"
_UNCHANGED = "the rule itself is as it was committed before them"
READ = "octavo first read its logs on"
"""In place of the first data, of runs that existed before octavo saw them."""
_SECONDS = 5.0
_BLAMED = re.compile(r"([0-9a-f]{40,64}) \d+ (\d+)(?: \d+)?")
_SAYS = re.compile(r"\s+says:")
_Card = Mapping[str, Any]


def changed_since(
    folder: ExperimentFolder,
    spec: Path,
    conclude: ConcludeCard | None,
    origins: Origins,
    began: Mapping[str, str | None],
    *,
    claims: Iterable[str],
    imported: bool,
) -> Changed:
    """`began`: when the first attempt of each declared run began (UTC, ISO 8601), null before there is one. `imported`: octavo trained
    none of them, so all it knows is when it first read them."""
    if conclude is None:
        return Changed(rules={claim: Written(written="unknown: there is no card of the analysis") for claim in claims})
    history = _History(folder, spec, origins, READ if imported else "the first data of")
    rules = {claim.id: claim for claim in conclude.claims}

    def first(conditions: Iterable[str] | None) -> str | None:
        """When the data of some conditions began, or of all."""
        runs = [run.name for run in conclude.runs if conditions is None or run.condition in conditions]
        return min((at for run in runs if (at := began.get(run))), default=None)

    written = {}
    for claim in claims:
        rule = rules.get(claim)
        sides = _sides(rule)
        read_by = [run.name for run in conclude.runs if rule and run.condition in sides] if imported else []
        written[claim] = history.claim(claim, rule, first(sides if rule else None), read_by)
    scored = {
        card.name: history.expectation(index, card.model_dump(mode="json"), first(card.conditions))
        for index, card in enumerate(conclude.expectations)
    }
    data = min((at for at in began.values() if at), default=None)
    withdrawn, dropped, added = _came_and_went(folder, history.after(folder.conclude_card, data) if data else None, conclude)
    return Changed(rules=written, expectations=scored, withdrawn=withdrawn, dropped=dropped, added=added)


def _sides(rule: ClaimRule | None) -> set[str]:
    if rule is None:
        return set()
    return {rule.contrast.condition, rule.contrast.against} if rule.contrast else {rule.condition or ""}


def _came_and_went(folder: ExperimentFolder, then: _Card | None, now: ConcludeCard) -> tuple[tuple[str, ...], ...]:
    """(claims and expectations withdrawn, runs dropped, runs added) since the card of `then`; ledgers that lie there tell of runs too."""
    declared = {run.name: None for run in now.runs}
    ledgers = sorted(path.parent.name for path in folder.root.glob("*/attempts.jsonl") if _had_data(path))
    before = [run["name"] for run in then["runs"]] if then else []
    gone = tuple(dict.fromkeys(name for name in (*before, *ledgers) if name not in declared))
    if then is None:
        return (), gone, ()
    claims, expectations = {claim.id for claim in now.claims}, {card.name for card in now.expectations}
    withdrawn = [f"claim {claim['id']}" for claim in then["claims"] if claim["id"] not in claims]
    withdrawn += [f"expectation {card['id']}" for card in then.get("expectations", ()) if card["id"] not in expectations]
    return tuple(withdrawn), gone, tuple(name for name in declared if name not in before)


def _had_data(ledger: Path) -> bool:
    try:
        return first_data(read_attempts(ledger)) is not None
    except (ArtifactError, OSError, ValueError):
        return True


class _History:
    """What git says of the rules of one experiment. `what` names the first data. Each question to git is asked once."""

    def __init__(self, folder: ExperimentFolder, spec: Path, origins: Origins, what: str) -> None:
        self._folder, self._origins, self._what = folder, origins, what
        self._before, self.after = cache(card_before), cache(card_after)
        self._claims = rule_dates(spec, {claim: place.line for claim, place in origins.claims.items() if place.line})

    def claim(self, claim: str, rule: ClaimRule | None, data: str | None, read_by: list[str]) -> Written:
        """`read_by`: imported runs that the claim is about."""
        written, late = against_data(self._claims.get(claim), data, self._what)
        if rule is None or data is None:
            return Written(written=written, late=_OWN if late else "")
        now = rule.model_dump(mode="json")
        then = _entry(self.after(self._folder.conclude_card, data), "claims", claim)
        if then is not None and any(now.get(key) != value for key, value in then.items()):
            written, late = f"{written}; the rule was another in the first commit since", True
        if late and self._stood("claims", now, self._origins.claims.get(claim), data):
            written, late = f"{written}; {_UNCHANGED}", False
        if late:
            return Written(written=written, late=_OWN)
        if rule.included_only and (edited := self._gates(data)):
            return Written(written=f"{written}; health gates edited after them: {edited}", late=_GATES)
        if rule.metric.startswith("evaluation.") and self._differs(self._folder.evaluate_card, data, _measure, rule.metric.split(".")[1]):
            return Written(written=f"{written}; the shared evaluation was edited after them", late=_MEASURE)
        if read_by and self._differs(self._folder.run(read_by[0]).import_card, data, _reading, rule.metric):
            return Written(written=f"{written}; how its logs are read was edited after that", late=_READ)
        return Written(written=written)

    def expectation(self, index: int, card: _Card, data: str | None) -> Written:
        place = self._origins.cards.get(_CONCLUDE, {}).get(f"/expectations/{index}")
        written, late = against_data(_dates([place] if place else []).get(0), data, self._what)
        late = late and data is not None and not self._stood("expectations", card, place, data)
        return Written(written=written, late=_OWN if late else "")

    def _stood(self, kind: str, now: _Card, place: Origin | None, data: str) -> bool:
        """Whether the rule was the same before the data: on the committed card, or word for word in the spec."""
        if _entry(self._before(self._folder.conclude_card, data), kind, now["id"]) == now:
            return True
        return bool(place and place.file and place.line and stood_before(Path(place.file), place.line, data))

    def _gates(self, data: str) -> str:
        """Names of gates that came, went or changed after the data."""
        try:
            now = read(ScreenCard, self._folder.screen_card).model_dump(mode="json")["gates"]
        except ArtifactError:
            return ""
        places = [place for name in now if (place := self._origins.cards.get(_SCREEN, {}).get(f"/gates/{name}"))]
        if len(places) == len(now) > 0 and all(_block_stood(place, data) for place in places):
            return ""
        before, after = self._before(self._folder.screen_card, data), self.after(self._folder.screen_card, data)
        if before is not None and before["gates"] == now:
            return ""
        old = now if after is None else after["gates"]
        differ = [name for name in dict.fromkeys((*now, *old)) if now.get(name) != old.get(name)]
        if differ or len(places) < len(now):
            return listed(differ)
        late = [at for at, date in _dates(places).items() if against_data(date, data)[1]]
        return listed([list(now)[at] for at in late if not stood_before(Path(places[at].file or ""), places[at].line or 0, data)])

    def _differs(self, card: Path, data: str, part: Callable[[_Card, str], Any], name: str) -> bool:
        """Whether a part of a card was another in the oldest commit since the data."""
        then = self.after(card, data)
        return then is not None and card.is_file() and part(then, name) != part(load_json(card), name)


def _measure(card: _Card, score: str) -> Any:
    """A score of the shared evaluation, and how its completions are sampled."""
    combined = [entry for entry in card.get("combined", ()) if entry["name"] == score]
    scores = [entry for entry in card["scores"] if combined or entry["name"] == score]  # a combined one may rest on any
    return [card.get(key) for key in Sampling.model_fields], scores, combined


def _reading(card: _Card, metric: str) -> Any:
    """The steps of an imported run, and the column of a metric."""
    rest = {key: value for key, value in card["read"].items() if key not in ("columns", "summary", "config")}
    columns = [entry for kind in ("columns", "summary") for entry in card["read"].get(kind, ()) if entry["metric"] == metric]
    return card["target_steps"], rest, columns


def _entry(card: _Card | None, kind: str, id_: str) -> Any:
    return next((entry for entry in (card or {}).get(kind, ()) if entry["id"] == id_), None)


def _dates(places: list[Origin]) -> dict[int, RuleDate]:
    """When the lines of each place were committed; places that are defaults have no date."""
    dates: dict[int, RuleDate] = {}
    for file in dict.fromkeys(place.file for place in places if place.file):
        starts = {str(at): place.line for at, place in enumerate(places) if place.file == file and place.line}
        dates |= {int(at): date for at, date in rule_dates(Path(file), starts).items()}
    return dates


def _block_stood(place: Origin, data: str) -> bool:
    """Whether the block that a gate is in stood in its file word for word before the data."""
    spec = Path(place.file or "")
    return bool(place.file and place.line) and stood_before(spec, _block_start(spec, place.line or 0), data)


@dataclass(frozen=True)
class RuleDate:
    """`at` is UTC, ISO 8601; None when git cannot tell, and `why` says why."""

    at: str | None
    commit: str = ""
    why: str = ""


def against_data(rule: RuleDate | None, data: str | None, what: str = "the first data of") -> tuple[str, bool]:
    """(`2026-11-27 22:10 (commit 1f2e3d4c5b), before the first data of 2026-11-28 00:03`, whether the rule is younger than the data)."""
    began = f"{what} {_short(data)}" if data else ""
    if rule is None or rule.at is None:
        why = rule.why if rule else "unknown: the spec's place is not known"
        return why + (f", so it is not known to be older than {began}" if began else ""), False
    words = f"{_short(rule.at)} UTC, commit {rule.commit}"
    if data is None:
        return f"{words}; there are no data yet", False
    late = datetime.fromisoformat(rule.at) > datetime.fromisoformat(data)
    return f"{words}, {'after' if late else 'before'} {began}", late


def _short(at: str) -> str:
    return at[:16].replace("T", " ")


def rule_dates(spec: Path, starts: Mapping[str, int]) -> dict[str, RuleDate]:
    """For each rule, by its first line in the spec, when the newest of its lines was committed."""
    if not starts or not spec.is_file():
        return {rule: RuleDate(None, why="unknown: the spec is not here") for rule in starts}
    try:
        shallow = _git("rev-parse", "--is-shallow-repository").strip() == "true"
        blamed = _blame(_git("blame", "--line-porcelain", "--ignore-revs-file=", "--", spec.as_posix()))
    except subprocess.CalledProcessError as error:
        why = "not committed yet" if "no such path" in str(error.stderr) else "unknown: not in a git repository"
        return {rule: RuleDate(None, why=why) for rule in starts}
    except (OSError, subprocess.TimeoutExpired):
        return {rule: RuleDate(None, why="unknown: git did not answer") for rule in starts}
    text = spec.read_text(encoding="utf-8").splitlines()
    return {rule: _newest([blamed[n] for n in _entry_lines(text, start) if n in blamed], shallow) for rule, start in starts.items()}


def _blame(porcelain: str) -> dict[int, tuple[int, str, bool]]:
    """Line -> seconds of its commit, the commit's id, and whether git's history ends with it."""
    lines: dict[int, tuple[int, str, bool]] = {}
    commit, number = "", 0
    for line in porcelain.splitlines():
        if match := _BLAMED.fullmatch(line):
            commit, number = match[1], int(match[2])
        elif line.startswith("committer-time "):
            lines[number] = int(line.split()[1]), commit, False
        elif line == "boundary":
            lines[number] = (*lines[number][:2], True)
    return lines


def _newest(commits: list[tuple[int, str, bool]], shallow: bool) -> RuleDate:
    if not commits:
        return RuleDate(None, why="unknown: git does not know these lines")
    if any(not commit.strip("0") for _, commit, _ in commits):
        return RuleDate(None, why="not committed yet")
    if shallow and any(boundary for _, _, boundary in commits):
        return RuleDate(None, why="unknown: the clone is shallow")
    seconds, commit, _ = max(commits)
    return RuleDate(datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), commit[:10])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_code(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _entry_lines(text: list[str], start: int) -> range:
    """Numbers of an entry's lines: to the next line that is not indented deeper than its dash, blank lines and comments aside."""
    dash = _indent(text[start - 1]) if start <= len(text) else 0
    last = start
    for number in range(start + 1, len(text) + 1):
        if _is_code(text[number - 1]):
            if _indent(text[number - 1]) <= dash:
                break
            last = number
    return range(start, last + 1)


def _block_start(spec: Path, line: int) -> int:
    """The line that opens the block which a line of the spec is in: itself when it holds the block's name and all of it."""
    lines = spec.read_text(encoding="utf-8").splitlines() if spec.is_file() else []
    if not 0 < line <= len(lines):
        return line
    indent = _indent(lines[line - 1])
    return next((n for n in range(line - 1, 0, -1) if _is_code(lines[n - 1]) and _indent(lines[n - 1]) < indent), line)


def stood_before(spec: Path, start: int, data: str) -> bool:
    """Whether the entry that begins at a line of the spec stood there word for word in the newest commit from before `data`: an edit that
    was taken back is none."""
    try:
        commit = _last_before(spec, data)
        older = _git("show", f"{commit}:./{spec.as_posix()}").splitlines() if commit else []
        now = spec.read_text(encoding="utf-8").splitlines()
    except (subprocess.SubprocessError, OSError, ValueError):
        return False
    entry, before = _rule_lines([now[number - 1] for number in _entry_lines(now, start) if number <= len(now)]), _rule_lines(older)
    size = len(entry)
    places = (at for at in range(len(before) - size + 1) if before[at : at + size] == entry)
    return bool(entry) and any(len(_entry_lines(before, at + 1)) == size for at in places)  # not the beginning of a longer one


def _rule_lines(lines: list[str]) -> list[str]:
    """Without comments, blank lines, and the sentence of a claim: words are no rule."""
    kept: list[str] = []
    says: int | None = None
    for line in filter(_is_code, lines):
        if says is None or _indent(line) <= says:
            says = _indent(line) if _SAYS.match(line) else None
            if says is None:
                kept.append(line.rstrip())
    return kept


def card_before(card: Path, data: str) -> _Card | None:
    """A card in its newest commit from before `data` (UTC, ISO 8601); None when git has none."""
    try:
        return _card_in(_last_before(card, data), card)
    except (subprocess.SubprocessError, OSError):
        return None


def card_after(card: Path, data: str) -> _Card | None:
    """A card as the oldest commit since `data` has it, whatever that commit was about: what differs from it now was edited once there were
    data. None when nothing was committed since."""
    try:  # commits of other branches, merged later, do not know what ran here; --since would cut --ancestry-path short
        base = _last_before(card, data)
        which = ["--ancestry-path", f"{base}..HEAD"] if base else ["HEAD"]
        dated = [line.split() for line in _git("rev-list", "--reverse", "--timestamp", *which).splitlines()]
    except (subprocess.SubprocessError, OSError):
        return None
    began = datetime.fromisoformat(data).timestamp()
    return _card_in(next((commit for seconds, commit in dated if int(seconds) >= began), ""), card)


def _last_before(path: Path, data: str) -> str:
    """The newest commit of a file from before `data`; empty when there is none. Raises as `_git` does."""
    return _git("rev-list", "-1", f"--before={data}", "HEAD", "--", path.as_posix()).strip()


def _card_in(commit: str, card: Path) -> _Card | None:
    try:
        content = json.loads(_git("show", f"{commit}:./{card.as_posix()}")) if commit else None
    except (subprocess.SubprocessError, OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def whole_history() -> bool:
    """Whether git knows everything that was committed: not in a shallow clone, nor where there is no repository."""
    try:
        return _git("rev-parse", "--is-shallow-repository").strip() == "false"
    except (subprocess.SubprocessError, OSError):
        return False


def _git(*arguments: str) -> str:
    command = ["git", "-c", "core.fsmonitor=false", "-c", "blame.showRoot=false", *arguments]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=True).stdout
