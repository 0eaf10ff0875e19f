"""All stored completions of an experiment for a reader's search: a script a run, which a page loads when a reader asks for it.

A script calls `octavo.texts` with one object, because a page from the file system may load scripts and no data. Equal completions of one
prompt at one step are one row. Prompts and texts stand once each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from stages.contracts.history import PROMPT_COLUMN
from stages.contracts.model import DatasetRef
from stages.publish.completions import LONGEST, LONGEST_PROMPT, known, read_texts, with_prompts
from stages.publish.experiment import ExperimentFiles
from stages.publish.text import script_literal

FOLDER = "texts"
MOST_LETTERS = 5_000_000
"""Of all texts in one script. Of a run that has more, evenly spaced steps are kept, and its line on the page says how many."""
_SAME = ["step", "prompt_id", "text"]


class StoredTexts(NamedTuple):
    """The completions of a run, or of the untrained model."""

    name: str
    file: str
    """Path from the page."""
    script: str
    held: int
    """Completions in the script, of `total`."""
    total: int


def stored_texts(experiment: ExperimentFiles) -> Iterator[StoredTexts]:
    """Of the untrained model and of each run that has any; nothing of a page that is renewed while runs go on."""
    if experiment.card.progress is not None:
        return
    scores, evaluate = experiment.card.evaluation, experiment.evaluate
    asked = evaluate.data if evaluate else None
    no_gates: tuple[str, ...] = ()
    places = [("untrained", "untrained", Path("none"), experiment.folder.untrained.evaluation, no_gates, asked)]
    for run in experiment.runs:
        gates = experiment.condition(run.ref.condition).gates
        data = run.card.data if run.card else None
        places.append((run.ref.name, run.ref.condition, run.folder.completions, run.folder.evaluation, gates, data))
    for name, condition, training, evaluation, gates, data in places:
        tables = [_rows(path, own, ref) for path, own, ref in ((training, gates, data), (evaluation, scores, asked)) if path.exists()]
        rows = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
        if len(rows):
            kept = _bounded(rows)
            script = f"octavo.texts({script_literal(_packed(kept, condition, name))});\n"
            yield StoredTexts(name, f"{FOLDER}/{name}.js", script, int(kept["times"].sum()), int(rows["times"].sum()))


def _rows(path: Path, gates: Sequence[str], data: DatasetRef | None) -> pd.DataFrame:
    """One row for equal completions of a prompt at a step; `step` is NaN of held-out ones."""
    rows = read_texts(path, gates)[[*_SAME, PROMPT_COLUMN, "reward", "label"]]
    rows = rows.assign(text=rows["text"].str[:LONGEST], times=rows.groupby(_SAME, dropna=False)["text"].transform("size"))
    rows = with_prompts(rows.drop_duplicates(_SAME), data)
    asked = rows[PROMPT_COLUMN].where(rows[PROMPT_COLUMN].notna(), rows["prompt_id"])
    return rows.assign(**{PROMPT_COLUMN: asked.astype(str).str[-LONGEST_PROMPT:], "step": rows["step"].astype(float)})


def _bounded(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of so many steps that their texts fit, the last step among them; held-out ones are kept."""
    steps = sorted(rows["step"].dropna().unique(), reverse=True)
    apart = 1
    while rows["text"].str.len().sum() > MOST_LETTERS and apart < len(steps):
        apart *= 2
        rows = rows[rows["step"].isna() | rows["step"].isin(steps[::apart])]
    return rows


def _packed(rows: pd.DataFrame, condition: str, run: str) -> dict[str, Any]:
    columns = {name: pd.factorize(rows[source]) for name, source in (("prompt", PROMPT_COLUMN), ("text", "text"), ("label", "label"))}
    packed: dict[str, Any] = {name: codes.tolist() for name, (codes, _) in columns.items()}
    packed |= {f"{name}s": list(values) for name, (_, values) in columns.items()}
    rewards = [None if (reward := known(value)) is None else round(float(reward), 4) for value in rows["reward"]]
    steps = [None if (step := known(value)) is None else int(step) for value in rows["step"]]
    return packed | {"run": run, "condition": condition, "step": steps, "reward": rewards, "times": rows["times"].tolist()}
