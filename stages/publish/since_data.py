"""What was changed once there were data: rules of claims, the gates that decide which runs count, how logs are read, expectations, runs.

A rule is not only its own lines: whoever may choose which runs count, or which column is the reward, after the data, has chosen the
result. Git tells, by the cards in commits from before and since the data, and by the lines of the spec.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from stages.contracts.analysis_card import ConcludeCard, ScreenCard
from stages.contracts.artifact import ArtifactError, load_json, read
from stages.contracts.attempt import first_data, read_attempts
from stages.contracts.claim import ClaimRule
from stages.contracts.dated import Changed, Written
from stages.contracts.evaluation import Sampling
from stages.contracts.layout import ExperimentFolder
from stages.contracts.origin import Origin, Origins
from stages.publish.committed import RuleDate, against_data, card_after, card_before, entry_start, rule_dates, stood_before
from stages.publish.numbers import listed

_SCREEN = "analysis/screen.card.json"
_CONCLUDE = "analysis/conclude.card.json"
_OWN = "the rule was written or edited"
_GATES = "the health gates that decide which runs count were edited"
_READ = "the steps or columns that its runs are read by were edited"
_MEASURE = "the shared evaluation that it rests on was edited"
READ = "octavo first read its logs on"
"""In place of the first data, of runs that existed before octavo saw them."""


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
    git = _Git(folder, spec, origins)
    what = READ if imported else "the first data of"
    if conclude is None:
        return Changed(rules={claim: Written(written="unknown: there is no card of the analysis") for claim in claims})
    rules = {claim.id: claim for claim in conclude.claims}
    runs = {run.name: run.condition for run in conclude.runs}
    found = {}
    for claim in claims:
        rule = rules.get(claim)
        data = _first(began, (name for name, condition in runs.items() if rule is None or condition in _sides(rule)))
        found[claim] = git.rule(claim, rule, data, what, next(iter(_read_of(rule, conclude)), None) if imported else None)
    scored = {}
    for index, card in enumerate(conclude.expectations):
        data = _first(began, (name for name, condition in runs.items() if condition in card.conditions))
        scored[card.id] = git.expectation(index, card.model_dump(mode="json"), data, what)
    data = _first(began, began)
    then = git.after(folder.conclude_card, data) if data else None
    withdrawn, dropped, added = _came_and_went(folder, then, conclude)
    return Changed(rules=found, expectations=scored, withdrawn=withdrawn, dropped=dropped, added=added)


def _sides(rule: ClaimRule) -> set[str]:
    return {rule.contrast.condition, rule.contrast.against} if rule.contrast else {rule.condition or ""}


def _first(began: Mapping[str, str | None], runs: Iterable[str]) -> str | None:
    return min((at for run in runs if (at := began.get(run))), default=None)


def _read_of(rule: ClaimRule | None, conclude: ConcludeCard) -> list[str]:
    """Runs of a claim."""
    return [run.name for run in conclude.runs if rule is not None and run.condition in _sides(rule)]


def _came_and_went(
    folder: ExperimentFolder, then: Mapping[str, Any] | None, now: ConcludeCard
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """(claims and expectations withdrawn, runs dropped, runs added) since the card of `then`; ledgers that lie there tell of runs too."""
    declared = {run.name: None for run in now.runs}
    ledgers = sorted(path.parent.name for path in folder.root.glob("*/attempts.jsonl") if _had_data(path))
    before = [run["name"] for run in then["runs"]] if then else []
    gone = tuple(dict.fromkeys(name for name in (*before, *ledgers) if name not in declared))
    if then is None:
        return (), gone, ()
    ids = {claim.id for claim in now.claims}, {card.id for card in now.expectations}
    withdrawn = [f"claim {claim['id']}" for claim in then["claims"] if claim["id"] not in ids[0]]
    withdrawn += [f"expectation {card['id']}" for card in then.get("expectations", ()) if card["id"] not in ids[1]]
    return tuple(withdrawn), gone, tuple(name for name in declared if name not in set(before))


def _had_data(ledger: Path) -> bool:
    try:
        return first_data(read_attempts(ledger)) is not None
    except (ArtifactError, OSError, ValueError):
        return True


class _Git:
    """Answers of git about one experiment, each asked for once."""

    def __init__(self, folder: ExperimentFolder, spec: Path, origins: Origins) -> None:
        self._folder, self._spec, self._origins = folder, spec, origins
        self._before: dict[tuple[Path, str], dict[str, Any] | None] = {}
        self._after: dict[tuple[Path, str], dict[str, Any] | None] = {}
        claims = {id_: place for id_, place in origins.claims.items() if place.line}
        self._claims = rule_dates(spec, {id_: place.line or 0 for id_, place in claims.items()})

    def before(self, card: Path, data: str) -> dict[str, Any] | None:
        if (card, data) not in self._before:
            self._before[card, data] = card_before(card, data)
        return self._before[card, data]

    def after(self, card: Path, data: str) -> dict[str, Any] | None:
        if (card, data) not in self._after:
            self._after[card, data] = card_after(card, data)
        return self._after[card, data]

    def rule(self, claim: str, rule: ClaimRule | None, data: str | None, what: str, read_by: str | None) -> Written:
        written, late = against_data(self._claims.get(claim), data, what)
        if rule is None or data is None:
            return Written(written=written, late=_OWN if late else "")
        then, now = _entry(self.after(self._folder.conclude_card, data), "claims", claim), rule.model_dump(mode="json")
        if then is not None and any(now.get(key) != value for key, value in then.items()):
            written, late = f"{written}; the rule was another in the first commit since", True
        if late and _entry(self.before(self._folder.conclude_card, data), "claims", claim) == rule.model_dump(mode="json"):
            written, late = f"{written}; the rule itself is as it was committed before them", False
        place = self._origins.claims.get(claim)
        if late and place and place.line and stood_before(self._spec, place.line, data):
            written, late = f"{written}; the rule itself is as it was committed before them", False
        if late:
            return Written(written=written, late=_OWN)
        edited = self._gates(data) if rule.included_only else ""
        if edited:
            return Written(written=f"{written}; health gates edited after them: {edited}", late=_GATES)
        if rule.metric.startswith("evaluation.") and self._measured(rule.metric.split(".")[1], data):
            return Written(written=f"{written}; the shared evaluation was edited after them", late=_MEASURE)
        if read_by and self._reading(read_by, rule.metric, data):
            return Written(written=f"{written}; how its logs are read was edited after that", late=_READ)
        return Written(written=written)

    def expectation(self, index: int, card: dict[str, Any], data: str | None, what: str) -> Written:
        place = self._origins.cards.get(_CONCLUDE, {}).get(f"/expectations/{index}")
        date = _dated([place] if place else []).get(0)
        written, late = against_data(date, data, what)
        if late and data and _entry(self.before(self._folder.conclude_card, data), "expectations", card["id"]) == card:
            late = False
        if late and data and place and place.file and place.line and stood_before(Path(place.file), place.line, data):
            late = False
        return Written(written=written, late=_OWN if late else "")

    def _gates(self, data: str) -> str:
        """Names of gates that came, went or changed after the data."""
        try:
            now = {gate.name: gate.model_dump(mode="json") for gate in read(ScreenCard, self._folder.screen_card).gates}
        except ArtifactError:
            return ""
        places = [place for index in range(len(now)) if (place := self._origins.cards.get(_SCREEN, {}).get(f"/gates/{index}"))]
        if len(places) == len(now) > 0 and all(_block_stood(place, data) for place in places):
            return ""
        before = self.before(self._folder.screen_card, data)
        if before is not None and _by_name(before) == now:
            return ""
        after = self.after(self._folder.screen_card, data)
        old = now if after is None else _by_name(after)
        differ = [name for name in (*now, *(name for name in old if name not in now)) if now.get(name) != old.get(name)]
        if differ or len(places) < len(now):
            return listed(differ)
        late = [
            index
            for index, date in _dated(places).items()
            if against_data(date, data)[1] and not stood_before(Path(places[index].file or ""), places[index].line or 0, data)
        ]
        return listed([list(now)[index] for index in late])

    def _reading(self, run: str, metric: str, data: str) -> bool:
        """Whether the steps, or the column of a metric, were read otherwise when octavo first read the log."""
        path = self._folder.run(run).import_card
        then = self.after(path, data)
        return then is not None and _reading(then, metric) != _reading(load_json(path), metric)

    def _measured(self, score: str, data: str) -> bool:
        """Whether a score of the shared evaluation, or how its completions are sampled, was another in the oldest commit since the data."""
        path = self._folder.evaluate_card
        then = self.after(path, data)
        return then is not None and path.is_file() and _measure(then, score) != _measure(load_json(path), score)


def _measure(card: Mapping[str, Any], score: str) -> tuple[Any, ...]:
    combined = [one for one in card.get("combined", ()) if one["name"] == score]
    scores = [one for one in card["scores"] if combined or one["name"] == score]  # a combined one may rest on any
    return [card.get(key) for key in Sampling.model_fields], scores, combined


def _by_name(screen: Mapping[str, Any]) -> dict[str, Any]:
    return {gate["name"]: gate for gate in screen["gates"]}


def _block_stood(place: Origin, data: str) -> bool:
    """Whether the block that a gate is in stood in its file word for word before the data."""
    spec = Path(place.file or "")
    return bool(place.file and place.line) and stood_before(spec, entry_start(spec, place.line or 0), data)


def _reading(card: Mapping[str, Any], metric: str) -> tuple[Any, ...]:
    rest = {key: value for key, value in card["read"].items() if key not in ("columns", "summary", "config")}
    columns = [one for kind in ("columns", "summary") for one in card["read"].get(kind, ()) if one["metric"] == metric]
    return card["target_steps"], rest, columns


def _entry(card: Mapping[str, Any] | None, kind: str, id_: str) -> Any:
    return next((found for found in (card or {}).get(kind, ()) if found["id"] == id_), None)


def _dated(places: list[Origin]) -> dict[int, RuleDate]:
    """When the lines of each place were committed; places that are defaults have no date."""
    found: dict[int, RuleDate] = {}
    for file in dict.fromkeys(place.file for place in places if place.file):
        starts = {str(index): place.line for index, place in enumerate(places) if place.file == file and place.line}
        found |= {int(index): date for index, date in rule_dates(Path(file), starts).items()}
    return found
