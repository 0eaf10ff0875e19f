"""Cross-field rules: each one small function, `(experiment, expansion, inputs) -> diagnostics`. The order does not matter."""

from __future__ import annotations

from itertools import islice

from compiler.build import questions
from compiler.build.inputs import Inputs
from compiler.checks import (
    rules_claims,
    rules_columns,
    rules_data,
    rules_expect,
    rules_family,
    rules_generation,
    rules_health,
    rules_imports,
    rules_names,
    rules_ppo,
    rules_retries,
    rules_rewards,
    rules_sft,
    rules_stops,
    rules_training,
    rules_weights,
)
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from compiler.language.spec_imports import OutsideSpec
from stages.contracts.diagnostic import Diagnostic

RULES = (
    *rules_names.RULES,
    *rules_training.RULES,
    *rules_generation.RULES,
    *rules_ppo.RULES,
    *rules_sft.RULES,
    *rules_rewards.RULES,
    *rules_weights.RULES,
    *rules_data.RULES,
    *rules_columns.RULES,
    *rules_health.RULES,
    *rules_claims.RULES,
    *questions.RULES,
    *rules_family.RULES,
    *rules_retries.RULES,
    *rules_stops.RULES,
    *rules_expect.RULES,
)


MOST = 200
"""Diagnostics of one rule: twenty are shown, and nobody repairs more before looking again."""


def check(of: Experiment, expansion: Expansion, inputs: Inputs) -> list[Diagnostic]:
    """What all rules say of one experiment. Setups that could not be built are left out: their errors are known already."""
    rules = rules_imports.RULES if isinstance(of.spec, OutsideSpec) else RULES
    return [found for rule in rules for found in islice(rule(of, expansion, inputs), MOST)]
