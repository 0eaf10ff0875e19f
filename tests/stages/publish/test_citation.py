"""Citations of an experiment whose words are hostile."""

import yaml
from example_experiment import build

from stages.contracts.artifact import read, write
from stages.contracts.page_card import PageCard
from stages.publish.citation import citation
from stages.publish.experiment import load
from stages.publish.page import page


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


def test_the_page_carries_its_citation(project):
    folder = build(project)
    page(folder)
    text = (folder / "page/index.md").read_text()
    assert "&#64;misc&#123;octavo-quickstart" in text and 'href="citation.bib"' in text
    assert (folder / "page/CITATION.cff").read_text().startswith('cff-version: "1.2.0"\n')
