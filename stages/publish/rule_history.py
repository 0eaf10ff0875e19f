"""What was changed once there were data: rules of claims, expectations, health gates, how logs are read, the shared evaluation, runs.

Whoever may choose after the data which runs count, or which column is the reward, has chosen the result. Git knows it, in two ways: when
the lines of the spec were committed, and what the cards were in the commits before and since the data. What was the same on the newest
card from before the data is old; else it is late when the oldest card since the data had another one, or when its lines in the spec were
committed after the data.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from stages.contracts.analysis_card import ConcludeCard
from stages.contracts.artifact import ArtifactError, load_json
from stages.contracts.attempt import first_data, read_attempts
from stages.contracts.claim import ClaimRule
from stages.contracts.evaluation import Sampling
from stages.contracts.files import GIT, parse_json, read_text
from stages.contracts.layout import ExperimentFolder
from stages.contracts.lineage import Changed, Origin, Origins, Written
from stages.publish.numbers import listed

_OWN = "the rule was written or edited"
_UNCHANGED = "the rule itself is as it was committed before them"
_SECONDS = 5.0
_BLAMED = re.compile(r"^([0-9a-f]{40,64}) \d+ (\d+)(?: \d+)?\n(.*?)^\t", re.DOTALL | re.MULTILINE)
Blamed = Mapping[int, tuple[int, str]]
"""Line -> seconds of its commit, and the commit's id: zeros of a line that is not committed, empty at the end of a shallow history."""
Versions = tuple[Any, Any, Any]
"""A card now, before the data and since; None where git has none."""

_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
"""What ends a line of YAML; of git only a line feed does."""


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


@dataclass(frozen=True)
class _History:
    """What git says of the rules of one experiment."""

    folder: ExperimentFolder
    conclude: ConcludeCard
    origins: Origins
    began: Mapping[str, str | None]
    imported: bool
    versions: Callable[[Path, datetime], Versions] = field(default_factory=lambda: cache(card_versions))
    blame: Callable[[Path], Blamed | str] = field(default_factory=lambda: cache(blame))

    def first_data(self, conditions: Iterable[str] | None = None) -> datetime | None:
        """When the data of some conditions began, or of all."""
        runs = [run.name for run in self.conclude.runs if conditions is None or run.condition in conditions]
        return min((datetime.fromisoformat(at) for run in runs if (at := self.began.get(run))), default=None)

    def claim(self, claim: str) -> Written:
        """The claim's own rule, and the gates, the shared evaluation and the reading of logs that it rests on."""
        rule = next((rule for rule in self.conclude.claims if rule.id == claim), None)
        data = self.first_data(rule.sides if rule else None)
        written, late = self._rule("claims", claim, self.origins.claims.get(claim), data)
        if rule is None or data is None or late:
            return Written(written=written, late=_OWN if late else "")
        words, why = next(self._edited_below(rule, data), ("", ""))
        return Written(written=f"{written}; {words}" if words else written, late=why)

    def _edited_below(self, rule: ClaimRule, data: datetime) -> Iterator[tuple[str, str]]:
        """(what of that on which a claim rests was edited after the data, the same as a cause)."""
        others = [ExperimentFolder(self.folder.root.parent / rule.elsewhere.experiment)] if rule.elsewhere else []
        if rule.included_only and (gates := [gate for folder in (self.folder, *others) for gate in self._edited_gates(folder, data)]):
            yield f"health gates edited after them: {listed(gates)}", "the health gates that decide which runs count were edited"
        if rule.metric.startswith("evaluation.") and self._edited(self.folder.evaluate_card, _measure, rule.metric.split(".")[1], data):
            yield "the shared evaluation was edited after them", "the shared evaluation that it rests on was edited"
        run = next((run.name for run in self.conclude.runs if self.imported and run.condition in rule.sides), None)
        if run and self._edited(self.folder.run(run).import_card, _reading, rule.metric, data):
            yield "how its logs are read was edited after that", "the steps or columns that its runs are read by were edited"

    def expectation(self, index: int) -> Written:
        card = self.conclude.expectations[index]
        place = self.origins.cards.get("analysis/conclude.card.json", {}).get(f"/expectations/{index}")
        written, late = self._rule("expectations", card.name, place, self.first_data(card.conditions))
        return Written(written=written, late=_OWN if late else "")

    def _rule(self, kind: str, id_: str, place: Origin | None, data: datetime | None) -> tuple[str, bool]:
        """(when a rule was written against its data, whether it is younger)."""
        words, late = against_data(self._date(place), data, "octavo first read its logs on" if self.imported else "the first data of")
        if data is None:
            return words, False
        now, before, since = (_rule_of(card, kind, id_) for card in self.versions(self.folder.conclude_card, data))
        if now and since and not _same(since, now):
            words, late = f"{words}; the rule was another in the first commit since", True
        if late and now and before and _same(before, now):
            words, late = f"{words}; {_UNCHANGED}", False
        return words, late

    def _edited_gates(self, folder: ExperimentFolder, data: datetime) -> list[str]:
        """Names of gates that came, went or changed after the data; those of another experiment only where its cards tell."""
        now, before, since = (card and card["gates"] for card in self.versions(folder.screen_card, data))
        if now is None or now == before:
            return []
        edited = [name for name in dict.fromkeys((*now, *since)) if now.get(name) != since.get(name)] if since is not None else []
        places = self.origins.cards.get("analysis/screen.card.json", {}) if folder == self.folder else {}
        return edited or [name for name in now if (at := self._date(places.get(f"/gates/{name}")).at) and at > data]

    def _edited(self, card: Path, part: Callable[[Any, str], Any], name: str, data: datetime) -> bool:
        """Whether a part of a card is neither what it was before the data nor what it was when they were committed."""
        now, before, since = (content and part(content, name) for content in self.versions(card, data))
        return bool(now and since and now not in (before, since))

    def _date(self, place: Origin | None) -> RuleDate:
        if place is None or not place.file or not place.line:
            return RuleDate(None, "unknown: the spec's place is not known")
        return rule_date(Path(place.file), place.line, self.blame(Path(place.file)))

    def came_and_went(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """(claims and expectations withdrawn, runs dropped, runs added) since the data; ledgers that lie there tell of runs too."""
        data, now = self.first_data(), self.conclude
        _, _, then = self.versions(self.folder.conclude_card, data) if data else (None, None, None)
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


def blame(spec: Path) -> Blamed | str:
    """When each line of a spec was committed, or why git cannot tell."""
    try:
        shallow = not whole_history()
        porcelain = _git("blame", "--line-porcelain", "--ignore-revs-file=", "--", spec.as_posix())
    except subprocess.CalledProcessError as error:
        return "not committed yet" if "no such path" in str(error.stderr) else "unknown: not in a git repository"
    except (OSError, subprocess.TimeoutExpired):
        return "unknown: git did not answer"
    lines: dict[int, tuple[int, str]] = {}
    for commit, line, facts in _BLAMED.findall(porcelain):
        at_the_end = shallow and "boundary" in facts.split("\n")
        lines[int(line)] = int(facts.partition("\ncommitter-time ")[2].split()[0]), "" if at_the_end else commit
    return lines


def rule_date(spec: Path, start: int, blamed: Blamed | str) -> RuleDate:
    """When the newest line of the rule that begins at a line of the spec was committed."""
    if not spec.is_file():
        return RuleDate(None, "unknown: the spec is not here")
    if isinstance(blamed, str):
        return RuleDate(None, blamed)
    text = read_text(spec)
    in_git = list(accumulate(("\n" in end for end in _BREAK.findall(text)), initial=1))  # git's number of each line
    lines = _rule_lines(_BREAK.split(text), start)
    commits = [blamed[in_git[line - 1]] for line in lines if line <= len(in_git) and in_git[line - 1] in blamed]
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


def card_versions(card: Path, data: datetime) -> Versions:
    """A card now, in its newest commit from before the data, and as the oldest commit since has it, whatever that commit was about."""
    now = load_json(card) if card.is_file() else None
    try:  # commits of other branches, merged later, do not know what ran here; --since would cut --ancestry-path short
        base = _git("rev-list", "-1", f"--before={data.isoformat()}", "HEAD", "--", card.as_posix()).strip()
        dated = _git("rev-list", "--reverse", "--timestamp", *(["--ancestry-path", f"{base}..HEAD"] if base else ["HEAD"]))
    except (subprocess.SubprocessError, OSError):
        return now, None, None
    commits = (line.split() for line in dated.splitlines())
    return now, _card_in(base, card), _card_in(next((commit for at, commit in commits if int(at) >= data.timestamp()), ""), card)


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
    command = [*GIT, "-c", "blame.showRoot=false", *arguments]
    answer = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=True).stdout
    return answer.decode(errors="replace")  # as it is: only a line feed ends a line of git's, whatever a comment of a spec holds
