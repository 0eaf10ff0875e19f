"""Keys that a spec passes on to TRL and PEFT as they are, checked against the source that is installed: importing either takes seconds."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from compiler.document.node import Node
from compiler.problems import elsewhere, problem, sentence, shown, unknown
from stages.contracts.diagnostic import Diagnostic

CONFIGURATIONS = {
    "grpo": ("trl", "trainer/grpo_config.py", "GRPOConfig"),
    "rloo": ("trl", "trainer/rloo_config.py", "RLOOConfig"),
    "sft": ("trl", "trainer/sft_config.py", "SFTConfig"),
    "lora": ("peft", "tuners/lora/config.py", "LoraConfig"),
}
"""By algorithm, or kind of adapter: package, file, class."""
_BASES = {
    "_BaseConfig": ("trl", "trainer/base_config.py"),
    "TrainingArguments": ("transformers", "training_args.py"),
    "PeftConfig": ("peft", "config.py"),
    "PeftConfigMixin": ("peft", "config.py"),
}
_TYPES: dict[str, type | tuple[type, ...]] = {
    "bool": bool,
    "int": int,
    "float": (int, float),
    "str": str,
    "list": list,
    "dict": dict,
    "tuple": list,
    "None": type(None),
}
"""Names of types in source -> the kinds of YAML values that they take."""


@cache
def fields(configuration: str) -> dict[str, str]:
    """Field -> its type as the source writes it, of one of CONFIGURATIONS; empty when the package is not installed."""
    package, file, name = CONFIGURATIONS.get(configuration, ("", "", ""))
    return _fields(package, file, name) if package else {}


def accepts(written: str, value: object) -> bool:
    """Whether a field of a type takes a YAML value. A type whose name says nothing of YAML takes text, which its class reads."""
    return _accepts(ast.parse(written, mode="eval").body, value)


def passed_on(block: Node | None, configuration: str, own: Collection[str], where: str) -> Iterator[Diagnostic]:
    """What is wrong with the keys of `trl` or `peft`: E252 one that is octavo's, E253 one that the library does not have, E254 a value of
    another type. `own`: keys of the section `where`, in which the block stands."""
    if block is None or configuration not in CONFIGURATIONS:
        return
    known, name = fields(configuration), CONFIGURATIONS[configuration][2]
    for key, node in block.items():
        place = node.key or node.place
        if key in own:
            yield problem("E252", place, None, key=key, name=name, where=where)
        elif fix := elsewhere()["E201"].get(key):
            yield problem("E252.set", place, None, key=key, fix=fix)
        elif key not in known:
            yield unknown("E253", sentence(key), known, place, name=name)
        elif not accepts(known[key], node.plain()):
            yield problem("E254", node.place, None, key=key, name=name, type=known[key], value=shown(node.plain(), 60))


def not_audited(refused: Diagnostic, key: str | None, configuration: str, block: str) -> Diagnostic:
    """E251 instead of an unknown key, when the library knows it and `block` passes it on."""
    if refused.code != "E201" or key is None or key in elsewhere()["E201"] or key not in fields(configuration):
        return refused
    package, _, name = CONFIGURATIONS[configuration]
    return problem("E251", refused.place, None, key=key, name=name, block=block, library=package.upper())


def _fields(package: str, file: str, name: str) -> dict[str, str]:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return {}
    tree = ast.parse((Path(spec.origin).parent / file).read_text(encoding="utf-8"))
    (definition,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    inherited: dict[str, str] = {}
    for base in definition.bases:
        if isinstance(base, ast.Name) and base.id in _BASES:
            inherited |= _fields(*_BASES[base.id], base.id)
    own = (node for node in definition.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name))
    return inherited | {node.target.id: ast.unparse(node.annotation) for node in own if isinstance(node.target, ast.Name)}


def _accepts(kind: ast.expr, value: object) -> bool:
    if isinstance(kind, ast.BinOp):
        return _accepts(kind.left, value) or _accepts(kind.right, value)
    if isinstance(kind, ast.Constant):
        return kind.value is value is None
    if isinstance(kind, ast.Subscript):
        return _accepts_generic(ast.unparse(kind.value).rpartition(".")[2], kind.slice, value)
    name = ast.unparse(kind).rpartition(".")[2]
    if name == "Any":
        return True
    expected = _TYPES.get(name, str)
    return isinstance(value, expected) and (name == "bool" or not isinstance(value, bool))


def _accepts_generic(name: str, inside: ast.expr, value: object) -> bool:
    arms = inside.elts if isinstance(inside, ast.Tuple) else [inside]
    if name in ("Optional", "Union"):
        return (name == "Optional" and value is None) or any(_accepts(arm, value) for arm in arms)
    if name == "Literal":
        return any(isinstance(arm, ast.Constant) and arm.value == value and type(arm.value) is type(value) for arm in arms)
    if name in ("list", "List", "tuple", "Tuple") and isinstance(value, list):
        return all(any(_accepts(arm, entry) for arm in arms) for entry in value)
    return isinstance(value, _TYPES.get(name.lower(), str))
