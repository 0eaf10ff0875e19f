"""An experiment as an action or a contingency plan would change it, what that changes, and which children have tried it."""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler import disk
from compiler.build.difference import Difference, differences, shown
from compiler.build.inputs import Inputs
from compiler.document.node import Node
from compiler.document.validate import validated
from compiler.language.experiment import Experiment, experiment
from compiler.language.family import SPECS, with_changes
from compiler.language.spec import Spec
from compiler.problems import Rejected
from stages.contracts.intention import ChangeWords

ABOUT_THIS = ("actions", "contingency", "questions", "profiles")
"""Keys that a changed experiment has no use for."""


def changed(of: Experiment, change: Node) -> Experiment:
    """The experiment without a profile with dotted keys changed. Raises Rejected: E338 for keys that lead nowhere, E2xx for values."""
    proper = of.proper or of
    kept = {key: node for key, node in proper.root.value.items() if key not in ABOUT_THIS}
    root = with_changes(Node(kept, proper.root.place, proper.root.key, proper.root.layer), change.value.items())
    spec, problems = validated(Spec, root)
    if spec is None:
        raise Rejected(problems)
    return Experiment(proper.stem, None, spec, root, proper.document)


@dataclass
class Children:
    """The experiments that name this one as their parent; read when first asked for. Those that do not compile have tried nothing."""

    of: Experiment
    inputs: Inputs
    _found: dict[str, dict[str, object]] | None = field(default=None)

    def tried(self, found: list[Difference]) -> tuple[str, ...]:
        """Names of children that make all of these changes, with others or without."""
        if self._found is None:
            self._found = self._read()
        return tuple(name for name, made in self._found.items() if all(made.get(one.key) == one.after for one in found))

    def _read(self) -> dict[str, dict[str, object]]:
        proper = self.of.proper or self.of
        children = {}
        for path in disk.yaml_files(SPECS):
            try:
                document = self.inputs.document(path)
                parent = document.root.get("parent")
                if parent is not None and parent.value == proper.stem:
                    child = experiment(document, path.stem, None, self.inputs.document)
                    children[path.stem] = {one.key: one.after for one in differences(proper, child)}
            except Rejected:  # its own check says what is wrong with it
                continue
        return children


def change_words(found: list[Difference]) -> tuple[ChangeWords, ...]:
    """Differences as text for people."""
    return tuple(ChangeWords(key=one.key, before=shown(one.before), after=shown(one.after)) for one in found)


def parent_changes(of: Experiment) -> tuple[ChangeWords, ...]:
    """The whole difference to the parent; () without one."""
    return change_words(differences(of.parent, of.proper or of)) if of.parent is not None else ()
