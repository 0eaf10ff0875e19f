"""What was changed once there were data: rules of claims, expectations, health gates, how logs are read, the shared evaluation, runs.

Whoever may choose after the data which runs count, or which column is the reward, has chosen the result. Git knows it, in two ways: when
the lines of the spec were committed, and what the cards were in the commits before and since the data. What was the same on the newest
card from before the data is old; else it is late when the oldest card since the data had another one, or when its lines in the spec were
committed after the data.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from stages.contracts.analysis_card import ConcludeCard
from stages.contracts.artifact import ArtifactError, load_json
from stages.contracts.attempt import first_data, read_attempts
from stages.contracts.claim import ClaimRule
from stages.contracts.evaluation import Sampling
from stages.contracts.files import parse_json, read_text
from stages.contracts.layout import ExperimentFolder
from stages.contracts.lineage import Changed, Origin, Origins, Written
from stages.publish.numbers import listed

_SCREEN, _CONCLUDE = "analysis/screen.card.json", "analysis/conclude.card.json"
_OWN = "the rule was written or edited"
_UNCHANGED = "the rule itself is as it was committed before them"
_SECONDS = 5.0
_BLAMED = re.compile(r"([0-9a-f]{40,64}) \d+ (\d+)(?: \d+)?")


class RuleDate(NamedTuple):
    """When lines were committed (UTC; None when git cannot tell), and the same in words, or why git cannot tell."""

    at: datetime | None
    words: str


def changed_since(
    folder: ExperimentFolder,
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
    history = _History(folder, conclude, origins, began, imported)
    written = {claim: history.claim(claim) for claim in claims}
    expectations = {card.name: history.expectation(index) for index, card in enumerate(conclude.expectations)}
    withdrawn, dropped, added = history.came_and_went()
    return Changed(rules=written, expectations=expectations, withdrawn=withdrawn, dropped=dropped, added=added)


class _History:
    """What git says of the rules of one experiment."""

    def __init__(
        self, folder: ExperimentFolder, conclude: ConcludeCard, origins: Origins, began: Mapping[str, str | None], imported: bool
    ) -> None:
        self.folder, self.conclude, self.origins, self.began, self.imported = folder, conclude, origins, began, imported
        self.card_before, self.card_since, self.blame = cache(card_before), cache(card_since), cache(blame)
        self.data_of = "octavo first read its logs on" if imported else "the first data of"

    def first_data(self, conditions: Iterable[str] | None = None) -> datetime | None:
        """When the data of some conditions began, or of all."""
        runs = [run.name for run in self.conclude.runs if conditions is None or run.condition in conditions]
        return min((datetime.fromisoformat(at) for run in runs if (at := self.began.get(run))), default=None)

    def claim(self, claim: str) -> Written:
        """The claim's own rule, and the gates, the shared evaluation and the reading of logs that it rests on."""
        rule = next((rule for rule in self.conclude.claims if rule.id == claim), None)
        sides = _sides(rule)
        data = self.first_data(sides if rule else None)
        place = self.origins.claims.get(claim)
        written, late = self._rule("claims", claim, place, data)
        if rule is None or data is None or late:
            return Written(written=written, late=_OWN if late else "")
        gates = self._edited_gates(data) if rule.included_only else []
        if gates:
            why = "the health gates that decide which runs count were edited"
            return Written(written=f"{written}; health gates edited after them: {listed(gates)}", late=why)
        if rule.metric.startswith("evaluation.") and self._edited(self.folder.evaluate_card, _measure, rule.metric.split(".")[1], data):
            why = "the shared evaluation that it rests on was edited"
            return Written(written=f"{written}; the shared evaluation was edited after them", late=why)
        read_by = next((run.name for run in self.conclude.runs if self.imported and run.condition in sides), None)
        if read_by and self._edited(self.folder.run(read_by).import_card, _reading, rule.metric, data):
            why = "the steps or columns that its runs are read by were edited"
            return Written(written=f"{written}; how its logs are read was edited after that", late=why)
        return Written(written=written)

    def expectation(self, index: int) -> Written:
        card = self.conclude.expectations[index]
        place = self.origins.cards.get(_CONCLUDE, {}).get(f"/expectations/{index}")
        written, late = self._rule("expectations", card.name, place, self.first_data(card.conditions))
        return Written(written=written, late=_OWN if late else "")

    def _rule(self, kind: str, id_: str, place: Origin | None, data: datetime | None) -> tuple[str, bool]:
        """(when a rule was written against its data, whether it is younger)."""
        date = self._date(place)
        words, late = against_data(date, data, self.data_of)
        if data is None:
            return words, False
        now, before, since = (_rule_of(card, kind, id_) for card in self._versions(self.folder.conclude_card, data))
        if now and since and not _same(since, now):
            words, late = f"{words}; the rule was another in the first commit since", True
        if late and now and before and _same(before, now):
            words, late = f"{words}; {_UNCHANGED}", False
        return words, late

    def _edited_gates(self, data: datetime) -> list[str]:
        """Names of gates that came, went or changed after the data."""
        now, before, since = (card and card["gates"] for card in self._versions(self.folder.screen_card, data))
        if now is None or now == before:
            return []
        edited = [name for name in dict.fromkeys((*now, *since)) if now.get(name) != since.get(name)] if since is not None else []
        places = self.origins.cards.get(_SCREEN, {})
        return edited or [name for name in now if (at := self._date(places.get(f"/gates/{name}")).at) and at > data]

    def _edited(self, card: Path, part: Callable[[Any, str], Any], name: str, data: datetime) -> bool:
        """Whether a part of a card is neither what it was before the data nor what it was when they were committed."""
        now, before, since = (content and part(content, name) for content in self._versions(card, data))
        return bool(now and since and now not in (before, since))

    def _versions(self, card: Path, data: datetime) -> tuple[Any, Any, Any]:
        """A card now, in the newest commit from before the data, and in the oldest since; None where there is none."""
        return load_json(card) if card.is_file() else None, self.card_before(card, data), self.card_since(card, data)

    def _date(self, place: Origin | None) -> RuleDate:
        if place is None or not place.file or not place.line:
            return RuleDate(None, "unknown: the spec's place is not known")
        return rule_date(Path(place.file), place.line, self.blame(Path(place.file)))

    def came_and_went(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """(claims and expectations withdrawn, runs dropped, runs added) since the data; ledgers that lie there tell of runs too."""
        data, now = self.first_data(), self.conclude
        then = self.card_since(self.folder.conclude_card, data) if data else None
        declared = {run.name: None for run in now.runs}
        ledgers = sorted(path.parent.name for path in self.folder.root.glob("*/attempts.jsonl") if _had_data(path))
        before = [run["name"] for run in then["runs"]] if then else []
        dropped = tuple(dict.fromkeys(name for name in (*before, *ledgers) if name not in declared))
        if then is None:
            return (), dropped, ()
        kept = {("claim", claim.id) for claim in now.claims} | {("expectation", card.name) for card in now.expectations}
        ids = [("claim", rule["id"]) for rule in then["claims"]] + [("expectation", rule["id"]) for rule in then.get("expectations", ())]
        withdrawn = tuple(f"{kind} {id_}" for kind, id_ in ids if (kind, id_) not in kept)
        return withdrawn, dropped, tuple(name for name in declared if name not in before)


def _sides(rule: ClaimRule | None) -> set[str]:
    if rule is None:
        return set()
    return {rule.contrast.condition, rule.contrast.against} if rule.contrast else {rule.condition or ""}


def _had_data(ledger: Path) -> bool:
    try:
        return first_data(read_attempts(ledger)) is not None
    except (ArtifactError, OSError, ValueError):
        return True


def _rule_of(card: Any, kind: str, id_: str) -> Any:
    return next((rule for rule in (card or {}).get(kind, ()) if rule["id"] == id_), None)


def _same(then: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """A later version may have added a key to rules."""
    return all(now.get(key) == value for key, value in then.items())


def _measure(card: Mapping[str, Any], score: str) -> Any:
    """A score of the shared evaluation, and how its completions are sampled."""
    combined = [entry for entry in card.get("combined", ()) if entry["name"] == score]
    scores = [entry for entry in card["scores"] if combined or entry["name"] == score]  # a combined one may rest on any
    return [card.get(key) for key in Sampling.model_fields], scores, combined


def _reading(card: Mapping[str, Any], metric: str) -> Any:
    """The steps of an imported run, and the column of a metric."""
    rest = {key: value for key, value in card["read"].items() if key not in ("columns", "summary", "config")}
    columns = [entry for kind in ("columns", "summary") for entry in card["read"].get(kind, ()) if entry["metric"] == metric]
    return card["target_steps"], rest, columns


def against_data(date: RuleDate, data: datetime | None, data_of: str = "the first data of") -> tuple[str, bool]:
    """(`2026-11-27 22:10 UTC, commit 1f2e3d4c5b, before the first data of 2026-11-28 00:03`, whether the lines are younger)."""
    began = f"{data_of} {data:%Y-%m-%d %H:%M}" if data else ""
    if date.at is None:
        return date.words + (f", so it is not known to be older than {began}" if data else ""), False
    if data is None:
        return f"{date.words}; there are no data yet", False
    return f"{date.words}, {'after' if date.at > data else 'before'} {began}", date.at > data


Blamed = Mapping[int, tuple[int, str]]
"""Line -> seconds of its commit, and the commit's id: zeros of a line that is not committed, empty at the end of a shallow history."""


def blame(spec: Path) -> Blamed | str:
    """When each line of a spec was committed, or why git cannot tell."""
    try:
        shallow = _git("rev-parse", "--is-shallow-repository").strip() == "true"
        porcelain = _git("blame", "--line-porcelain", "--ignore-revs-file=", "--", spec.as_posix())
    except subprocess.CalledProcessError as error:
        return "not committed yet" if "no such path" in str(error.stderr) else "unknown: not in a git repository"
    except (OSError, subprocess.TimeoutExpired):
        return "unknown: git did not answer"
    lines: dict[int, tuple[int, str]] = {}
    commit, number = "", 0
    for line in porcelain.split("\n"):  # not splitlines: a comment of a spec may hold other ends of lines
        if match := _BLAMED.fullmatch(line):
            commit, number = match[1], int(match[2])
        elif line.startswith("committer-time "):
            lines[number] = int(line.split()[1]), commit
        elif line == "boundary" and shallow:
            lines[number] = lines[number][0], ""
    return lines


def rule_date(spec: Path, start: int, blamed: Blamed | str) -> RuleDate:
    """When the newest line of the rule that begins at a line of the spec was committed."""
    if not spec.is_file():
        return RuleDate(None, "unknown: the spec is not here")
    if isinstance(blamed, str):
        return RuleDate(None, blamed)
    commits = [blamed[line] for line in _rule_lines(read_text(spec).split("\n"), start) if line in blamed]
    if not commits:
        return RuleDate(None, "unknown: git does not know these lines")
    if any(commit and not commit.strip("0") for _, commit in commits):
        return RuleDate(None, "not committed yet")
    if any(not commit for _, commit in commits):
        return RuleDate(None, "unknown: the clone is shallow")
    seconds, commit = max(commits)
    at = datetime.fromtimestamp(seconds, UTC)
    return RuleDate(at, f"{at:%Y-%m-%d %H:%M} UTC, commit {commit[:10]}")


def _rule_lines(text: Sequence[str], start: int) -> range:
    """Numbers of a rule's lines: to the next line that is not indented deeper than its first, blank lines and comments aside."""
    code = {at: line for at, line in enumerate(text, start=1) if line.strip() and not line.lstrip().startswith("#")}
    indents = {at: len(line) - len(line.lstrip()) for at, line in code.items()}
    end = next((at for at in indents if at > start and indents[at] <= indents.get(start, 0)), len(text) + 1)
    return range(start, max((at for at in indents if start < at < end), default=start) + 1)


def card_before(card: Path, data: datetime) -> Any:
    """A card in its newest commit from before the data; None when git has none."""
    return _card_in(_last_before(card, data), card)


def card_since(card: Path, data: datetime) -> Any:
    """A card as the oldest commit since the data has it, whatever that commit was about. None when nothing was committed since."""
    try:  # commits of other branches, merged later, do not know what ran here; --since would cut --ancestry-path short
        base = _last_before(card, data)
        which = ["--ancestry-path", f"{base}..HEAD"] if base else ["HEAD"]
        dated = [line.split() for line in _git("rev-list", "--reverse", "--timestamp", *which).splitlines()]
    except (subprocess.SubprocessError, OSError):
        return None
    return _card_in(next((commit for seconds, commit in dated if int(seconds) >= data.timestamp()), ""), card)


def _last_before(path: Path, data: datetime) -> str:
    """The newest commit of a file from before the data; empty when there is none."""
    try:
        return _git("rev-list", "-1", f"--before={data.isoformat()}", "HEAD", "--", path.as_posix()).strip()
    except (subprocess.SubprocessError, OSError):
        return ""


def _card_in(commit: str, card: Path) -> Any:
    try:
        content = parse_json(_git("show", f"{commit}:./{card.as_posix()}")) if commit else None
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
