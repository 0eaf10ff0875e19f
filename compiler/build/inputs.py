"""What lies on disk beside a spec and enters cards: data files, base models, library versions, code versions. Each read once."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from compiler.build.code_versions import broken_versions, unjudged_code
from compiler.build.revisions import Lock, Reference, lock
from compiler.document.node import Document
from compiler.document.read import read
from compiler.document.validate import validated
from compiler.language.spec import ModelFile
from compiler.problems import Fault, Rejected, nearest, problem, refused_file, unknown
from stages.contracts.artifact import ArtifactError
from stages.contracts.code import VERSIONS, Code, Judgement, UnjudgedCode, Version, code_versions, judged_same, read_judgements
from stages.contracts.code_tree import CodeTree
from stages.contracts.files import BLANK, FileRefused, file_digest, parse_json, read_bytes, read_json, read_lines
from stages.contracts.layout import MODELS, ModelFolder
from stages.contracts.names import PATH, SLUG, is_hub_id
from stages.contracts.plugin import CORPORA
from stages.contracts.pretrain_card import PretrainCard
from stages.contracts.stage import ROOT, card_id

MADE = "octavo/"
POSITIONS = "max_position_embeddings"
LINEAR = ("hidden_size", "intermediate_size")
"""Keys of a model's configuration that are sizes of its linear layers."""
UNPINNED = "0" * 40
LIBRARIES = ("torch", "transformers", "trl", "peft")
CONSTRAINTS = Path("constraints.txt")
MODEL_SPECS = Path("specs/_models")
MOST_ROWS = 250_000
"""Of a data file."""


@dataclass(frozen=True)
class BaseModel:
    """A base model: where it will lie and what pins it. `card` when the repository makes it. `hub`: `path` is a hub id."""

    path: str
    revision: str
    max_positions: int | None
    card: PretrainCard | None
    hub: bool = False
    sizes: tuple[tuple[str, int], ...] = ()
    """Names and values of the sizes of its linear layers, as far as they are known."""


@dataclass(frozen=True, eq=False)
class DataFile:
    """A JSONL file, one object a row, each with its id. `rows` maps id to row, in file order."""

    path: str
    sha256: str
    rows: dict[str, dict[str, Any]]


@dataclass
class Inputs:
    """Reads the project around the specs; the working directory is the project's root."""

    stages: CodeTree = field(default_factory=lambda: CodeTree(ROOT))
    """The stages whose code enters the cards."""
    documents: dict[str, Document] = field(default_factory=dict)
    """Every spec file read so far, for the excerpts of messages."""
    only_checks: bool = False
    """Nothing is written, so a hub repository may still be without its commit: UNPINNED stands for it."""
    sources_may_be_absent: bool = False
    """Nothing is run, so a log that is imported may be missing: the hash that its card holds stands for it."""
    _data: dict[str, DataFile] = field(default_factory=dict)
    _models: dict[str, BaseModel] = field(default_factory=dict)
    _code: dict[tuple[str, ...], dict[str, Version]] = field(default_factory=dict)
    _lock: Lock | None = None

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

    def commit(self, repository: Reference) -> str:
        """The pinned commit of a hub repository. Raises Fault E375 when it has none: a compile never asks the network."""
        commits, name = self.lock().commits, repository.name
        if repository not in commits and not self.only_checks:
            close = nearest(name, [other.name for other in commits if other.kind == repository.kind])
            meant = f", did you mean `{close}`?" if close else ""
            local = f"no folder `{name}` is in the project, so it is a model of the hub; " if repository.kind == "models" else ""
            raise Fault(problem("E375", name=name, meant=meant, local=local))
        return commits.get(repository, UNPINNED)

    @staticmethod
    def is_local(base: str) -> bool:
        """Whether a base model's name is not one of the hub: made here, or a folder in the project, which comes first."""
        return base.startswith(MADE) or os.path.isdir(Path(base)) or not is_hub_id(base)

    def data(self, path: str | None) -> DataFile:
        """A data file. Raises Fault; for None too, which stands for rows of a hub dataset: a compile does not read them."""
        if path is None:
            raise Fault(problem("E313.hub"))
        if path not in self._data:
            self._data[path] = _data_file(path)
        return self._data[path]

    def model(self, base: str) -> BaseModel:
        """A base model. Raises Fault, or Rejected for a broken specs/_models file."""
        if base not in self._models:
            self._models[base] = self._made(base) if base.startswith(MADE) else self._model(base)
        return self._models[base]

    def versions(self, names: Iterable[str] = LIBRARIES) -> dict[str, str]:
        """Pinned versions of libraries. Raises Rejected E323 for one that is not pinned."""
        for name in names:
            if name not in self.pins:
                raise Rejected([problem("E323", name=name)])
        return {name: self.pins[name][0] for name in names}

    @cached_property
    def pins(self) -> dict[str, tuple[str, int]]:
        """Library -> (version, line) of constraints.txt."""
        lines = read_bytes(CONSTRAINTS, 1 << 20).decode("utf-8", "replace").splitlines() if CONSTRAINTS.is_file() else []
        matches = ((re.match(r"\s*([A-Za-z0-9._-]+)\s*==\s*([A-Za-z0-9.+!_-]+)", line), number) for number, line in enumerate(lines, 1))
        return {match[1].lower(): (match[2], number) for match, number in matches if match}

    def code(self, modules: Iterable[str]) -> dict[str, Version]:
        """Code versions of stages' modules; none while specs are only checked: they say nothing of code. Raises Rejected E270: a broken
        file of versions, E472: code that is not judged."""
        if self.only_checks:
            return {}
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
        reference = Reference("models", base)
        if not self.is_local(base):
            return BaseModel(base, self.commit(reference), None, None, hub=True)
        if reference in self.lock().commits:
            raise Fault(problem("E376", name=base))
        path = Path(base)
        if not PATH.fullmatch(base) or not os.path.isdir(path):
            raise Fault(problem("E314", name=base))
        try:
            content = read_json(path / "config.json")
            sizes = {key: size for key in (*LINEAR, POSITIONS) if isinstance(size := dict(content).get(key), int)}
            positions = sizes.pop(POSITIONS, None)
            return BaseModel(base, file_digest(path)[:16], positions, None, sizes=tuple(sizes.items()))
        except (OSError, ValueError, TypeError) as error:
            raise Fault(problem("E314.config", name=base, reason=error)) from None

    def _made(self, base: str) -> BaseModel:
        name = base.removeprefix(MADE)
        models = sorted(path.stem for path in MODEL_SPECS.glob("*.yaml") if SLUG.fullmatch(path.stem))
        if name not in models:
            raise Fault(unknown("E314.made", base, [f"{MADE}{stem}" for stem in models], None, name=name, all=", ".join(models) or "none"))
        spec, problems = validated(ModelFile, self.document(MODEL_SPECS / f"{name}.yaml").root)
        if spec is None:
            raise Rejected(problems)
        code = self.code(["stages.train.pretrain", f"{CORPORA}.{spec.corpus.kind}"])
        sections = {"corpus": spec.corpus, "architecture": spec.architecture, "pretrain": spec.pretrain}
        card = PretrainCard(name=name, **sections, versions=self.versions(), code=code)
        sizes = tuple((key, int(getattr(spec.architecture, key))) for key in LINEAR)
        path = ModelFolder(MODELS / name).model.as_posix()
        return BaseModel(path, card_id(card), spec.architecture.max_position_embeddings, card, sizes=sizes)


def _data_file(path: str) -> DataFile:
    """Raises Fault E313 for a file that is missing, holds no rows, or has a row without an id of its own."""
    try:
        return _rows(path)
    except FileRefused as refused:
        raise Fault(refused_file(refused)) from None
    except OSError as error:
        folder = Path(path).parent.as_posix()
        raise Fault(problem("E313", path=path, reason=error.strerror or error, folder=folder)) from None


def _rows(path: str) -> DataFile:
    rows: dict[str, dict[str, Any]] = {}
    content = hashlib.sha256()
    for number, line in enumerate(read_lines(path), start=1):
        content.update(line)
        if not line.strip(BLANK):
            continue
        try:
            row = parse_json(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise Fault(problem("E313.row", line=number, path=path))
        name = row.get("id")
        if not isinstance(name, str) or not name:
            raise Fault(problem("E313.id", line=number, path=path))
        if name in rows:
            raise Fault(problem("E313.twice", line=number, path=path, id=name[:80]))
        rows[name] = row
        if len(rows) > MOST_ROWS:
            raise Fault(problem("E313.many", path=path, most=f"{MOST_ROWS:,}"))
    if not rows:
        raise Fault(problem("E313.empty", path=path))
    return DataFile(path, content.hexdigest(), rows)
