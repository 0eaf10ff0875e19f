"""Everything that a page is written from: the files of one experiment, read once. Missing files are None, broken files errors."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from stages.contracts.algorithms import AnyTrainCard
from stages.contracts.analysis_card import ConcludeCard, ConditionCard, RunRef
from stages.contracts.artifact import Artifact, ArtifactError, read
from stages.contracts.attempt import Attempt, Outcome, Started, first_data, read_attempts
from stages.contracts.evaluation import EvaluateCard
from stages.contracts.figure import Figure
from stages.contracts.finding import Finding, Findings, SeedValue, Verdict
from stages.contracts.health import Detection, Health, Signal
from stages.contracts.import_card import ImportCard, Imported
from stages.contracts.layout import ExperimentFolder, RunFolder
from stages.contracts.lineage import Changed, Origin, Origins
from stages.contracts.page_card import PageCard
from stages.contracts.preflight_card import Preflight, PreflightCard
from stages.contracts.progress import RunProgress
from stages.contracts.replay import Replay, read_replays
from stages.contracts.reward import Reward
from stages.publish.facts import metric_digits
from stages.publish.rule_history import changed_since

A = TypeVar("A", bound=Artifact)
RULES = "rules.json"
"""Of a page: what git said when it was built."""
RECORDED = "OCTAVO_RECORDED_RULES"
"""Environment variable of verify: path of the page's own `rules.json`."""


@dataclass(frozen=True)
class RunFiles:
    """One run with the files that exist."""

    ref: RunRef
    folder: RunFolder
    card: AnyTrainCard | None
    outcome: Outcome | None
    health: Health | None
    attempts: tuple[Attempt, ...]
    import_card: ImportCard | None = None
    """In place of `card`, of a run that octavo did not train."""
    imported: Imported | None = None
    progress: RunProgress | None = None
    """Of a page that is written while runs go on."""

    @property
    def state(self) -> str:
        """`finished`, `failed`, `missing`, or `unknown` (imported, and the log merely ends); of a run that goes on how it does."""
        if self.progress is not None and self.progress.goes_on:
            return self.progress.state
        if self.outcome is None:
            return "missing"
        return "finished" if self.outcome.finished else "unknown" if self.outcome.unknown else "failed"

    @property
    def only_read(self) -> bool:
        return self.import_card is not None and self.import_card.only_read

    @property
    def included(self) -> bool:
        return self.health is not None and self.health.included

    def detection(self, detector: str) -> Detection | None:
        return next((detection for detection in (self.health.detections if self.health else ()) if detection.detector == detector), None)

    @property
    def signals(self) -> list[Signal]:
        """Of all detectors."""
        return [signal for detection in (self.health.detections if self.health else ()) for signal in detection.signals]

    @property
    def left_out(self) -> list[str]:
        """Reasons, in plain words, that it does not count; none when it does."""
        if self.health is None:
            return ["no health was measured"]
        return [exclusion.says for exclusion in self.health.exclusions] or list(self.health.reasons)


@dataclass(frozen=True)
class Drawing:
    """A figure with its picture and table."""

    figure: Figure
    svg: Path
    csv: Path


@dataclass(frozen=True)
class ExperimentFiles:
    folder: ExperimentFolder
    card: PageCard
    origins: Origins
    conclusions: Findings
    runs: tuple[RunFiles, ...]
    preflight: Preflight | None
    preflight_card: PreflightCard | None
    drawings: tuple[Drawing, ...]
    conclude: ConcludeCard | None
    cited: tuple[Finding, ...] = ()
    """Findings of other experiments that the interpretation names; ids and subjects begin with `<experiment>:`."""

    @cached_property
    def evaluate(self) -> EvaluateCard | None:
        """The card of the shared evaluation."""
        return _maybe(EvaluateCard, self.folder.evaluate_card)

    @cached_property
    def findings(self) -> Mapping[str, Finding]:
        """By id."""
        return {finding.id: finding for finding in (*self.conclusions.findings, *self.cited)}

    @cached_property
    def digits(self) -> Mapping[str, int]:
        """Metric -> digits of its numbers on all pages of the experiment."""
        return metric_digits(self.findings.values())

    @cached_property
    def verdicts(self) -> Mapping[str, Verdict]:
        """By claim. A rule that is younger than its data decides nothing: its claim is void, for good."""
        return {verdict.claim: self._void_if_late(verdict) for verdict in self.conclusions.verdicts}

    def _void_if_late(self, verdict: Verdict) -> Verdict:
        rule = self.changed.rules.get(verdict.claim)
        if rule is None or not rule.late or verdict.verdict == "open":
            return verdict
        otherwise = f"; with this rule it would read {verdict.verdict}" if verdict.verdict != "void" else ""
        cause = f"{rule.late} after its data existed"
        why = f"Void: {cause} (committed {rule.written}){otherwise}."
        return verdict.model_copy(update={"verdict": "void", "why": why, "cause": cause, "detectable": None, "seeds_needed": None})

    @cached_property
    def changed(self) -> Changed:
        """What git says of rules, and of what they rest on, since the first data. verify gives the page's own record where git's history
        is not at hand."""
        recorded = os.environ.get(RECORDED)
        if recorded:
            return read(Changed, Path(recorded))
        return changed_since(
            self.folder,
            self.conclude,
            self.origins,
            {run.ref.name: first_data(run.attempts) for run in self.runs},
            claims=[claim.id for claim in self.card.claims],
            imported=self.imported,
        )

    @cached_property
    def imported(self) -> bool:
        """Whether octavo only read these runs, and neither it nor a program that it ran trained them."""
        return bool(self.runs) and all(run.only_read for run in self.runs)

    @property
    def retried(self) -> bool:
        """Whether some imported run has several logs, one of each try to train it."""
        return any(run.import_card is not None and bool(run.import_card.others) for run in self.runs)

    @property
    def logs(self) -> list[RunFiles]:
        """Runs whose numbers were read from logs that exist without octavo."""
        return [run for run in self.runs if run.imported and (run.import_card is None or run.only_read)]

    @property
    def included(self) -> int:
        """Runs that count."""
        return sum(run.included for run in self.runs)

    def why_out(self, seed: SeedValue) -> str:
        """Why a seed is left out of a number, or has no value, with the run's reasons in the page's words."""
        run = self.by_name.get(seed.run)
        if run is None or run.health is None or not run.health.reasons:
            return seed.why
        return seed.why.replace("; ".join(run.health.reasons), "; ".join(run.left_out))

    @property
    def starts(self) -> list[Started]:
        """How every attempt of every run began."""
        return [attempt.started for run in self.runs for attempt in run.attempts]

    @property
    def commits(self) -> list[str]:
        """Git commits of the attempts that made the runs' files."""
        starts = (a.started for run in self.runs for a in run.attempts if run.outcome is None or a.started.attempt == run.outcome.attempt)
        return list(dict.fromkeys(start.commit for start in starts if start.commit))

    @property
    def replays(self) -> list[Replay]:
        """Steps that were trained again, of runs as they are now: not of those that another card trained."""
        cards = {run.ref.name: run.outcome.card_id for run in self.runs if run.outcome}
        return [replay for replay in read_replays(self.folder.replays) if cards.get(replay.run) == replay.card_id]

    @property
    def data_until(self) -> str | None:
        """When the newest attempt ended, UTC."""
        return max((attempt.ended.at for run in self.runs for attempt in run.attempts if attempt.ended), default=None)

    @cached_property
    def by_name(self) -> Mapping[str, RunFiles]:
        return {run.ref.name: run for run in self.runs}

    def of_condition(self, name: str) -> tuple[RunFiles, ...]:
        return tuple(run for run in self.runs if run.ref.condition == name)

    def train_card(self, condition: str) -> AnyTrainCard | None:
        """The card of a condition's first run; its other runs differ in the seed only."""
        return next((run.card for run in self.of_condition(condition) if run.card), None)

    def reward(self, condition: str) -> Reward | None:
        """That a condition was trained with."""
        card = self.train_card(condition)
        return card.reward if card else None

    def origin(self, run: RunRef, pointer: str) -> Origin | None:
        """Where a value of a run's train or import card was written; the nearest parent that has a place."""
        if pointer == "/seed":
            return self.origins.seeds.get(str(run.seed))
        folder = self.folder.run(run.name)
        cards = (f"{run.condition}/{folder.card.name}", f"{run.name}/{folder.import_card.name}")
        places = next((places for card in cards if (places := self.origins.cards.get(card))), {})
        while pointer:
            if pointer in places:
                return places[pointer]
            pointer = pointer.rpartition("/")[0]
        return None

    def runs_of_subject(self, subject: str) -> tuple[RunFiles, ...]:
        """Runs behind a finding's subject: the run, the condition's runs, the own runs of a contrast, all of `experiment`, or none."""
        if subject == "experiment":
            return self.runs
        if subject in self.by_name:
            return (self.by_name[subject],)
        names = [condition.name for condition in self.card.conditions]
        return tuple(run for side in subject.split("-vs-") if side in names for run in self.of_condition(side))

    def condition(self, name: str) -> ConditionCard:
        return next(condition for condition in self.card.conditions if condition.name == name)


def load(root: Path, *, concluded: bool = True) -> ExperimentFiles:
    """Read an experiment's folder. Raises ArtifactError when the page's card or origins are missing or broken, or the findings;
    without `concluded` missing findings are no findings."""
    folder = ExperimentFolder(root)
    card = read(PageCard, folder.page_card)
    progress = {run.run: run for run in card.progress.runs} if card.progress else {}
    nothing = Findings(card_id="", experiment=card.experiment, claims_tested=0, findings=(), verdicts=())
    return ExperimentFiles(
        folder=folder,
        card=card,
        origins=read(Origins, folder.origins),
        conclusions=read(Findings, folder.findings) if concluded or folder.findings.exists() else nothing,
        runs=tuple(_run(folder.run(ref.name), ref, progress.get(ref.name)) for ref in card.runs),
        preflight=_maybe(Preflight, folder.preflight),
        preflight_card=_maybe(PreflightCard, folder.preflight_card),
        drawings=_drawings(folder.figures),
        conclude=_maybe(ConcludeCard, folder.conclude_card),
        cited=tuple(finding for name in card.cited for finding in _cited(root.parent / name)),
    )


def _cited(root: Path) -> Iterator[Finding]:
    """An experiment's findings as another one names them."""
    for finding in read(Findings, ExperimentFolder(root).findings).findings:
        id_, subject = (f"{root.name}:{text}" for text in (finding.id, finding.subject))
        yield finding.model_copy(update={"id": id_, "subject": subject, "says": f"{finding.says}; experiment {root.name}"})


def _run(folder: RunFolder, ref: RunRef, progress: RunProgress | None) -> RunFiles:
    return RunFiles(
        ref=ref,
        folder=folder,
        card=_maybe(AnyTrainCard, folder.card),
        outcome=_maybe(Outcome, folder.outcome),
        health=_maybe(Health, folder.health),
        attempts=read_attempts(folder.attempts),
        import_card=_maybe(ImportCard, folder.import_card),
        imported=_maybe(Imported, folder.imported),
        progress=progress,
    )


def _maybe(kind: type[A], path: Path) -> A | None:
    return read(kind, path) if path.exists() else None


def _drawings(folder: Path) -> tuple[Drawing, ...]:
    """Figures with a picture, but not that of claims: it holds verdicts without the date of their rules, and each claim has its bar."""
    paths = [path for path in sorted(folder.glob("*.json")) if path.with_suffix(".svg").exists() and path.stem != "claims"]
    drawings = tuple(Drawing(read(Figure, path), path.with_suffix(".svg"), path.with_suffix(".csv")) for path in paths)
    for drawing in drawings:
        if drawing.figure.name != drawing.svg.stem:  # names of files come from it
            what = f"the figure is called {drawing.figure.name!r}, not as its file"
            raise ArtifactError(drawing.svg.with_suffix(".json"), what, why="its picture and numbers lie under its name", fix="dvc repro")
    return drawings
