"""`page/lineage.json`: from the spec through cards, attempts and files to findings, verdicts and the page."""

from __future__ import annotations

from pathlib import Path

from stages.contracts.algorithms import AnyTrainCard
from stages.contracts.artifact import file_digest
from stages.contracts.lineage import Edge, Lineage, Node
from stages.publish import judged
from stages.publish.experiment import ExperimentFiles, RunFiles
from stages.publish.passports import commits


class _Graph:
    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.edges: dict[tuple[str, str], Edge] = {}

    def node(self, node: Node) -> str:
        self.nodes.setdefault(node.id, node)
        return node.id

    def edge(self, cause: str, effect: str) -> None:
        self.edges.setdefault((cause, effect), Edge(cause=cause, effect=effect))

    def file(self, path: Path, sha256: str | None = None) -> str:
        name = path.as_posix()
        if f"file:{name}" in self.nodes:
            return f"file:{name}"
        digest = sha256 or (file_digest(path) if path.exists() else None)
        return self.node(Node(id=f"file:{name}", kind="file", label=path.name, path=name, sha256=digest))


def lineage(experiment: ExperimentFiles, used: list[str]) -> Lineage:
    """The graph of everything behind a page that shows the findings `used`. Paths are relative to the project root."""
    graph = _Graph()
    spec = graph.node(Node(id=f"spec:{experiment.card.spec}", kind="spec", label=experiment.card.spec, path=experiment.card.spec))
    page = graph.node(
        Node(
            id=f"page:{experiment.folder.name}",
            kind="page",
            label=experiment.card.title,
            path=(experiment.folder.page / "index.md").as_posix(),
        )
    )
    for run in experiment.runs:
        _run(graph, spec, run)
    analysis = graph.file(experiment.folder.findings)
    graph.edge(_card(graph, spec, experiment.folder.conclude_card, experiment.conclusions.card_id, None), analysis)
    for name in used:
        finding = experiment.findings[name]
        id_ = graph.node(Node(id=f"finding:{name}", kind="finding", label=name, detail={"says": finding.says}))
        for source in finding.sources:
            graph.edge(graph.file(Path(source.path), source.sha256), id_)
        graph.edge(analysis, id_)
        graph.edge(id_, page)
    for drawing in experiment.drawings:
        draw = experiment.folder.draw_card
        for path in (drawing.svg, drawing.csv):
            if path.exists():
                if draw.exists():
                    graph.edge(_card(graph, spec, draw, None, None), graph.file(path))
                graph.edge(graph.file(path), page)
                for source in drawing.figure.sources:
                    graph.edge(graph.file(Path(source.path), source.sha256), graph.file(path))
    for verdict in experiment.verdicts.values():
        place = experiment.origins.claims.get(verdict.claim)
        id_ = graph.node(
            Node(
                id=f"verdict:{verdict.claim}",
                kind="verdict",
                label=f"{verdict.claim}: {verdict.verdict}",
                path=str(place) if place else None,
            )
        )
        graph.edge(f"finding:{verdict.finding}" if f"finding:{verdict.finding}" in graph.nodes else analysis, id_)
        graph.edge(spec, id_)
        graph.edge(id_, page)
    for path in (experiment.folder.preflight, *(run.folder.health for run in experiment.runs)):
        if path.exists():
            graph.edge(graph.file(path), page)
    commit = commits(experiment.runs)
    return Lineage(
        experiment=experiment.folder.name,
        commit=commit[0] if len(commit) == 1 else None,
        nodes=tuple(graph.nodes[name] for name in sorted(graph.nodes)),
        edges=tuple(graph.edges[pair] for pair in sorted(graph.edges)),
    )


def _card(graph: _Graph, spec: str, path: Path, card_id: str | None, code_hash: str | None) -> str:
    id_ = graph.node(
        Node(
            id=f"card:{path.as_posix()}",
            kind="card",
            label=path.name,
            path=path.as_posix(),
            sha256=file_digest(path) if path.exists() else None,
            detail={"card_id": card_id} if card_id else {},
        )
    )
    graph.edge(spec, id_)
    if code_hash:
        graph.edge(graph.node(Node(id=f"code:{code_hash}", kind="code", label=f"code {code_hash}")), id_)
    return id_


def _run(graph: _Graph, spec: str, run: RunFiles) -> None:
    made = run.card or run.import_card
    path = run.folder.import_card if run.import_card else run.folder.card
    card = _card(graph, spec, path, run.outcome.card_id if run.outcome else None, judged.versions(made.code) if made else None)
    if run.import_card:
        source = run.import_card.source
        graph.edge(graph.node(Node(id=f"data:{source.path}", kind="data", label=source.path, path=source.path, sha256=source.sha256)), card)
    if run.card:
        _inputs(graph, card, run.card)
    for attempt in run.attempts:
        start = attempt.started
        id_ = graph.node(
            Node(
                id=f"attempt:{start.attempt}",
                kind="attempt",
                label=f"{run.ref.name} attempt {start.number}",
                path=run.folder.attempts.as_posix(),
                detail={"state": attempt.state, "commit": start.commit or "", "at": start.at, "host": start.host},
            )
        )
        graph.edge(card, id_)
        if run.outcome and start.attempt == run.outcome.attempt:
            for path in (run.folder.history, run.folder.completions, run.folder.imported, run.folder.outcome):
                if path.exists():
                    graph.edge(id_, graph.file(path))
    for path in (run.folder.history, run.folder.completions, run.folder.imported):
        if path.exists() and run.folder.health.exists():
            graph.edge(graph.file(path), graph.file(run.folder.health))


def _inputs(graph: _Graph, card: str, train: AnyTrainCard) -> None:
    data, model = train.data, train.model
    rows = Node(id=f"data:{data.name}", kind="data", label=data.name, path=data.path, sha256=data.sha256)
    if data.hub:
        rows = Node(id=f"data:{data.name}@{data.revision}", kind="data", label=data.name, detail={"pin": data.pin})
    graph.edge(graph.node(rows), card)
    graph.edge(
        graph.node(
            Node(
                id=f"model:{model.base}@{model.revision}",
                kind="model",
                label=model.base,
                path=None if model.hub else model.path,
                detail={"revision": model.revision},
            )
        ),
        card,
    )
