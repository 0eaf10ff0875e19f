"""The parts of the search: claims and titles first, prose of experiments after them, no tables, and no index for the theme to build."""

import json
from pathlib import Path

from example_experiment import build
from test_site import searched

from stages.publish import search
from stages.publish.entries import entries
from stages.publish.page import page
from stages.publish.search import rows, write_search


def test_the_first_part_has_titles_claims_and_the_guide_and_no_table_of_numbers(built: Path) -> None:
    first = (built / "build/site/search/octavo-0.js").read_text(encoding="utf-8")
    found = searched(built)
    experiment = "experiments/quickstart/index.html"
    claim = next(row for row in found if row[0] == f"{experiment}#claim-shaped-teaches")
    assert claim[1] == "Training on the unit-test reward raises the share of sampled expressions that pass all their tests."
    assert claim[2] == "Supported +0.36 [+0.30, +0.42] shaped-teaches" and "claim-shaped-teaches" in first
    assert next(row for row in found if row[0] == experiment)[1].startswith("Does a verifiable reward teach")
    assert any(row[0].startswith("guide/install.html") for row in found) and any(row[0].startswith("errors.html#s303") for row in found)
    text = json.dumps(found)
    assert "feedbeefcafe0001" not in text and "dvc repro --force --single-item runs" not in text
    of_pages = [row for row in found if row[0].startswith("experiments/quickstart/")]
    assert sum(len(text) for _, _, text in of_pages) < 6_000, "tables and what every page repeats are left out"
    assert any("What I make of it" in text for _, _, text in of_pages), "the author's interpretation is found"


def test_the_theme_gets_an_index_without_documents(built: Path) -> None:
    place = built / "build/site/search"
    index = json.loads((place / "search_index.json").read_text(encoding="utf-8"))
    assert index["docs"] == [] and index["config"]["lang"] == ["en"]
    assert json.loads((place / "search_index.js").read_text(encoding="utf-8").removeprefix("var __index = ")) == index


def test_hostile_words_are_text_in_the_parts(built: Path) -> None:
    for part in (built / "build/site/search").glob("octavo-*.js"):
        text = part.read_text(encoding="utf-8")
        assert "<" not in text and text.startswith("octavo.words({") and text.endswith("});\n")


def test_sections_of_a_thousand_experiments_are_cut_into_parts_and_the_first_stays_small(project: Path, monkeypatch) -> None:
    folder = build(project)
    page(folder)
    [entry] = entries([folder / "page"])
    found = [type(entry)(entry.summary.model_copy(update={"experiment": f"more-{number}"}), entry.pills) for number in range(1000)]
    docs = [{"location": "index.html", "title": "Home", "text": "<p>1,000 cards</p>"}]
    for number in range(1000):
        place = f"experiments/more-{number}/index.html"
        docs += [
            {"location": place, "title": "T", "text": ""},
            {"location": f"{place}#summary", "title": "Summary", "text": "<ul><li>said</li></ul> " + "word " * 400},
            {"location": f"{place}#methods", "title": "Methods", "text": "the same on every page " * 50},
        ]
    first, rest = rows(docs, found)
    assert [row for row in first if row[0] == "index.html"] == [("index.html", "Home", "")]
    assert len(first) == 1 + 1000 * 5 and len(rest) == 1000 and all(len(text) <= 1500 for _, _, text in rest)
    assert rest[0][2].startswith("said word word")
    site = project / "site"
    (site / "search").mkdir(parents=True)
    (site / "search/search_index.json").write_text(json.dumps({"config": {"lang": ["en"]}, "docs": docs}))
    write_search(site, found)
    sizes = {path.name: path.stat().st_size for path in (site / "search").glob("octavo-*.js")}
    assert len(sizes) == 1 + -(-sum(sum(map(len, row)) for row in rest) // search.PART) and sizes["octavo-0.js"] < 2_000_000
    assert max(size for name, size in sizes.items() if name != "octavo-0.js") < 1.2 * search.PART
