"""Hostile text in every field of an experiment's files that its contracts allow and that no other file looks up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from stages.contracts.algorithms import AnyTrainCard
from stages.contracts.analysis_card import ConcludeCard
from stages.contracts.attempt import Ended, Outcome, Started
from stages.contracts.figure import Figure
from stages.contracts.finding import Findings
from stages.contracts.health import Health
from stages.contracts.import_card import ImportCard, Imported
from stages.contracts.lineage import Origins
from stages.contracts.page_card import PageCard
from stages.contracts.preflight_card import Preflight, PreflightCard

MODELS: dict[str, Any] = {
    "page.card.json": PageCard,
    "analysis/findings.json": Findings,
    "analysis/conclude.card.json": ConcludeCard,
    "analysis/figures/*.json": Figure,
    "*/health.json": Health,
    "*/outcome.json": Outcome,
    "*/train.card.json": AnyTrainCard,
    "*/import.card.json": ImportCard,
    "*/imported.json": Imported,
    "*/attempts.jsonl": Started | Ended,
    "preflight/preflight.card.json": PreflightCard,
    "preflight/preflight.json": Preflight,
    "origins.json": Origins,
}
LOOKED_UP = {
    "schema",
    "id",
    "name",
    "run",
    "condition",
    "subject",
    "metric",
    "statistic",
    "path",
    "sha256",
    "card_id",
    "attempt",
    "finding",
    "at",
} | {"publish.page", "parent", "prose", "experiment", "evaluation", "curves", "gates", "findings", "claim", "panels", "prompt"}
"""Names, addresses and digests by which files name each other."""


def poison(folder: Path, text: str) -> set[str]:
    """Rewrite the files of an experiment; `file kind: field` of all that hold the text now."""
    fields = set()
    for pattern, model in MODELS.items():
        for path in sorted(folder.glob(pattern)):
            lines = path.read_text(encoding="utf-8").strip().split("\n") if path.suffix == ".jsonl" else [path.read_text(encoding="utf-8")]
            documents = [json.loads(line) for line in lines]
            for document in documents:
                fields |= {f"{path.name}: {field}" for field in _poison(document, TypeAdapter(model), text)}
            path.write_text("".join(json.dumps(document) + "\n" for document in documents), encoding="utf-8")
    return fields


def _poison(document: dict[str, Any], model: TypeAdapter[BaseModel], text: str) -> Iterator[str]:
    for field in sorted({field for field, _, _ in _texts(document, "") if field not in LOOKED_UP}):
        for length in (40,) if field == "unit" else (len(text), 300, 200, 99, 50, 20):
            before = [(holder, key, holder[key]) for name, holder, key in _texts(document, "") if name == field]
            for holder, key, _ in before:
                holder[key] = text[:length]
            try:
                model.validate_json(json.dumps({key: value for key, value in document.items() if key != "schema"}))
            except (ValidationError, ValueError):
                for holder, key, old in before:
                    holder[key] = old
            else:
                yield field
                break


def _texts(value: Any, field: str) -> Iterator[tuple[str, Any, Any]]:
    """(field, the object or list that holds the text, its key)."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        name = key if isinstance(value, dict) else field
        if isinstance(inner, str):
            yield name, value, key
        else:
            yield from _texts(inner, name)
