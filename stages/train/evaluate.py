"""Stage: the shared evaluation of one run, or of the untrained model. Same prompts, same sampling, same scores for all of them.

    python -m stages.train.evaluate runs/<experiment>/<run>
    python -m stages.train.evaluate runs/<experiment>/untrained

No TRL. Tables lie in a cache under all that they depend on, so a run whose adapter and card were evaluated before is copied from there.
dvc runs the stages of an experiment one after another. Under dvc the process that has loaded the base model fills the cache for the
other trained runs too: importing torch, transformers and PEFT costs more than a small evaluation.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from stages.contracts.artifact import digest, dump, read
from stages.contracts.attempt import Outcome
from stages.contracts.evaluation import EvaluateCard
from stages.contracts.expressions import Expression
from stages.contracts.files import file_digest, make_folder, read_json
from stages.contracts.layout import EVALUATIONS, ExperimentFolder, RunFolder
from stages.contracts.model import Adapter
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
    """Write evaluation.parquet of a run or of the untrained model; a run that did not finish gets an empty table."""
    run, experiment = RunFolder(folder), ExperimentFolder(folder.parent)
    card = open_card(EvaluateCard, experiment.evaluate_card, [MODULE], lambda card: gate_modules(card.scores))
    prepare(card.device)
    interrupts.install_handlers()
    evaluations = _Evaluations(experiment, card)
    is_trained, attempt = evaluations.trained(run)
    if not is_trained:
        write_evaluation(run.evaluation, [], score_names(card), card_id=card_id(card), attempt=attempt)
        print_text(f"{card.experiment} {run.name}: not evaluated, its latest attempt failed")
        return
    make_folder(run.root)
    shutil.copy2(evaluations.table(run), run.evaluation)
    if "DVC_STAGE" in os.environ and experiment.conclude_card.exists():  # elsewhere they may have processes of their own
        runs = read_json(experiment.conclude_card)["runs"]
        evaluations.fill([experiment.untrained, *(experiment.run(ref["name"]) for ref in runs)])


class _Evaluations:
    """Tables of an experiment's models in the cache. The base model is loaded once, when it is first needed."""

    def __init__(self, experiment: ExperimentFolder, card: EvaluateCard) -> None:
        self.experiment, self.card, self.models = experiment, card, _Models(card)
        self.rows = read_rows(card.data)
        content = card.model.revision if card.model.hub else file_digest(Path(card.model.path))
        self.yardstick = digest(dump(card.model_copy(update={"experiment": ""})) + content)

    def trained(self, run: RunFolder) -> tuple[bool, str]:
        """(whether there is a model to evaluate, the attempt that trained it)."""
        if run == self.experiment.untrained:
            return True, "untrained"
        outcome = read(Outcome, run.outcome)
        return outcome.finished, outcome.attempt

    def table(self, run: RunFolder) -> Path:
        """The table of a model in the cache; evaluated where it is not there."""
        card, words = self.card, "evaluated before"
        while not (cached := self._place(run)).exists():
            # Every run draws its own samples. With one seed for all, two equal adapters would score exactly alike: the null control
            # would not move, and the interval over seeds would leave the sampling noise of the evaluation out.
            seed = int(digest(f"{card.seed}:{run.name}")[:8], 16)
            attempt, adapter = self.trained(run)[1], None if run == self.experiment.untrained else run.adapter
            rows = _evaluated(card, self.rows, self.models.sample(adapter, self.rows, seed))
            rows = with_prompts(rows, self.rows, card.data, card.model)
            if self._place(run) == cached:  # else it was trained again meanwhile
                write_evaluation(cached, rows, score_names(card), card_id=card_id(card), attempt=attempt)
            words = f"evaluated on {len(self.rows)} prompts x {card.samples}"
        print_text(f"{card.experiment} {run.name}: {words}")
        return cached

    def fill(self, runs: Iterable[RunFolder]) -> None:
        """Where a model was loaded, evaluate the trained ones that are not in the cache, for their own stages."""
        for run in runs if self.models.tokenizer is not None else ():
            try:
                there = run == self.experiment.untrained or (run.outcome.exists() and self.trained(run)[0])
                if there and not self._place(run).exists():
                    self.table(run)
            except Exception as error:  # whatever it is, its own stage raises it again
                print_text(f"{self.card.experiment} {run.name}: left to its own stage ({type(error).__name__})")
                return  # an adapter may be half on the base model

    def _place(self, run: RunFolder) -> Path:
        adapter = "" if run == self.experiment.untrained else file_digest(run.adapter)
        key = digest("|".join([self.yardstick, run.name, self.trained(run)[1], adapter]))[:32]
        return EVALUATIONS / f"{key}.parquet"


class _Models:
    """The base model, loaded once when first needed; adapters are put on and taken off. A run that trained all weights is its own model,
    and an adapter that came with changes of the base weights needs them loaded again."""

    def __init__(self, card: EvaluateCard) -> None:
        self.card = card
        self.base: Any = None
        self.tokenizer: Any = None

    def sample(self, adapter: Path | None, rows: list[Row], seed: int) -> list[list[Sampled]]:
        """Completions of each row by the model of an adapter; None: the untrained one."""
        card = self.card
        if self.base is None:
            self.base, self.tokenizer = load_base(card.model, card.device)
        network, changes_base = self.base, False
        if adapter is not None and (adapter / "adapter_config.json").exists():
            from peft import PeftModel

            network = PeftModel.from_pretrained(self.base, str(adapter)).to(card.device)
            config = network.peft_config["default"]
            others = config.modules_to_save or config.trainable_token_indices or config.bias != "none"
            changes_base = bool(others) or config.init_lora_weights not in Adapter.ADDITIVE
        elif adapter is not None:
            network = self.base = None  # two whole models may not fit
            network = load_weights(adapter, card.device)
        prompts = prompt_texts(card.model, card.data, self.tokenizer, rows)
        samples = sample(network, self.tokenizer, prompts, card, per_prompt=card.samples, seed=seed)
        if adapter is not None and self.base is not None:
            self.base = None if changes_base else network.unload()
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
    main(evaluate, "python -m stages.train.evaluate runs/<experiment>/<run>")
