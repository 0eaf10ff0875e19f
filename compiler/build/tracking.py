"""`tracking` of a spec, on top of that of specs/pipeline.yaml -> `runs/<experiment>/tracking.json`."""

from __future__ import annotations

from compiler.build.inputs import Inputs
from compiler.build.pipeline import LIVE, shared_tracking
from compiler.document.layers import lowered, overlay
from compiler.document.node import Node
from compiler.document.validate import secrets, validated
from compiler.language.experiment import Experiment
from compiler.language.outside import OutsideSpec
from compiler.problems import Rejected
from stages.contracts.layout import RUNS, ExperimentFolder
from stages.contracts.tracking import NONE, Tracking, TrackingSettings


def tracking_file(experiment: Experiment, inputs: Inputs) -> Tracking | None:
    """What the file holds; None for no file. One that is there and that nothing asks for any more is emptied. Raises Rejected for keys of
    pipeline.yaml that mean nothing."""
    if isinstance(experiment.spec, OutsideSpec):
        return None
    own, shared = experiment.root.get("tracking"), shared_tracking(inputs.document(LIVE).root) if LIVE.is_file() else None
    if shared is not None and (wrong := [*secrets(shared), *validated(TrackingSettings, shared, "tracking")[1]]):
        raise Rejected(wrong)
    below = lowered(shared, "shared") if shared is not None else Node({}, experiment.root.place, None, "shared")
    node = below if own is None else overlay(below, own, "experiment")
    wandb = (validated(TrackingSettings, node, "tracking")[0] or TrackingSettings()).wandb
    if wandb is None:
        return NONE if ExperimentFolder(RUNS / experiment.name).tracking.exists() else None
    spec = experiment.spec
    tags = dict.fromkeys((*spec.tags, *wandb.tags))
    return Tracking(wandb=wandb.model_copy(update={"tags": tuple(tags), "notes": wandb.notes or spec.question.strip()}))
