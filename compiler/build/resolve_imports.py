"""Imported runs -> cards: an import card a run, and the cards of analysis and the page as for any other experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from compiler.build.imports import ImportedRuns, filled, section
from compiler.build.inputs import BaseModel, Inputs
from compiler.build.resolve import Cards
from compiler.build.resolve_analysis import AnalysisCards
from compiler.document.layers import overlay
from compiler.document.units import factor
from compiler.language.expand import Run
from compiler.language.experiment import Experiment
from compiler.language.outside import CommandSpec, MetricUse
from stages.contracts.algorithms import ALGORITHMS, DEFAULT
from stages.contracts.artifact import Artifact, file_digest
from stages.contracts.history import metric
from stages.contracts.import_card import (
    Column,
    ColumnCard,
    CommandCard,
    ImportCard,
    LogReading,
    ReadCard,
    SourceCard,
    SummaryCard,
    SummaryKeys,
)
from stages.contracts.layout import RUNS, RunFolder
from stages.contracts.page_card import PageCard

CARD = RunFolder(RUNS).import_card.name
_USUAL = tuple(name for name in ALGORITHMS[DEFAULT].curves if name != "kl")


def resolve_imports(experiment: Experiment, imported: ImportedRuns, inputs: Inputs) -> Cards:
    """All cards. The checks have held: every run has a source."""
    cards = _Imports(experiment, imported, inputs)
    runs: dict[str, Artifact] = {f"{run.name}/{CARD}": cards.card(run) for run in imported.expansion.runs}
    return Cards(BaseModel("", "", None, None), {}, runs | cards.single())  # nothing is trained or sampled


class _Imports(AnalysisCards):
    """The cards that do not depend on training are made as for any other experiment."""

    def __init__(self, experiment: Experiment, imported: ImportedRuns, inputs: Inputs) -> None:
        self.sources, self.section = imported.sources, section(experiment)
        super().__init__(experiment, imported.expansion, inputs)

    def card(self, run: Run) -> ImportCard:
        command = self._command(run)
        return ImportCard(
            command=command,
            experiment=self.experiment.name,
            condition=run.setup.name,
            seed=run.seed,
            null_control=run.setup.condition.role == "null_control",
            source=self.sources[run.name] if command is None else SourceCard(path=f"(written by the program): {command.log}", sha256=""),
            read=self._read(run),
            target_steps=self.section.steps,
            code=self.inputs.code(["stages.train.collect" if command is None else "stages.train.command"]),
        )

    def _command(self, run: Run) -> CommandCard | None:
        """The program with the settings of the run's condition; None for an import."""
        if not isinstance(self.experiment.spec, CommandSpec):
            return None
        train = self.experiment.spec.train
        base, over = self.experiment.root.get("train", "settings"), run.setup.node.get("train", "settings")
        merged = overlay(base, over, "condition") if base is not None and over is not None else over or base
        return CommandCard(
            arguments=train.command,
            code=tuple(SourceCard(path=path, sha256=file_digest(Path(path))) for path in train.code),
            log=train.history.file,
            settings=merged.plain() if merged is not None else {},
        )

    def _read(self, run: Run) -> ReadCard:
        read = self.section
        return ReadCard(
            **{key: getattr(read, key) for key in LogReading.model_fields},
            where={key: _where(filled(value, read, run), run) if isinstance(value, str) else value for key, value in read.where.items()},
            columns=tuple(_column(name, source) for name, source in read.metrics.items() if not isinstance(source, SummaryKeys)),
            summary=tuple(_summary(name, source) for name, source in read.metrics.items() if isinstance(source, SummaryKeys)),
            steps_done=read.steps_done,
            config=read.config,
        )

    def metrics(self) -> tuple[str, ...]:
        return tuple(self.section.metrics)

    def page(self) -> PageCard:
        return super().page().model_copy(update={"unavailable": self.section.unavailable})

    def curves(self) -> tuple[str, ...]:
        """Mapped metrics, the usual ones first. A summary has no curves."""
        metrics = self.section.metrics
        return () if self.section.format == "summary" else tuple(dict.fromkeys([*(name for name in _USUAL if name in metrics), *metrics]))


def _where(text: str, run: Run) -> str | int:
    """`{seed}` alone is the number, as sources write it."""
    return run.seed if text == str(run.seed) else text


def _column(name: str, source: MetricUse) -> ColumnCard:
    use = Column(column=source) if isinstance(source, str) else source
    assert isinstance(use, Column)
    return ColumnCard(metric=name, column=use.column, optional=use.optional, **_unit(name, use.unit))


def _summary(name: str, source: SummaryKeys) -> SummaryCard:
    return SummaryCard(**{**dict(source), **_unit(name, source.unit)}, metric=name)


def _unit(name: str, logged: str | None) -> dict[str, Any]:
    meaning = metric(name)
    assert meaning is not None  # a rule asks
    return {"unit": logged or meaning.unit, "factor": factor(meaning.unit, logged) or 1.0}
