"""`<run>/import.card.json`: where the history of a run comes from that octavo did not train, and how it is read.

A card holds the source's content by its SHA-256, so an import is as reproducible as a training. Only the stage reads the source.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from stages.contracts.artifact import Artifact, Frozen
from stages.contracts.code import Version

LogFormat = Literal["trainer_state", "wandb", "wandb_file", "tensorboard", "jsonl", "csv", "text", "summary"]
"""wandb: a snapshot of a W&B run with its full history (stages/train/imports/wandb_api.py); stages never use the network."""


class SourceCard(Frozen):
    """A file or folder in the project."""

    path: str
    sha256: str


class ColumnCard(Frozen):
    """One of octavo's metrics and the log's column that holds it."""

    metric: str
    column: str
    factor: float = 1.0
    """octavo's unit = the log's number x factor."""
    unit: str
    """The log's unit, as the author says."""
    optional: bool = False
    """A log without the column is no error; the metric is then absent."""


class SummaryCard(Frozen):
    """One of octavo's metrics in a run's summary: single values, no series."""

    metric: str
    last: str | None = None
    """Key of the last logged value."""
    mean: str | None = None
    """Key of the mean over the whole run. Exactly one of last, mean and final is set."""
    final: str | None = None
    """Key of the source's own mean over the end of the run."""
    initial: str | None = None
    """Key of the source's own mean over the beginning."""
    nonfinite_from: str | None = None
    """Key of the first step at which the metric was not finite."""
    factor: float = 1.0
    unit: str


class ReadCard(Frozen):
    """How a log is read into steps and columns."""

    format: LogFormat
    step: str | None = None
    """Column of the step; null where the format knows it, or when the index is the epoch."""
    epoch: str | None = None
    """Column of the epoch, when the log has no steps."""
    steps_per_epoch: float | None = None
    counts_from: Literal[0, 1] = 1
    """Number that the log gives the first step."""
    pattern: str | None = None
    """Of text logs."""
    where: dict[str, str | int] = {}
    """Of summaries: what the run's object holds."""
    columns: tuple[ColumnCard, ...] = ()
    summary: tuple[SummaryCard, ...] = ()
    steps_done: str | None = None
    """Of summaries: key of the number of steps."""
    config: dict[str, bool | int | float] = Field({}, exclude_if=lambda value: not value)
    """Of W&B: what the config of the run must have."""


class CommandCard(Frozen):
    """The author's own program, of a run that it trains."""

    arguments: tuple[str, ...]
    """As they are run, without a shell. `{card}`, `{out}`, `{seed}` and `{steps}` stand for values as whole arguments."""
    code: tuple[SourceCard, ...]
    """Files that decide the result."""
    log: str
    """The history, below the program's own folder."""
    settings: dict[str, Any]
    """What the program reads from its card."""


class ImportCard(Artifact):
    """One condition with one seed."""

    SCHEMA: ClassVar[str] = "octavo.import_card/1"

    experiment: str
    condition: str
    seed: int
    null_control: bool
    source: SourceCard
    """Of a run that a command trains: its log, whose content nobody knows before."""
    read: ReadCard
    target_steps: int
    command: CommandCard | None = Field(None, exclude_if=lambda value: value is None)
    """The program that trains the run; null: it exists already."""
    code: dict[str, Version]

    @property
    def only_read(self) -> bool:
        """Neither octavo nor a program that it runs trains the run: its log exists already."""
        return self.command is None


class Gap(Frozen):
    """Steps between two logged ones that are further apart than the stride."""

    after: int
    before: int


class SummaryValue(Frozen):
    """One value of a summary, in octavo's unit."""

    metric: str
    statistic: Literal["initial", "final"]
    """The place of the finding that it becomes."""
    value: float | None
    state: Literal["value", "nonfinite", "null"]
    method: str
    """What the value is, such as `last logged value of the source's summary (key final_loss)`."""


class Held(Frozen):
    """The finite numbers of one metric in a log, in octavo's unit and in the order of rows, whatever part of a run they are of."""

    metric: str
    rows: int
    first: float
    last: float
    lowest: float
    highest: float
    mean: float


class Imported(Artifact):
    """`<run>/imported.json`: what was read, and what a reader must know of it. Written beside the history."""

    SCHEMA: ClassVar[str] = "octavo.imported/1"

    card_id: str
    attempt: str
    source: SourceCard
    read: ReadCard
    rows: int
    """Rows of the log that hold a mapped metric."""
    first_step: int | None
    last_step: int | None
    stride: int
    gaps: tuple[Gap, ...] = ()
    """The first few."""
    gap_count: int = 0
    steps: Literal["known", "unknown"]
    """known: the source itself says how far the run came, or the target was reached; unknown: the log merely ends."""
    notes: tuple[str, ...] = ()
    """Cuts, overlaps, merged names, contamination, repairs: one plain sentence each; untrusted text inside."""
    summary: tuple[SummaryValue, ...] = ()
    nonfinite_from: dict[str, int] = {}
    """Of summaries: metric -> first step at which it was not finite, as the source says."""
    held: tuple[Held, ...] = Field((), exclude_if=lambda value: not value)
