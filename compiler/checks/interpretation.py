"""The author's interpretation: what it names must be declared, and it should say for which verdicts it was written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from compiler.build.inputs import Inputs
from compiler.build.interpretation import cited, read_beside
from compiler.language.expand import Expansion
from compiler.language.experiment import Experiment
from compiler.problems import listed, problem, unknown
from stages.contracts.artifact import ArtifactError
from stages.contracts.diagnostic import Diagnostic, Place
from stages.contracts.interpretation import parse_reference


def check(experiment: Experiment, expansion: Expansion, inputs: Inputs) -> Iterator[Diagnostic]:
    """W311: the interpretation names what is not there. W312: it does not say for which verdicts it was written."""
    path = Path(experiment.document.file).with_suffix(".md")
    file, claims = path.as_posix(), [claim.id for claim in experiment.spec.claims]
    try:
        interpretation = read_beside(experiment)
    except ArtifactError as error:
        yield problem("W311.front", Place(file, 1, 1), reason=error.what)
        return
    if interpretation is None:
        return
    for claim in interpretation.written_for:
        if claim not in claims:
            yield unknown("W311", claim, claims, Place(file, 1, 1), all=listed(claims))
    known = cited(experiment, interpretation)
    for source, line, column in interpretation.references:
        reference, place = parse_reference(source), Place(file, line, column)
        if reference and reference.kind == "claim" and reference.name not in claims:
            yield unknown("W311", reference.name, claims, place, all=listed(claims))
        elif reference and reference.experiment not in ("", *known):
            yield problem("W311.experiment", place, name=reference.experiment)
    if interpretation.written_for and (unstated := interpretation.unstated(claims)):
        yield problem("W312", Place(file, 1, 1), claims=listed(unstated), first=unstated[0])
