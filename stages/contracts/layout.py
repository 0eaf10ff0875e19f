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
NOW = BUILD / "now"
"""Pages of experiments whose runs go on: neither git nor DVC keeps them, and nothing takes one for a page that is published."""
COMPARISONS = BUILD / "comparisons"
"""Folder of <experiment>/<other>/: comparison.json (a Comparison), and a figure of curves for each metric."""


@dataclass(frozen=True)
class _Folder:
    root: Path

    @property
    def name(self) -> str:
        return self.root.name


class _Below:
    """The path of a file or folder below its folder."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __get__(self, folder: _Folder, owner: type[_Folder]) -> Path:
        return folder.root / self.path


class ModelFolder(_Folder):
    """A base model that the repository makes itself: `runs/_models/<name>/`."""

    card = _Below("pretrain.card.json")
    model = _Below("model")
    history = _Below("history.parquet")


class RunFolder(_Folder):
    """One run: `runs/<experiment>/<condition>-s<seed>/`."""

    card = _Below("train.card.json")
    import_card = _Below("import.card.json")
    """In place of the train card, for a run that octavo did not train."""
    imported = _Below("imported.json")
    """What was read from the source of such a run."""
    retry = _Below("retry.json")
    """Written by the compiler once; rewritten by screen when a failed run is due again. A dependency of train."""
    attempts = _Below("attempts.jsonl")
    outcome = _Below("outcome.json")
    history = _Below("history.parquet")
    completions = _Below("completions.parquet")
    adapter = _Below("adapter")
    evaluation = _Below("evaluation.parquet")
    health = _Below("health.json")


class ExperimentFolder(_Folder):
    """One experiment: `runs/<experiment>/`, or `runs/<experiment>@<profile>/` for a profile."""

    retries = _Below("retries.json")
    """The policy of retries; absent when the spec has none. Read by train, and no dependency of it."""
    tracking = _Below("tracking.json")
    wandb_results = _Below("wandb_results.json")
    """Run -> what became of sending its results to W&B."""
    """Where runs are followed; absent when the spec says nothing. Read by train, and no dependency of it."""
    pipeline = _Below("dvc.yaml")
    origins = _Below("origins.json")
    preflight_card = _Below("preflight/preflight.card.json")
    preflight = _Below("preflight/preflight.json")
    preflight_completions = _Below("preflight/completions.parquet")
    evaluate_card = _Below("analysis/evaluate.card.json")
    screen_card = _Below("analysis/screen.card.json")
    conclude_card = _Below("analysis/conclude.card.json")
    replays = _Below("replays.jsonl")
    """Steps of its runs that were trained again; absent until there are some."""
    findings = _Below("analysis/findings.json")
    draw_card = _Below("analysis/draw.card.json")
    figures = _Below("analysis/figures")
    """Folder of <name>.svg, <name>.json (a Figure) and <name>.csv."""
    page_card = _Below("page.card.json")
    page = _Below("page")
    """Folder: index.md, lineage.json, passports.json, figures/."""

    def run(self, name: str) -> RunFolder:
        return RunFolder(self.root / name)

    @property
    def untrained(self) -> RunFolder:
        """The base model before any training; only its evaluation exists."""
        return self.run("untrained")

    def permission(self, condition: str) -> Path:
        """Only whether the condition may train: train depends on this, so other preflight numbers never retrain."""
        return self.root / "preflight" / f"{condition}.permission.json"
