"""`page/prov.json`: the lineage as PROV-JSON (https://www.w3.org/Submission/prov-json/), for tools that know W3C PROV.

Files, cards, code, data, models, findings, verdicts and pages are entities; attempts and the making of each entity that no attempt made
are activities. An edge from cause to effect becomes `used` and `wasGeneratedBy` where an attempt stands between, else `wasDerivedFrom`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stages.contracts.artifact import canonical_json
from stages.contracts.lineage import Edge, Lineage, Node

PREFIX = {"octavo": "urn:octavo:", "prov": "http://www.w3.org/ns/prov#"}
_PLANS = {"spec", "card", "code"}


def prov(lineage: Lineage) -> str:
    """Canonical PROV-JSON."""
    nodes = {node.id: node for node in lineage.nodes}
    activities = {id_ for id_, node in nodes.items() if node.kind == "attempt"}
    relations: dict[str, dict[str, Any]] = {"used": {}, "wasGeneratedBy": {}, "wasDerivedFrom": {}, "wasInformedBy": {}}
    for edge in lineage.edges:
        kind, said = _relation(edge, activities)
        relations[kind][f"_:{kind}-{len(relations[kind]) + 1}"] = said
    by = {f"_:by-{n}": {"prov:activity": _name(id_), "prov:agent": "octavo:octavo"} for n, id_ in enumerate(sorted(activities), 1)}
    document = {
        "prefix": PREFIX,
        "entity": {_name(id_): _described(node) for id_, node in nodes.items() if id_ not in activities},
        "activity": {_name(id_): _described(nodes[id_]) for id_ in activities},
        "agent": {"octavo:octavo": {"prov:type": {"$": "prov:SoftwareAgent", "type": "xsd:QName"}}},
        "wasAssociatedWith": by,
        **relations,
    }
    return canonical_json({name: content for name, content in document.items() if content})


def _relation(edge: Edge, activities: Iterable[str]) -> tuple[str, dict[str, str]]:
    cause, effect = _name(edge.cause), _name(edge.effect)
    if edge.cause in activities and edge.effect in activities:
        return "wasInformedBy", {"prov:informed": effect, "prov:informant": cause}
    if edge.cause in activities:
        return "wasGeneratedBy", {"prov:entity": effect, "prov:activity": cause}
    if edge.effect in activities:
        return "used", {"prov:activity": effect, "prov:entity": cause}
    return "wasDerivedFrom", {"prov:generatedEntity": effect, "prov:usedEntity": cause}


def _described(node: Node) -> dict[str, Any]:
    said: dict[str, Any] = {"prov:label": node.label, "octavo:kind": node.kind}
    if node.kind in _PLANS:
        said["prov:type"] = {"$": "prov:Plan", "type": "xsd:QName"}
    if node.kind == "attempt":
        said["prov:startTime"] = node.detail.get("at", "")
    if node.path:
        said["prov:location"] = node.path
    if node.sha256:
        said["octavo:sha256"] = node.sha256
    return said | {f"octavo:{name}": text for name, text in node.detail.items() if name != "at"}


def _name(id_: str) -> str:
    return f"octavo:{id_}"
