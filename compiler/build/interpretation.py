"""The interpretation beside a spec, and the experiments whose findings it names: the page depends on them."""

from __future__ import annotations

import os
from pathlib import Path

from compiler.language.experiment import Experiment
from stages.contracts.interpretation import Interpretation, parse_reference, read_interpretation


def path_beside(experiment: Experiment) -> Path | None:
    """`specs/<experiment>.md`; of a profile `specs/<experiment>.<profile>.md`, for its numbers are others. None where there is none."""
    path = Path(experiment.document.file).with_suffix(f".{experiment.profile}.md" if experiment.profile else ".md")
    return path if os.path.isfile(path) else None


def read_beside(experiment: Experiment) -> Interpretation | None:
    """None where there is none. Raises ArtifactError."""
    path = path_beside(experiment)
    return read_interpretation(path) if path else None


def cited(experiment: Experiment, interpretation: Interpretation) -> tuple[str, ...]:
    """Other experiments that it names and that have a spec."""
    references = [parse_reference(source) for source, *_ in interpretation.references]
    names = dict.fromkeys(reference.experiment for reference in references if reference and reference.experiment)
    specs = Path(experiment.document.file).parent
    return tuple(name for name in names if name != experiment.name and os.path.isfile(specs / f"{name.partition('@')[0]}.yaml"))
