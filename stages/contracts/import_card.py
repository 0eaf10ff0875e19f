"""`<run>/import.card.json`: where the history of a run comes from that octavo did not train, and how it is read.

A card holds the source's content by its SHA-256, so an import is as reproducible as a training. Only the stage reads the source; runs of
W&B are fetched by `octavo compile --update`, through a process of its own (stages.train.imports.wandb_api).
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal

from pydantic import Field

from stages.contracts.artifact import Artifact, Frozen, Section
from stages.contracts.code import Version

LogFormat = Literal["trainer_state", "wandb", "wandb_file", "tensorboard", "jsonl", "csv", "parquet", "text", "console", "summary"]
"""wandb: a snapshot of a W&B run with its full history (stages/train/imports/wandb_api.py); stages never use the network."""


class SourceCard(Frozen):
    """A file or folder in the project."""

    path: str
    sha256: str


class Column(Section):
    """The log's column of a metric, when its name alone does not say enough."""

    column: str = Field(min_length=1, max_length=300, description="Name of the column in the log.")
    also: tuple[str, ...] = Field(
        (), max_length=50, description="Its names in logs of other versions; the first that a log has is read, `column` before them."
    )
    unit: str | None = Field(
        None, max_length=40, description="Unit of the log's numbers, if not octavo's: `%`, `ms`, `min`, `bits per token`."
    )
    optional: bool = Field(False, description="Some logs lack the column; their runs then have no value of the metric.")

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in the order in which they are looked for."""
        return (self.column, *self.also)


class ColumnCard(Column):
    """One of octavo's metrics and the log's column that holds it."""

    metric: str
    factor: float = 1.0
    """octavo's unit = the log's number x factor."""
    unit: str
    """The log's unit."""


class SummaryKeys(Section):
    """What a run's summary holds of a metric: exactly one of `last`, `mean` and `final`."""

    last: str | None = Field(None, description="Key of the last logged value.")
    mean: str | None = Field(None, description="Key of the mean over the whole run.")
    final: str | None = Field(None, description="Key of the source's own mean over the end of the run.")
    initial: str | None = Field(None, description="Key of the source's own mean over the beginning; with `final` it gives a change.")
    nonfinite_from: str | None = Field(None, description="Key of the first step at which the metric was NaN or Inf; null: never.")
    unit: str | None = Field(None, max_length=40, description="Unit of the source's numbers, when it is not octavo's.")


class SummaryCard(SummaryKeys):
    """One of octavo's metrics in a run's summary: single values, no series."""

    metric: str
    factor: float = 1.0
    unit: str


class LogReading(Section):
    """How the steps of a log are found."""

    format: LogFormat = Field(
        description="What the logs are. `wandb` is a snapshot with the full history of a W&B run, `wandb_file` an offline `.wandb` file, "
        "`console` what a trainer printed, `summary` a JSON file of final values."
    )
    step: str | None = Field(
        None, description="Column of the step; not given: the format's own (`step` or `global_step`, of W&B `train/global_step`)."
    )
    epoch: str | None = Field(None, description="Column of the epoch, for logs without a step; with `steps_per_epoch`.")
    steps_per_epoch: float | None = Field(None, gt=0, description="Steps of one epoch: an epoch is no step.")
    counts_from: Literal[0, 1] = Field(1, description="Number that the logs give the first step.")
    pattern: str | None = Field(
        None,
        max_length=1_000,
        description="Of `text`: a line with `{name}` for each number, such as `[Epoch {epoch}]  loss={loss}`; other lines are left out.",
    )


class ReadCard(LogReading):
    """How a log is read into steps and columns."""

    where: dict[str, bool | int | float | str] = {}
    """What the run's rows hold; of summaries, its object."""
    columns: tuple[ColumnCard, ...] = ()
    summary: tuple[SummaryCard, ...] = ()
    steps_done: str | None = None
    """Of summaries: key of the number of steps."""
    state: str | None = None
    """Key or column of how the source says that the run ended."""
    config: dict[str, bool | int | float] = {}
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


class ImportCard(Section, Artifact):
    """One condition with one seed."""

    SCHEMA: ClassVar[str] = "octavo.import_card/1"

    experiment: str
    condition: str
    seed: int
    null_control: bool
    source: SourceCard
    """Of a run that a command trains: its log, whose content is not known before."""
    others: tuple[SourceCard, ...] = ()
    """Logs of other tries to train the run."""
    read: ReadCard
    target_steps: int
    command: CommandCard | None = None
    """The program that trains the run; null: it exists already."""
    code: dict[str, Version]

    @property
    def sources(self) -> tuple[SourceCard, ...]:
        """All logs, in the spec's order."""
        return (self.source, *self.others)

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


class ColumnStats(Frozen):
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
    held: tuple[ColumnStats, ...] = ()


PART = re.compile(r"\{(?P<name>[^{}]*)\}|(?P<blanks>\s+)|(?P<text>[^{}\s]+)|(?P<stray>[{}])")


def pattern_names(pattern: str) -> list[str]:
    """Names of a pattern's numbers, in order."""
    return [part["name"] for part in PART.finditer(pattern) if part["name"] is not None]


SNAPSHOT = "octavo.wandb_snapshot/1"
RUNNING = ("running", "pending", "preempting")
"""States of W&B in which a run may still grow."""
_STATES = dict.fromkeys(("finished", "completed", "succeeded", "success", "done"), "finished") | dict.fromkeys(RUNNING, "running")
_STATES |= dict.fromkeys(("crashed", "failed", "killed", "error", "cancelled", "canceled", "timeout", "out_of_memory"), "failed")


def ending(word: object) -> Literal["finished", "failed", "running", "unknown"]:
    """What a source's own word of a run's state means, in any case of letters; words that nobody knows here are `unknown`."""
    return _STATES.get(str(word).strip().lower(), "unknown")  # type: ignore[return-value]


Fault = Literal["away", "unknown", "unclear"]
"""away: W&B cannot be asked or does not answer; unknown: this account sees no such run; unclear: an answer that is not whole."""


class Ask(Frozen):
    """Fetch a run into a file."""

    run: str
    """`entity/project/id`."""
    file: str


class Answer(Frozen):
    """What became of one question: a snapshot that lies in the file, or a fault and why."""

    run: str
    rows: int = 0
    state: str = ""
    fault: Fault | None = None
    text: str = ""
    """Of a fault: one plain sentence that holds nothing of what the server said."""
