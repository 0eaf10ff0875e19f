"""What is wrong with a spec beyond its shape: one file a section, each with a function `(experiment, expansion, inputs) -> problems`."""

from __future__ import annotations

from itertools import islice

from compiler.build.inputs import Inputs
from compiler.checks import claims, data, evaluation, family, outside, rewards, sft, stops, training
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from compiler.language.outside import OutsideSpec
from stages.contracts.diagnostic import Diagnostic

CHECKS = (
    training.check,
    sft.check,
    rewards.check,
    data.check,
    evaluation.check,
    claims.check,
    stops.check,
    family.check,
)
OUTSIDE = (outside.check, evaluation.health, evaluation.answers, claims.check, stops.check, family.names)
"""Checks that mean something without a model, data and rewards."""
MOST = 200
"""Problems of one section that are collected; twenty are shown."""


def check(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> list[Diagnostic]:
    """All problems of one experiment. Setups that could not be built are left out: their errors are known already."""
    checks = OUTSIDE if isinstance(experiment.spec, OutsideSpec) else CHECKS
    return [problem for check in checks for problem in islice(check(experiment, expansion, inputs), MOST)]
