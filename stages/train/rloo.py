"""Stage: train one run with RLOO (TRL) and a LoRA adapter.

python -m stages.train.rloo runs/<experiment>/<run>
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stages.contracts.rloo import RlooSettings
from stages.contracts.run_card import TrainCard
from stages.contracts.stage import main
from stages.train.run import Work, attempt
from stages.train.with_trl import CHECKPOINT, fit

MODULE = "stages.train.rloo"


def train(folder: Path) -> int:
    """One attempt of a run; the exit code (stages/train/run.py)."""
    return attempt(folder, TrainCard[RlooSettings], MODULE, _fit, CHECKPOINT)


def _fit(work: Work[RlooSettings]) -> Path:
    return fit(work, trainer)


def trainer(settings: dict[str, Any], **parts: Any) -> Any:
    """TRL's trainer, imported late: it costs seconds to load."""
    from trl import RLOOConfig, RLOOTrainer

    return RLOOTrainer(args=RLOOConfig(**settings), **parts)


if __name__ == "__main__":
    main(train, "python -m stages.train.rloo runs/<experiment>/<run>")
