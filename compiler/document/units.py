"""Numbers with units: `60s`, `5%`, `30GB`. A model's field names its unit with `json_schema_extra={"unit": "s" | "B" | "share"}`."""

from __future__ import annotations

import math
import re
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

_FACTORS: dict[str, dict[str, float]] = {
    "s": {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400},
    "B": {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40},
    "share": {"%": 0.01},
}
EXAMPLES = {"s": "`60s`, `500ms` or `2m`", "B": "`512MB` or `30GB`", "share": "`5%` or 0.05"}
_TEXT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z%]+)")


def unit_of(field: FieldInfo) -> str | None:
    """The unit a field is stored in, when specs may write it with a unit."""
    extra = field.json_schema_extra
    unit = extra.get("unit") if isinstance(extra, dict) else None
    return str(unit) if unit in _FACTORS else None


def number(text: str, unit: str) -> float | int | None:
    """`text` in `unit` (seconds, bytes, share of one), or None when it is no such text. Bytes are whole."""
    match = _TEXT.fullmatch(text.strip())
    factor = _FACTORS[unit].get(match[2]) if match else None
    if match is None or factor is None or len(text) > 40:
        return None
    value = float(match[1]) * factor
    # decimal text times a factor such as 0.01 picks up a last-digit error: 5% is 0.05, not 0.05000000000000000277
    value = float(f"{value:.15g}")
    if not math.isfinite(value):
        return None
    return round(value) if unit == "B" else value


def converted(annotation: Any, value: Any, unit: str | None = None) -> Any:
    """A plain value with every text that carries a unit turned into the number its model stores; the rest as it was."""
    if isinstance(value, str):
        amount = number(value, unit) if unit else None
        return value if amount is None else amount
    if isinstance(value, dict):
        model = _model(annotation, value)
        if model is not None:
            fields = keys(model)
            return {k: converted(fields[k].annotation, v, unit_of(fields[k])) if k in fields else v for k, v in value.items()}
        inner = _inner(annotation, dict)
        return value if inner is None else {key: converted(inner, item, _unit_inside(inner)) for key, item in value.items()}
    if isinstance(value, list):
        inner = _inner(annotation, tuple)
        return value if inner is None else [converted(inner, item, unit) for item in value]
    return value


def keys(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Fields of a model by the key that a spec writes: `from` is no name in Python."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _unit_inside(annotation: Any) -> str | None:
    """The unit of values of a map, such as weights by gate."""
    return next((unit for mark in getattr(annotation, "__metadata__", ()) if isinstance(mark, FieldInfo) and (unit := unit_of(mark))), None)


def arms(annotation: Any) -> list[Any]:
    """Members of a union, without Annotated wrappers; the annotation itself when it is no union."""
    if hasattr(annotation, "__metadata__"):
        return arms(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [deep for arm in get_args(annotation) for deep in arms(arm)]
    return [annotation]


def _model(annotation: Any, value: dict[str, Any]) -> type[BaseModel] | None:
    """The model that a map is meant for: of a union, the one that knows most of its keys."""
    models = [arm for arm in arms(annotation) if isinstance(arm, type) and issubclass(arm, BaseModel)]
    return max(models, key=lambda model: len(value.keys() & keys(model).keys()), default=None)


def _inner(annotation: Any, container: type) -> Any:
    for arm in arms(annotation):
        if get_origin(arm) is container:
            return get_args(arm)[1] if container is dict else get_args(arm)[0]
    return None


_IMPORTED: dict[str, dict[str, float]] = {
    "share": {"%": 0.01, "percent": 0.01},
    "s": {"ms": 0.001, "min": 60.0, "h": 3600.0},
    "nats per token": {"bits per token": math.log(2)},
}


def factor(unit: str, logged: str | None) -> float | None:
    """octavo's number = the log's x factor; None when the log's unit cannot be turned into octavo's."""
    if logged is None or logged == unit:
        return 1.0
    return _IMPORTED.get(unit, {}).get(logged)
