"""An experiment as a Provenance Run Crate (RO-Crate 1.1, Workflow Run Crate profiles 0.5): files, stages, attempts, and who used what.

The workflow is the experiment's `dvc.yaml`, its steps are the stages, and each attempt of a run is an action with its own outcome, so a
failed attempt is in the crate like one that finished. Files that lie elsewhere (the base model, the code) are named with their hashes.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

from stages.contracts.artifact import ArtifactError
from stages.contracts.attempt import Attempt
from stages.contracts.dvc_lock import Entry, Lock, Locked, read_lock
from stages.contracts.files import file_digest
from stages.contracts.layout import ExperimentFolder
from stages.contracts.names import PATH
from stages.publish.experiment import ExperimentFiles, load
from stages.publish.methods import codes, versions
from stages.publish.numbers import code_words

PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/ro/wfrun/provenance/0.5": "Provenance Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
LICENCE = "No licence is stated; all rights stay with the owner of the experiment."
_STATUS = {"finished": "CompletedActionStatus", "failed": "FailedActionStatus", "killed": "FailedActionStatus"}
Entity = Any
"""An entity of the library, which has no types."""


def write_crate(folder: ExperimentFolder, target: Path) -> int:
    """Write the crate into a new folder, or a new file that ends with `.zip`; the number of its files.

    Raises ArtifactError when the experiment has no findings or no lock.
    """
    experiment = load(folder.root)
    crate = _Crate(experiment, _records(folder))
    crate.build()
    if target.suffix == ".zip":
        crate.crate.write_zip(target)
    else:
        crate.crate.write(target)
    return crate.files


def _records(folder: ExperimentFolder) -> Lock:
    lock = folder.root / "dvc.lock"
    if not lock.exists():
        raise ArtifactError(lock, "the file is missing", why="it names what each stage read and wrote", fix=f"dvc repro {folder.pipeline}")
    try:
        return read_lock(lock)
    except ValueError as error:
        raise ArtifactError(lock, str(error), why="it names what each stage read and wrote", fix=f"git diff {lock}") from None


class _Crate:
    def __init__(self, experiment: ExperimentFiles, stages: Lock) -> None:
        from rocrate.model import ComputerLanguage, ContextEntity
        from rocrate.rocrate import ROCrate

        self.experiment, self.stages = experiment, stages
        self.context, self.language = ContextEntity, ComputerLanguage
        self.crate = ROCrate(gen_preview=False, version="1.1")
        self.files = 0
        self.entities: dict[str, Entity] = {}
        self.tools: dict[str, Entity] = {}

    def build(self) -> None:
        folder, card = self.experiment.folder, self.experiment.card
        root = self.crate.root_dataset
        workflow = self._workflow(folder)
        author = self._add("#owner", "Organization", name=card.owner)
        root["name"], root["description"], root["author"] = card.title, card.question.strip(), author
        root["license"], root["keywords"] = LICENCE, ", ".join(card.tags)
        self.crate.datePublished = datetime.fromisoformat(self.experiment.data_until or "1970-01-01T00:00:00+00:00")
        for path in sorted(path for path in folder.root.rglob("*") if path.is_file() and not path.name.startswith(".")):
            self._file(path.as_posix())
        for written in filter(None, (card.spec, card.prose)):
            self._file(written)
        controls = [self._step(workflow, number, name, record) for number, (name, record) in enumerate(self.stages.items(), start=1)]
        outcome = self._action("#run", workflow, f"dvc repro {folder.pipeline}")
        outcome["object"] = [self.entities[card.spec]] if card.spec in self.entities else []
        outcome["result"] = [
            entity for path in (folder.findings, folder.page / "index.md") if (entity := self.entities.get(path.as_posix()))
        ]
        version = versions(self.experiment).get("dvc", "not recorded")
        engine = self._add("#dvc", "SoftwareApplication", name="DVC", url="https://dvc.org/", softwareVersion=version)
        organized = self._add("#organize", "OrganizeAction", name=f"dvc repro {folder.pipeline}", instrument=engine)
        organized["object"], organized["result"] = controls, outcome
        root["conformsTo"] = [self._add(id_, "CreativeWork", name=name, version=id_.split("/")[-1]) for id_, name in PROFILES.items()]
        root["mentions"] = [outcome, organized]

    def _workflow(self, folder: ExperimentFolder) -> Entity:
        about = {"name": "DVC pipeline", "url": "https://dvc.org/doc/user-guide/pipelines"}
        language = self.crate.add(self.language(self.crate, "#dvc-language", properties=about))
        path = folder.pipeline.as_posix()
        kinds = ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"]
        properties = {"@type": kinds, "name": f"Pipeline of {folder.name}", "sha256": file_digest(folder.pipeline)}
        workflow = self.crate.add_workflow(path, path, main=True, lang=language, properties=properties)
        self.entities[path] = workflow
        self.files += 1
        return workflow

    def _step(self, workflow: Entity, number: int, name: str, record: Locked) -> Entity:
        """A stage: tool, step, one action an attempt (or one for a stage without attempts), and the control over them."""
        module = record.cmd.split()[2]
        if module not in self.tools:
            self.tools[module] = self._add(f"#{module}", "SoftwareApplication", name=module, softwareVersion=self._code(name))
            workflow.append_to("hasPart", self.tools[module])
        step = self._add(f"#step-{name}", "HowToStep", name=name, position=str(number), workExample=self.tools[module])
        workflow.append_to("step", step)
        run = self.experiment.by_name.get(name.removeprefix("train-")) if name.startswith(("train-", "collect-")) else None
        attempts = run.attempts if run else ()
        actions = [self._attempt(self.tools[module], attempt) for attempt in attempts]
        actions = actions or [self._action(f"#action-{name}", self.tools[module], record.cmd)]
        inputs, results = ([self._reference(path, entry) for path, entry in side.items()] for side in (record.deps, record.outs))
        newest = run.outcome.attempt if run and run.outcome else None
        others = {f"#attempt-{a.started.attempt}" for a in attempts if run and run.outcome and a.started.card_id != run.outcome.card_id}
        for action in actions:
            if action.id not in others:  # an attempt of an earlier card read other files than the lock names now
                action["object"] = inputs
            if newest is None or action.id == f"#attempt-{newest}":
                action["result"] = results
        return self._add(f"#control-{name}", "ControlAction", name=name, instrument=step, object=actions)

    def _attempt(self, tool: Entity, attempt: Attempt) -> Entity:
        start, end = attempt.started, attempt.ended
        action = self._action(f"#attempt-{start.attempt}", tool, f"attempt {start.attempt}", attempt.state)
        action["startTime"] = start.at
        if end:
            action["endTime"] = end.at
        if end is None or end.error:
            action["error"] = end.error if end else "killed: no end was written"
        action["description"] = f"commit {start.commit or 'none'}, card {start.card_id}, host {start.host}, {', '.join(start.devices)}"
        return action

    def _action(self, id_: str, tool: Entity, name: str, state: str = "finished") -> Entity:
        status = f"http://schema.org/{_STATUS.get(state, 'CompletedActionStatus')}"
        return self._add(id_, "CreateAction", name=name, instrument=tool, actionStatus=status)

    def _reference(self, path: str, entry: Entry) -> Entity:
        """A path of the lock: the file or folder in the crate, or its name and hash when it is not."""
        if path in self.entities:
            return self.entities[path]
        inside = [entity for name, entity in self.entities.items() if name.startswith(f"{path}/")]
        if inside:
            self.entities[path] = self.crate.add_dataset(dest_path=path, properties={"name": path, "hasPart": inside})
        elif os.path.isfile(path) and path.startswith("data/") and PATH.fullmatch(path):
            self._file(path)
        else:
            self.entities[path] = self._add(f"#{path}", "CreativeWork", name=path, identifier=f"md5:{entry.md5}")
        return self.entities[path]

    def _file(self, path: str) -> None:
        if path in self.entities or not os.path.isfile(path):
            return
        kinds = {".json": "application/json", ".csv": "text/csv", ".md": "text/markdown", ".svg": "image/svg+xml", ".yaml": "text/yaml"}
        about = {"name": path, "contentSize": str(os.path.getsize(path)), "sha256": file_digest(Path(path))}
        kind = kinds.get(Path(path).suffix, "application/octet-stream")
        self.entities[path] = self.crate.add_file(path, path, properties={**about, "encodingFormat": kind})
        self.files += 1

    def _add(self, id_: str, kind: str, **properties: Any) -> Entity:
        return self.crate.add(self.context(self.crate, id_, properties={"@type": kind, **properties}))

    def _code(self, stage: str) -> str:
        run = self.experiment.by_name.get(stage.removeprefix("train-"))
        if run and run.card:
            return code_words(run.card.code)
        return dict(codes(self.experiment)).get(stage, "not recorded")
