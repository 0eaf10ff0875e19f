"""Citations and PROV of an experiment whose words are hostile."""

import json

import yaml
from example_experiment import FAILED, build

from stages.contracts.artifact import read, write
from stages.contracts.lineage import Edge, Lineage, Node
from stages.contracts.page_card import PageCard
from stages.publish.citation import citation
from stages.publish.experiment import load
from stages.publish.page import page
from stages.publish.prov import prov


def test_a_citation_has_title_owner_date_and_commit(project):
    made = citation(load(build(project)))
    assert made.bibtex.splitlines() == [
        "@misc{octavo-quickstart,",
        "  title = {{Does a verifiable reward teach a small model to write right expressions?}},",
        "  author = {{octavo}},",
        "  note = {octavo experiment quickstart, commit 1f2e3d4c5b6a79880123},",
        "  year = {2026},",
        "  month = nov,",
        "}",
    ]
    cff = yaml.safe_load(made.cff)
    assert cff["cff-version"] == "1.2.0" and cff["type"] == "dataset" and cff["authors"] == [{"name": "octavo"}]
    assert cff["commit"] == "1f2e3d4c5b6a79880123" and str(cff["date-released"]).startswith("2026-11-27")


def test_words_of_a_spec_end_no_field(project):
    folder = build(project)
    card = read(PageCard, folder / "page.card.json")
    title = 'a }, evil = {x}\\end "q": & 100% \u202e $x_1$'
    write(folder / "page.card.json", card.model_copy(update={"title": title, "owner": "- x: [y]\n#"}))
    made = citation(load(folder))
    line = made.bibtex.splitlines()[1]
    assert line == (r'  title = {{a \}, evil = \{x\}\textbackslash{}end "q": \& 100\% ⟨U+202E⟩ \$x\_1\$}},')
    cff = yaml.safe_load(made.cff)
    assert cff["title"] == title.replace("\u202e", "⟨U+202E⟩") and cff["authors"] == [{"name": "- x: [y]\n#"}]


def test_the_page_carries_citation_and_prov(project):
    folder = build(project)
    page(folder)
    text = (folder / "page/index.md").read_text()
    assert "&#64;misc&#123;octavo-quickstart" in text and 'href="citation.bib"' in text and 'href="prov.json"' in text
    assert (folder / "page/CITATION.cff").read_text().startswith('cff-version: "1.2.0"\n')
    document = json.loads((folder / "page/prov.json").read_text())
    lineage = read(Lineage, folder / "page/lineage.json")
    assert len(document["entity"]) + len(document["activity"]) == len(lineage.nodes)
    kinds = ("used", "wasGeneratedBy", "wasDerivedFrom", "wasInformedBy")
    assert sum(len(document.get(kind, {})) for kind in kinds) == len(lineage.edges)
    assert any(FAILED in name for name in document["activity"])


def test_edges_become_the_relations_of_prov():
    nodes = (
        Node(id="card:c", kind="card", label="c", path="c.json", sha256="ab"),
        Node(id="attempt:a", kind="attempt", label="a", detail={"at": "2026-11-27T10:00:00Z", "state": "finished"}),
        Node(id="file:h", kind="file", label="h"),
        Node(id="finding:f", kind="finding", label="f"),
    )
    edges = (Edge(cause="card:c", effect="attempt:a"), Edge(cause="attempt:a", effect="file:h"), Edge(cause="file:h", effect="finding:f"))
    found = json.loads(prov(Lineage(experiment="e", commit=None, nodes=nodes, edges=edges)))
    assert found["used"] == {"_:used-1": {"prov:activity": "octavo:attempt:a", "prov:entity": "octavo:card:c"}}
    assert found["wasGeneratedBy"] == {"_:wasGeneratedBy-1": {"prov:entity": "octavo:file:h", "prov:activity": "octavo:attempt:a"}}
    assert found["wasDerivedFrom"] == {
        "_:wasDerivedFrom-1": {"prov:generatedEntity": "octavo:finding:f", "prov:usedEntity": "octavo:file:h"}
    }
    assert found["activity"]["octavo:attempt:a"]["prov:startTime"] == "2026-11-27T10:00:00Z"
    assert found["entity"]["octavo:card:c"] == {
        "octavo:kind": "card",
        "octavo:sha256": "ab",
        "prov:label": "c",
        "prov:location": "c.json",
        "prov:type": {"$": "prov:Plan", "type": "xsd:QName"},
    }
    assert "wasInformedBy" not in found
