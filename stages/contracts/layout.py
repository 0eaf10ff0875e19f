"""Where each file of an experiment lies. All paths are relative to the project root, where every stage runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

RUNS = Path("runs")
MODELS = RUNS / "_models"
CHECKPOINTS = Path(".cache/checkpoints")
LOCKS = Path(".cache/locks")
EVALUATIONS = Path(".cache/evaluations")
BUILD = Path("build")


@dataclass(frozen=True)
class ModelFolder:
    """A base model that the repository makes itself: `runs/_models/<name>/`."""

    root: Path

    @property
    def card(self) -> Path:
        return self.root / "pretrain.card.json"

    @property
    def model(self) -> Path:
        return self.root / "model"

    @property
    def history(self) -> Path:
        return self.root / "history.parquet"


@dataclass(frozen=True)
class RunFolder:
    """One run: `runs/<experiment>/<condition>-s<seed>/`."""

    root: Path

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def card(self) -> Path:
        return self.root / "train.card.json"

    @property
    def import_card(self) -> Path:
        """In place of the train card, for a run that octavo did not train."""
        return self.root / "import.card.json"

    @property
    def imported(self) -> Path:
        """What was read from the source of such a run."""
        return self.root / "imported.json"

    @property
    def retry(self) -> Path:
        """Written by the compiler once; rewritten by screen when a failed run is due again. A dependency of train."""
        return self.root / "retry.json"

    @property
    def attempts(self) -> Path:
        return self.root / "attempts.jsonl"

    @property
    def outcome(self) -> Path:
        return self.root / "outcome.json"

    @property
    def history(self) -> Path:
        return self.root / "history.parquet"

    @property
    def completions(self) -> Path:
        return self.root / "completions.parquet"

    @property
    def adapter(self) -> Path:
        return self.root / "adapter"

    @property
    def evaluation(self) -> Path:
        return self.root / "evaluation.parquet"

    @property
    def health(self) -> Path:
        return self.root / "health.json"


@dataclass(frozen=True)
class ExperimentFolder:
    """One experiment: `runs/<experiment>/`, or `runs/<experiment>@<profile>/` for a profile."""

    root: Path

    @property
    def retries(self) -> Path:
        """The policy of retries; absent when the spec has none. Read by train, and no dependency of it."""
        return self.root / "retries.json"

    @property
    def name(self) -> str:
        return self.root.name

    def run(self, name: str) -> RunFolder:
        return RunFolder(self.root / name)

    @property
    def untrained(self) -> RunFolder:
        """The base model before any training; only its evaluation exists."""
        return RunFolder(self.root / "untrained")

    @property
    def pipeline(self) -> Path:
        return self.root / "dvc.yaml"

    @property
    def origins(self) -> Path:
        return self.root / "origins.json"

    @property
    def preflight_card(self) -> Path:
        return self.root / "preflight" / "preflight.card.json"

    @property
    def preflight(self) -> Path:
        return self.root / "preflight" / "preflight.json"

    @property
    def preflight_completions(self) -> Path:
        return self.root / "preflight" / "completions.parquet"

    def permission(self, condition: str) -> Path:
        """Only whether the condition may train: train depends on this, so other preflight numbers never retrain."""
        return self.root / "preflight" / f"{condition}.permission.json"

    @property
    def evaluate_card(self) -> Path:
        return self.root / "analysis" / "evaluate.card.json"

    @property
    def screen_card(self) -> Path:
        return self.root / "analysis" / "screen.card.json"

    @property
    def conclude_card(self) -> Path:
        return self.root / "analysis" / "conclude.card.json"

    @property
    def findings(self) -> Path:
        return self.root / "analysis" / "findings.json"

    @property
    def draw_card(self) -> Path:
        return self.root / "analysis" / "draw.card.json"

    @property
    def figures(self) -> Path:
        """Folder of <name>.svg, <name>.json (a Figure) and <name>.csv."""
        return self.root / "analysis" / "figures"

    @property
    def page_card(self) -> Path:
        return self.root / "page.card.json"

    @property
    def page(self) -> Path:
        """Folder: index.md, lineage.json, passports.json, figures/."""
        return self.root / "page"
