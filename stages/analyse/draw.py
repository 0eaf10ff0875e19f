"""Stage `draw`: the figures of an experiment, each as picture (SVG), numbers (CSV) and words (JSON).

    python -m stages.analyse.draw runs/<experiment>

Reads analysis/draw.card.json, findings, each run's history and health; writes analysis/figures/<name>.{svg,csv,json} for
`curves-<metric>`, `evaluation-<score>`, `claims` and `funnel-<condition>`.
"""

from __future__ import annotations

from pathlib import Path

from stages.analyse.figures import claims, curves, evaluation, funnel
from stages.analyse.figures.drawing import Material
from stages.analyse.tables import read_history
from stages.contracts.analysis_card import DrawCard
from stages.contracts.artifact import dump, file_digest, read, write_text
from stages.contracts.finding import Findings, Source
from stages.contracts.health import Health
from stages.contracts.layout import ExperimentFolder
from stages.contracts.stage import main, open_card

MODULES = ("stages.analyse.draw",)


def draw(folder: Path) -> None:
    """Write all figures, and remove what an older version left in their folder."""
    experiment = ExperimentFolder(folder)
    material = _material(experiment, open_card(DrawCard, experiment.draw_card, MODULES))
    written = set()
    for module in (curves, evaluation, claims, funnel):
        for drawing in module.draw(material):
            for ending, text in (("svg", drawing.svg), ("csv", drawing.csv()), ("json", dump(drawing.figure))):
                path = experiment.figures / f"{drawing.figure.name}.{ending}"
                write_text(path, text)
                written.add(path)
    for old in sorted(set(experiment.figures.iterdir()) - written):
        old.unlink()


def _material(experiment: ExperimentFolder, card: DrawCard) -> Material:
    places = {run.name: experiment.run(run.name) for run in card.runs}
    histories = {name: read_history(place.history, card.curves) for name, place in places.items()}
    sources = {"findings": Source(path=experiment.findings.as_posix(), sha256=file_digest(experiment.findings))}
    for name, history in histories.items():
        if history.exists:
            sources[name] = Source(path=history.path.as_posix(), sha256=file_digest(history.path), attempt=history.attempt)
    return Material(
        card=card,
        findings=read(Findings, experiment.findings),
        histories=histories,
        healths={name: read(Health, place.health) if place.health.exists() else None for name, place in places.items()},
        sources=sources,
    )


if __name__ == "__main__":
    main(draw, "python -m stages.analyse.draw runs/<experiment>")
