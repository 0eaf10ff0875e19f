"""Document -> Experiment: the spec as a whole, a profile applied, every key of it validated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compiler.diagnostics import Rejected, nearest
from compiler.gates import gate_use
from compiler.layers import overlay
from compiler.nodes import Document, Node
from compiler.parse import validated
from compiler.secrets import secrets
from compiler.spec import Spec
from stages.contracts.diagnostic import Diagnostic
from stages.contracts.grpo import GrpoSettings


@dataclass(frozen=True)
class Experiment:
    """A spec, with its profile applied. `name` is its folder's: the file's stem, `@profile` appended for a profile."""

    stem: str
    profile: str | None
    spec: Spec
    root: Node
    document: Document

    @property
    def name(self) -> str:
        return f"{self.stem}@{self.profile}" if self.profile else self.stem

    def node(self, *path: str | int) -> Node:
        """The node at a path that the spec's model guarantees to exist."""
        found = self.root.get(*path)
        assert found is not None, path
        return found


def experiment(document: Document, stem: str, profile: str | None = None) -> Experiment:
    """Apply a profile and validate. Raises Rejected with E2xx, or E320 for an unknown profile."""
    leaks = list(secrets(document.root))
    spec, problems = validated(Spec, document.root)
    if spec is None or leaks:
        raise Rejected([*leaks, *problems, *_deeper(document.root)])
    root = document.root
    if profile is not None:
        over = root.get("profiles", profile)
        if over is None:
            known = sorted(spec.profiles)
            meant = nearest(profile, known)
            raise Rejected(
                [
                    Diagnostic(
                        "E320",
                        f"{document.file} has no profile `{profile}`" + (f", did you mean `{meant}`?" if meant else ""),
                        why=f"`experiment@profile` names a block below `profiles`; known: {', '.join(known) or 'none'}",
                        fix=f"write `{stem}@{meant}`" if meant else f"write `{stem}`",
                    )
                ]
            )
        root = overlay(Node({key: node for key, node in root.value.items() if key != "profiles"}, root.place), over, "profile")
        spec, problems = validated(Spec, root)
        if spec is None:
            raise Rejected([*problems, *_deeper(root)])
    return Experiment(stem, profile, spec, root, document)


def _deeper(root: Node) -> Iterator[Diagnostic]:
    """Errors of parts that are validated later, for a spec that is wrong elsewhere: all errors of a file are shown at once."""
    train = root.get("train")
    if train is not None and isinstance(train.value, dict):
        merged = any(condition.get("train") for _, condition in _items(root.get("conditions")))
        yield from (found for found in validated(GrpoSettings, train, "train")[1] if found.code != "E202" or not merged)
    for name, reward in _items(root.get("rewards")):
        gates = reward.get("gates")
        for entry in gates.value if gates is not None and isinstance(gates.value, list) else ():
            for _, gate in _items(entry):
                kind = gate.get("kind")
                if len(entry.value) == 1 and isinstance(gate.value, dict) and kind is not None and isinstance(kind.value, str):
                    yield from gate_use(entry, f"rewards.{name}.gates")[1]


def _items(node: Node | None) -> Iterator[tuple[str, Node]]:
    return node.items() if node is not None else iter(())
