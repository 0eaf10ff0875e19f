"""The interpretation beside a spec, and the experiments whose findings it names: the page depends on them."""

from __future__ import annotations

import os
from pathlib import Path

from compiler.language.experiment import Experiment
from stages.contracts.interpretation import Interpretation, parse_reference, read_interpretation


def read_beside(experiment: Experiment) -> Interpretation | None:
    """None where there is none, and for a profile: the interpretation is about the full experiment. Raises ArtifactError."""
    path = Path(experiment.document.file).with_suffix(".md")
    return read_interpretation(path) if experiment.profile is None and os.path.isfile(path) else None


def cited(experiment: Experiment, interpretation: Interpretation) -> tuple[str, ...]:
    """Other experiments that it names and that have a spec."""
    references = [parse_reference(source) for source, *_ in interpretation.references]
    names = dict.fromkeys(reference.experiment for reference in references if reference and reference.experiment)
    specs = Path(experiment.document.file).parent
    return tuple(name for name in names if name != experiment.name and os.path.isfile(specs / f"{name.partition('@')[0]}.yaml"))
