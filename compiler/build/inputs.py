"""What lies on disk beside a spec and enters cards: data files, base models, library versions, code versions. Each read once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from compiler.build.base_models import LINEAR, MADE, BaseModel, in_folder
from compiler.build.code_versions import broken_versions, unjudged_code
from compiler.build.data_files import DataFile, data_file
from compiler.build.revisions import Lock, Reference, lock, pinned
from compiler.document.node import Document
from compiler.document.read import read
from compiler.document.validate import validated
from compiler.language.spec import ModelFile
from compiler.problems import Fault, Rejected, problem, unknown
from stages.contracts.artifact import ArtifactError
from stages.contracts.code import VERSIONS, Code, Judgement, UnjudgedCode, Version, code_versions, judged_same, read_judgements
from stages.contracts.code_tree import CodeTree
from stages.contracts.layout import MODELS, ModelFolder
from stages.contracts.names import SLUG, is_hub_id
from stages.contracts.plugin import CORPORA
from stages.contracts.pretrain_card import PretrainCard
from stages.contracts.stage import ROOT, card_id

T = TypeVar("T")
UNPINNED = "0" * 40
LIBRARIES = ("torch", "transformers", "trl", "peft")
CONSTRAINTS = Path("constraints.txt")
MODEL_SPECS = Path("specs/_models")


@dataclass
class Inputs:
    """Reads the project around the specs; the working directory is the project's root."""

    stages: CodeTree = field(default_factory=lambda: CodeTree(ROOT))
    """The stages whose code enters the cards."""
    documents: dict[str, Document] = field(default_factory=dict)
    """Every spec file read so far, for the excerpts of messages."""
    _data: dict[str, DataFile | Fault] = field(default_factory=dict)
    _models: dict[str, BaseModel | Fault] = field(default_factory=dict)
    _code: dict[tuple[str, ...], dict[str, Version]] = field(default_factory=dict)
    _pins: dict[str, tuple[str, int]] | None = None
    _lock: Lock | None = None
    only_checks: bool = False
    """Nothing is written, so a hub repository may still be without its commit: UNPINNED stands for it."""
    sources_may_be_absent: bool = False
    """Nothing is run, so a log that is imported may be missing: the hash that its card holds stands for it."""

    def document(self, path: Path) -> Document:
        """A spec file. Raises Rejected."""
        file = path.as_posix()
        if file not in self.documents:
            self.documents[file] = read(path)
        return self.documents[file]

    def lock(self) -> Lock:
        """Pinned commits of hub repositories. Raises Rejected for a broken file."""
        if self._lock is None:
            self._lock = lock(self.document)
        return self._lock

    def relock(self, new: Lock) -> None:
        """Compile with these pins instead of those on disk."""
        self._lock = new

    def commit(self, of: Reference) -> str:
        """The pinned commit of a hub repository. Raises Fault E375 when it has none: a compile never asks the network."""
        try:
            return pinned(of, self.lock())
        except KeyError as missing:
            if self.only_checks:
                return UNPINNED
            meant = f", did you mean `{missing.args[0]}`?" if missing.args[0] else ""
            local = f"no folder `{of.name}` is in the project, so it is a model of the hub; " if of.kind == "models" else ""
            raise Fault(problem("E375", name=of.name, meant=meant, local=local)) from None

    @staticmethod
    def is_local(base: str) -> bool:
        """Whether a base model's name is not one of the hub: made here, or a folder in the project, which comes first."""
        return base.startswith(MADE) or os.path.isdir(Path(base)) or not is_hub_id(base)

    def data(self, path: str | None) -> DataFile:
        """A data file. Raises Fault; for None too, which stands for rows of a hub dataset: a compile does not read them."""
        if path is None:
            raise Fault(problem("E313.hub"))
        return _once(self._data, path, data_file)

    def model(self, base: str) -> BaseModel:
        """A base model. Raises Fault, or Rejected for a broken specs/_models file."""
        return _once(self._models, base, self._model)

    def versions(self, names: Iterable[str] = LIBRARIES) -> dict[str, str]:
        """Pinned versions of libraries. Raises Rejected E323 for one that is not pinned."""
        pins = self.pins()
        for name in names:
            if name not in pins:
                raise Rejected([problem("E323", name=name)])
        return {name: pins[name][0] for name in names}

    def pins(self) -> dict[str, tuple[str, int]]:
        """Library -> (version, line) of constraints.txt."""
        if self._pins is None:
            try:
                lines = CONSTRAINTS.read_bytes().decode("utf-8").splitlines()
            except (OSError, UnicodeDecodeError):
                lines = []
            matches = ((re.match(r"\s*([A-Za-z0-9._-]+)\s*==\s*([A-Za-z0-9.+!_-]+)", line), number) for number, line in enumerate(lines, 1))
            self._pins = {match[1].lower(): (match[2], number) for match, number in matches if match}
        return self._pins

    def code(self, modules: Iterable[str]) -> dict[str, Version]:
        """Code versions of stages' modules. Raises Rejected E270: a broken file of versions, E472: code that is not judged."""
        key = tuple(sorted(set(modules)))
        if key not in self._code:
            try:
                self._code[key] = code_versions(self.stages, key)
            except ArtifactError as error:
                raise Rejected([broken_versions(error)]) from None
            except UnjudgedCode:
                raise Rejected([unjudged_code(self.stages)]) from None
        return self._code[key]

    def judgements(self, code: Code) -> tuple[Judgement, ...]:
        """Judgements by which these versions stand for newer code than that which began them."""
        return judged_same(read_judgements(self.stages.root / VERSIONS), code)

    def _model(self, base: str) -> BaseModel:
        if base.startswith(MADE):
            return self._made(base)
        of = Reference("models", base)
        if not self.is_local(base):
            return BaseModel(base, self.commit(of), None, None, hub=True)
        if of in self.lock().commits:
            raise Fault(problem("E376", name=base))
        return in_folder(base)

    def _made(self, base: str) -> BaseModel:
        name = base.removeprefix(MADE)
        known = sorted(path.stem for path in MODEL_SPECS.glob("*.yaml") if SLUG.fullmatch(path.stem))
        if name not in known:
            raise Fault(unknown("E314.made", base, [f"{MADE}{stem}" for stem in known], None, name=name, all=", ".join(known) or "none"))
        document = self.document(MODEL_SPECS / f"{name}.yaml")
        made, problems = validated(ModelFile, document.root)
        if made is None:
            raise Rejected(problems)
        card = PretrainCard(
            name=name,
            corpus=made.corpus,
            architecture=made.architecture,
            pretrain=made.pretrain,
            versions=self.versions(),
            code=self.code(["stages.train.pretrain", f"{CORPORA}.{made.corpus.kind}"]),
        )
        folder = ModelFolder(MODELS / name)
        positions = made.architecture.max_position_embeddings
        sizes = tuple((key, int(getattr(made.architecture, key))) for key in LINEAR)
        return BaseModel(folder.model.as_posix(), card_id(card), positions, card, sizes=sizes)


def _once(results: dict[str, T | Fault], name: str, read: Callable[[str], T]) -> T:
    """What `read` gives for a name, asked once. Raises the Fault that it raised then."""
    if name not in results:
        try:
            results[name] = read(name)
        except Fault as fault:
            results[name] = fault
    result = results[name]
    if isinstance(result, Fault):
        raise result
    return result
