"""Stage: train one run with GRPO (TRL) and a LoRA adapter.

python -m stages.train.grpo runs/<experiment>/<run>
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stages.contracts.grpo import GrpoSettings
from stages.contracts.run_card import TrainCard
from stages.contracts.stage import main
from stages.train.run import Work, attempt
from stages.train.with_trl import CHECKPOINT, fit

MODULE = "stages.train.grpo"


def train(folder: Path) -> int:
    """One attempt of a run; the exit code (stages/train/run.py)."""
    return attempt(folder, TrainCard[GrpoSettings], MODULE, _fit, CHECKPOINT)


def _fit(work: Work[GrpoSettings]) -> Path:
    return fit(work, trainer)


def trainer(settings: dict[str, Any], **parts: Any) -> Any:
    """TRL's trainer, imported late: it costs seconds to load."""
    from trl import GRPOConfig, GRPOTrainer

    return GRPOTrainer(args=GRPOConfig(**settings), **parts)


if __name__ == "__main__":
    main(train, "python -m stages.train.grpo runs/<experiment>/<run>")
