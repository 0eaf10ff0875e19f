"""Checks of metrics that a spec derives from others, and of the columns that its page's tables show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from compiler.build.inputs import Inputs
from compiler.build.logged import logged_by_any
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from compiler.problems import errors, problem, unknown
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.formulas import read_formula
from stages.contracts.history import EVALUATION_MEASURES, METRICS
from stages.contracts.page_card import COLUMNS, POINTS, Tables, column_statistic

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


def check(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """E366 a formula over what no run logs, or a name that is taken; E367 a column that no table has."""
    if errors(expansion.problems):
        return
    spec = experiment.spec
    known = logged_by_any([replace(setup, derived={}) for setup in expansion.setups])
    for name, text in spec.metrics.items():
        node = experiment.node("metrics", name)
        if not _NAME.fullmatch(name) or name in METRICS or name in COLUMNS["conditions"] or name in COLUMNS["seeds"]:
            yield problem("E366.name", node.key or node.place, name=name[:80])
        for word in read_formula(text).metrics:
            if word not in known:
                yield unknown("E366", word, known, node.place)
        known.append(name)
    scores = [*(use.card.name for use in expansion.scores), *(combined.name for combined in expansion.combined)]
    evaluated = [f"evaluation.{score}.{measure}" for score in scores for measure in EVALUATION_MEASURES[:2]]
    for table in Tables.model_fields:
        for column, node in experiment.entries(getattr(spec.page.tables, table), "page", "tables", table):
            metric, statistic = column_statistic(column)
            if column not in COLUMNS[table] and metric not in (known if statistic == POINTS else [*known, *evaluated]):
                yield unknown("E367", column, [*COLUMNS[table], *known, *evaluated], node.place, table=table)
