"""Stage: the shared evaluation. Same prompts, same sampling, same scores for every run and for the untrained model.

    python -m stages.train.evaluate runs/<experiment>

One process for all runs, without TRL. A run whose adapter and card were evaluated before is copied from a cache, so that a new
seed costs one evaluation.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stages.contracts.artifact import digest, dump, read
from stages.contracts.attempt import Outcome
from stages.contracts.evaluation import EvaluateCard
from stages.contracts.expressions import Expression
from stages.contracts.files import file_digest, make_folder
from stages.contracts.layout import EVALUATIONS, ExperimentFolder
from stages.contracts.plugin import Answer, Judgement
from stages.contracts.stage import card_id, main, open_card, print_text
from stages.train import interrupts
from stages.train.data import Row, read_rows
from stages.train.environment import prepare
from stages.train.model import Sampled, load_base, load_weights, prompt_texts, sample
from stages.train.recorder import write_evaluation
from stages.train.rewards.compose import Scored, holds, score_each
from stages.train.scoring import completion_rows, gate_modules, with_prompts

MODULE = "stages.train.evaluate"


def evaluate(folder: Path) -> None:
    """Write evaluation.parquet of the untrained model and of every run; a run that did not finish gets an empty table."""
    experiment = ExperimentFolder(folder)
    card = open_card(EvaluateCard, experiment.evaluate_card, [MODULE], lambda card: gate_modules(card.scores))
    prepare(card.device)
    interrupts.install_handlers()
    rows = read_rows(card.data)
    identity = card_id(card)
    content = card.model.revision if card.model.hub else file_digest(Path(card.model.path))
    yardstick = digest(dump(card.model_copy(update={"runs": (), "experiment": ""})) + content)
    models = _Models(card)
    for run in (experiment.untrained, *(experiment.run(name) for name in card.runs)):
        attempt, adapter = "untrained", None
        if run != experiment.untrained:
            outcome = read(Outcome, run.outcome)
            attempt, adapter = outcome.attempt, run.adapter
            if not outcome.finished:
                write_evaluation(run.evaluation, [], score_names(card), card_id=identity, attempt=attempt)
                print_text(f"{card.experiment} {run.name}: not evaluated, its latest attempt failed")
                continue
        key = digest("|".join([yardstick, run.name, attempt, file_digest(adapter) if adapter else ""]))[:32]
        cached = EVALUATIONS / f"{key}.parquet"
        if cached.exists():
            make_folder(run.root)
            shutil.copy2(cached, run.evaluation)
        else:
            # Every run draws its own samples. With one seed for all, two equal adapters would score exactly alike: the null control
            # would not move, and the interval over seeds would leave the sampling noise of the evaluation out.
            seed = int(digest(f"{card.seed}:{run.name}")[:8], 16)
            table = _evaluated(card, rows, models.sample(adapter, rows, seed))
            table = with_prompts(table, rows, card.data, card.model)
            write_evaluation(run.evaluation, table, score_names(card), card_id=identity, attempt=attempt)
            make_folder(cached.parent)
            shutil.copy2(run.evaluation, cached)
        print_text(f"{card.experiment} {run.name}: evaluated on {len(rows)} prompts x {card.samples}")


class _Models:
    """The base model, loaded once when first needed; adapters are put on and taken off. A run that trained all weights is its own model."""

    def __init__(self, card: EvaluateCard) -> None:
        self.card = card
        self.base: Any = None
        self.tokenizer: Any = None

    def sample(self, adapter: Path | None, rows: list[Row], seed: int) -> list[list[Sampled]]:
        """Completions of each row by the model of an adapter; None: the untrained one."""
        card = self.card
        if self.base is None:
            self.base, self.tokenizer = load_base(card.model, card.device)
        network = self.base
        if adapter is not None and (adapter / "adapter_config.json").exists():
            from peft import PeftModel

            network = PeftModel.from_pretrained(self.base, str(adapter)).to(card.device)
        elif adapter is not None:
            network = self.base = None  # two whole models may not fit
            network = load_weights(adapter, card.device)
        prompts = prompt_texts(card.model, card.data, self.tokenizer, rows)
        samples = sample(network, self.tokenizer, prompts, card, per_prompt=card.samples, seed=seed)
        if adapter is not None and self.base is not None:
            self.base = network.unload()
        return samples


def _evaluated(card: EvaluateCard, rows: list[Row], samples: list[list[Sampled]]) -> list[dict[str, Any]]:
    """Rows of evaluation.parquet: completions of a model, judged by all scores."""
    numbers = [number for completions in samples for number in range(len(completions))]
    answers = [
        Answer(text=sampled.text, row=row, truncated=sampled.truncated, key=f"{card.seed}:{row['id']}:{number}", tokens=sampled.tokens)
        for row, completions in zip(rows, samples, strict=True)
        for number, sampled in enumerate(completions)
    ]
    scored = score_each(card.scores, answers, card.answer)
    scored.judgements.update({combined.name: combined_score(combined.when, answers, scored) for combined in card.combined})
    return [{**row, "sample": number} for row, number in zip(completion_rows(scored, answers), numbers, strict=True)]


def score_names(card: EvaluateCard) -> list[str]:
    """Columns of evaluation.parquet, in order."""
    return [*(gate.name for gate in card.scores), *(combined.name for combined in card.combined)]


def combined_score(when: Expression, completions: Sequence[Answer], scored: Scored) -> list[Judgement | None]:
    """A condition over the judgements of each completion, as a judgement: score 1 or 0, and none while it hangs on an unknown."""
    unknown = Judgement(status="unknown", score=None, reason="a score it is made of is unknown")
    outcomes = {True: Judgement(status="pass", score=1.0), False: Judgement(status="fail", score=0.0), None: unknown}
    each = enumerate(completions)
    return [outcomes[holds(when, scored.answer(place, completion), scored.of_answer(place))] for place, completion in each]


if __name__ == "__main__":
    main(evaluate, "python -m stages.train.evaluate runs/<experiment>")
