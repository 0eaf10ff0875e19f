"""Document -> Experiment: the spec as a whole, shared blocks, parent and profile applied, every key of it validated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from compiler.document.layers import Read, overlay
from compiler.document.node import Document, Node
from compiler.document.validate import secrets, validated
from compiler.language.algorithms import COMMAND, train_settings
from compiler.language.family import member
from compiler.language.libraries import not_audited
from compiler.language.outside import CommandSpec, ImportedSpec
from compiler.language.rewards import gate_use
from compiler.language.spec import MAX_PROFILES, Spec
from compiler.problems import Rejected, problem, unknown
from stages.contracts.diagnostic import Diagnostic

T = TypeVar("T")
NOT_IN_A_PROFILE = ("use", "parent", "changes", "hypothesis", "profiles", "actions", "contingency")
"""They say what the experiment is, whichever of its profiles runs."""


@dataclass(frozen=True)
class Experiment:
    """A spec, with its profile applied. `name` is its folder's: the file's stem, `@profile` appended for a profile."""

    stem: str
    profile: str | None
    spec: Spec
    root: Node
    document: Document
    parent: Experiment | None = None
    """The experiment that this one changes, without a profile."""
    proper: Experiment | None = None
    """For a profile: the experiment without it."""

    @property
    def name(self) -> str:
        return f"{self.stem}@{self.profile}" if self.profile else self.stem

    @property
    def is_evidence(self) -> bool:
        """Whether it is to decide its claims: the experiment itself, and profiles that say so."""
        return self.profile is None or self.spec.evidence

    def node(self, *path: str | int) -> Node:
        """The node at a path that the spec's model guarantees to exist."""
        node = self.root.get(*path)
        assert node is not None, path
        return node

    def entries(self, values: Iterable[T], *path: str | int) -> Iterator[tuple[T, Node]]:
        """The values of a list of the spec, which stands at `path`, each with its node."""
        return ((value, self.node(*path, index)) for index, value in enumerate(values))


def experiment(document: Document, stem: str, profile: str | None, read: Read) -> Experiment:
    """Merge all layers and validate. `read` reads the files of shared blocks and parents. Raises Rejected with E2xx, E320 for an
    unknown profile, and E334-E338 for shared blocks and parents that cannot be used."""
    problems = [*secrets(document.root), *_family_keys(document.root), *_profile_keys(document.root)]
    try:
        family = member(document, stem, read)
        above = family.parent
        parent = None if above is None else Experiment(above.stem, None, _spec(above.root), above.root, above.document)
    except Rejected as rejected:
        raise Rejected([*rejected.diagnostics, *problems], rejected.sources) from None
    proper = Experiment(stem, None, _spec(family.root, problems), family.root, document, parent)
    return proper if profile is None else with_profile(proper, profile)


def with_profile(proper: Experiment, profile: str) -> Experiment:
    """An experiment with one of its profiles applied. Raises Rejected with E320 for an unknown one, and E2xx."""
    over = proper.root.get("profiles", profile)
    if over is None:
        raise Rejected([_no_profile(proper, profile)])
    root = overlay(Node({key: node for key, node in proper.root.value.items() if key != "profiles"}, proper.root.place), over, "profile")
    return Experiment(proper.stem, profile, _spec(root), root, proper.document, proper.parent, proper)


def profiles(document: Document, stem: str, read: Read) -> list[str]:
    """Names of all profiles, inherited and shared ones among them; none when there are too many, which the experiment itself says.
    Raises Rejected for shared blocks and parents that cannot be used."""
    names = [name for name, _ in _items(member(document, stem, read).root.get("profiles"))]
    return names if len(names) <= MAX_PROFILES else []


def _spec(root: Node, earlier: Iterable[Diagnostic] = ()) -> Spec:
    """The spec as a model. Raises Rejected, with the problems that were seen earlier."""
    kind, kept, refused = _kind(root)
    spec, problems = validated(kind, kept)
    adapter = {node.key: key for key, node in _items(root.get("model", "adapter"))}
    problems = [not_audited(refused, adapter.get(refused.place), "lora", "peft") for refused in problems]
    wrong = [*earlier, *refused]
    if spec is None or wrong:
        raise Rejected([*wrong, *problems, *_deeper(kept)])
    return spec


def _kind(root: Node) -> tuple[type[Spec], Node, list[Diagnostic]]:
    """The model of a spec, the spec without keys that have no place in it, and E387 for each of these."""
    if root.get("runs") is None and not _is_command(root):
        return Spec, root, []
    kind, form = (ImportedSpec, "E387.import") if root.get("runs") is not None else (CommandSpec, "E387")
    wrong = [(key, node) for key, node in root.items() if key in kind.REFUSED]
    for _, condition in _items(root.get("conditions")):
        wrong += [(key, node) for key, node in condition.items() if key in kind.REFUSED_IN_CONDITIONS]
    problems = [problem(form, node.key or node.place, key=key) for key, node in wrong]
    return kind, Node({key: node for key, node in root.value.items() if key not in kind.REFUSED}, root.place), problems


def _is_command(root: Node) -> bool:
    written = root.get("train", "algorithm")
    return written is not None and written.value == COMMAND


def _no_profile(experiment: Experiment, profile: str) -> Diagnostic:
    names, stem = sorted(experiment.spec.profiles), experiment.stem
    return unknown("E320", profile, names, None, file=experiment.document.file, stem=stem, all=", ".join(names) or "none")


def _family_keys(root: Node) -> Iterator[Diagnostic]:
    """E342: `changes` and `hypothesis` are about a parent; a child that changes nothing is no experiment of its own."""
    parent, changes = root.get("parent"), root.get("changes")
    for key in ("changes", "hypothesis"):
        node = root.get(key)
        if node is not None and parent is None:
            yield problem("E342", node.key or node.place, key=key)
    if parent is not None and (changes is None or changes.value == {}):
        yield problem("E342.nothing", parent.key or parent.place)


def _profile_keys(root: Node) -> Iterator[Diagnostic]:
    evidence = root.get("evidence")
    if evidence is not None:
        yield problem("E335.evidence", evidence.key or evidence.place)
    for _, profile in _items(root.get("profiles")):
        for key, node in _items(profile):
            if key in NOT_IN_A_PROFILE:
                yield problem("E335.profile", node.key or node.place, key=key)


def _deeper(root: Node) -> Iterator[Diagnostic]:
    """Errors of parts that are validated later, for a spec that is wrong elsewhere: all errors of a file are shown at once."""
    train = root.get("train")
    if train is not None and isinstance(train.value, dict) and not _is_command(root):
        merged = any(condition.get("train") for _, condition in _items(root.get("conditions")))
        yield from (refusal for refusal in train_settings(train)[1] if refusal.code != "E202" or not merged)
    for name, reward in _items(root.get("rewards")):
        gates = reward.get("gates")
        for entry in gates.value if gates is not None and isinstance(gates.value, list) else ():
            for _, gate in _items(entry):
                kind = gate.get("kind")
                if len(entry.value) == 1 and isinstance(gate.value, dict) and kind is not None and isinstance(kind.value, str):
                    yield from gate_use(entry, f"rewards.{name}.gates")[1]


def _items(node: Node | None) -> Iterator[tuple[str, Node]]:
    return node.items() if node is not None else iter(())
