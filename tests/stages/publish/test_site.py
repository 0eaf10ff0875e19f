import base64
import hashlib
import html
import json
import re
from pathlib import Path

import pytest
from example_experiment import build, copy_site

from stages.contracts.artifact import read, write
from stages.contracts.diagnostic import StageError
from stages.contracts.layout import ExperimentFolder
from stages.contracts.page_card import PageCard
from stages.publish.home import MEMBERS, home, overview, summaries
from stages.publish.page import page
from stages.publish.policy import theme_scripts
from stages.publish.site import _BODY, _TITLE, MOST_IN_NAVIGATION, age, settings, site

QUICKSTART = "experiments/quickstart/index.html"
TITLE = "</title><script>window.hacked=1</script> {{ 1 }} & *so*"


def searched(project: Path) -> list[dict[str, str]]:
    """What the theme's search knows."""
    index = json.loads((project / "build/site/search/search_index.json").read_text(encoding="utf-8"))
    entries: list[dict[str, str]] = index["docs"]
    return entries


def test_the_site_holds_home_experiments_guide_and_reference(built: Path) -> None:
    pages = {path.relative_to(built / "build/site").as_posix() for path in (built / "build/site").rglob("*.html")}
    assert {"index.html", "experiments/index.html", QUICKSTART, "guide/install.html", "reference/files.html"} <= pages
    assert (built / "build/site/experiments/quickstart/passports.js").exists()
    assert not list((built / "build/site").rglob("octavo?frame*")) and not (built / "build/site/experiments/quickstart/static").exists()


def test_a_static_page_has_the_frame_of_a_page_and_its_own_title(built: Path) -> None:
    text = (built / "build/site/experiments/quickstart/numbers.html").read_text(encoding="utf-8")
    assert "<title>Numbers of quickstart - octavo</title>" in text and text.count("<h1") == 1 and "octavo-frame" not in text
    assert 'href="../../assets/octavo.css"' in text and '<a href="index.html">the page</a>' in text
    assert not [doc for doc in searched(built) if "/quickstart/numbers.html" in doc["location"] or "octavo_frame" in doc["location"]]


def test_a_title_that_is_a_mark_of_the_frame_stays_a_title(project: Path) -> None:
    copy_site(project)
    folder = ExperimentFolder(build(project))
    write(folder.page_card, read(PageCard, folder.page_card).model_copy(update={"title": f"About {_TITLE} and {_BODY}"}))
    page(folder.root)
    (project / "site/docs/bare.html").write_text("<!-- <head> --><script>window.hacked=1</script>")
    site(Path("runs"))
    text = (project / "build/site/experiments/quickstart/numbers.html").read_text(encoding="utf-8")
    assert f"About {_TITLE} and {_BODY}" in html.unescape(text) and "<title>Numbers of quickstart - octavo</title>" in text
    bare = (project / "build/site/bare.html").read_text(encoding="utf-8")
    assert bare.startswith('<meta http-equiv="Content-Security-Policy"'), "a page without a head has a policy too"


@pytest.mark.parametrize(
    ("block", "what"),
    [
        ("{% block content %}mine{% endblock %}", "without its title or its body"),
        ("{% block scripts %}<script>1</script>{% endblock %}", "an inline script"),
    ],
)
def test_a_theme_without_a_place_for_static_pages_or_with_an_inline_script_is_refused(project: Path, block: str, what: str) -> None:
    copy_site(project)
    (project / "site/theme").mkdir()
    (project / "site/theme/main.html").write_text('{% extends "base.html" %}' + block)
    mine = project / "site/mkdocs.yml"
    mine.write_text(mine.read_text().replace("  name: material", f"  name: material\n  custom_dir: {project}/site/theme"))
    page(build(project))
    with pytest.raises(StageError) as caught:
        site(Path("runs"))
    assert caught.value.code == "S383" and what in caught.value.what and not (project / "build/site").exists()


def test_the_search_knows_claims_prose_and_the_guide_and_no_text_that_is_markup(built: Path) -> None:
    docs = searched(built)
    page = [doc for doc in docs if doc["location"].startswith(QUICKSTART)]
    assert any("raises the share of sampled expressions" in doc["text"] for doc in page)
    assert any("What I make of it" in doc["title"] + doc["text"] for doc in page), "the author's interpretation is found"
    assert any(doc["location"].startswith("guide/install.html") for doc in docs)
    assert not [doc for doc in docs if "<script" in doc["title"] + doc["text"]]


def test_tags_lead_to_their_experiments(built: Path) -> None:
    text = (built / "build/site" / QUICKSTART).read_text(encoding="utf-8")
    assert re.search(r'<a href="../index.html#tag:grpo" class="md-tag">grpo</a>', re.sub(r"\s+(?=<|grpo)", "", text))
    listed = (built / "build/site/experiments/index.html").read_text(encoding="utf-8").split('id="tag:grpo"')[1]
    assert 'href="quickstart/index.html"' in listed.split("<h3")[0]


def test_home_lists_live_experiments_with_their_verdicts(built: Path) -> None:
    home = (built / "build/site/index.html").read_text(encoding="utf-8")
    assert home.count('<article class="card') == 2 and home.index("quickstart&#64;smoke") > home.index("Read with care: ")
    assert "1 supported, with care" in home and "1 of 12 runs failed" in home
    newest = home.split('id="newest-findings"')[1]
    assert 'href="experiments/quickstart/index.html#answer-shaped-teaches"' in html.unescape(newest)
    assert "no number" in newest  # a void claim is news too
    assert '<time datetime="2026-11-27T11:59:48Z" data-age>2026-11-27</time>' in html.unescape(home)
    assert "smoke" not in newest.split("</ul>")[0]  # a profile decides nothing


def test_small_runs_are_examples_and_marked_as_small(built: Path) -> None:
    guide = html.unescape((built / "build/site/examples/index.html").read_text(encoding="utf-8"))
    place = "../experiments/quickstart@smoke/index.html"
    assert f'<li><a href="{place}">' in guide and (built / "build/site/examples" / place).exists() and "machinery, not evidence" in guide
    nav = dict(part.popitem() for part in settings(built / "build/docs", summaries(sorted(built.glob("runs/*/page"))))["nav"])
    assert nav["Examples"][0] == "examples/index.md"
    (small,) = [title for entry in nav["Examples"][1:] for title, page in entry.items() if page == "experiments/quickstart@smoke/index.md"]
    tab = re.search(r'<a href="([^"]*)" class="md-tabs__link">\s*Examples', guide)
    assert tab and tab[1] == "index.html", "the part's own page, and none of a small run, which would be missing in the list then"
    assert html.unescape(small).endswith(" (small: smoke)") and "smoke" not in str(nav["Experiments"])


def test_every_page_has_a_policy_that_runs_inline_scripts_of_the_installed_theme_only(built: Path) -> None:
    theme = {f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in theme_scripts()}
    pages = list((built / "build/site").rglob("*.html"))
    assert len(pages) > 30
    for path in pages:
        text = path.read_text(encoding="utf-8")
        policy = re.search(r'<head>\s*<meta http-equiv="Content-Security-Policy" content="([^"]*)">', text)
        assert policy and text.count("Content-Security-Policy") == text.count("http-equiv"), path
        rules = {name: set(sources) for name, *sources in (rule.split() for rule in policy[1].split("; "))}
        assert rules["default-src"] == rules["object-src"] == rules["base-uri"] == rules["form-action"] == {"'none'"}, path
        assert rules["script-src"] <= {"'self'"} | theme and not re.search("https?:|unsafe|\\*", policy[1]), path
        assert path.name == "404.html" or (rules["style-src"] == {"'self'"} and not re.search(r"<style|<[^>]* style=", text)), path
        assert not re.findall(r'<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)="((?:https?:)?//[^"]*)"', text), path


def test_the_navigation_names_experiments_while_they_are_few(project: Path) -> None:
    copy_site(project)
    first = build(project) / "page"
    page(first.parent)
    pages = [first]
    while len(pages) < MOST_IN_NAVIGATION:
        pages.append(project / f"runs/more-{len(pages)}/page")
        pages[-1].mkdir(parents=True)
        summary = json.loads((first / "summary.json").read_text(encoding="utf-8"))
        (pages[-1] / "summary.json").write_text(json.dumps({**summary, "experiment": f"more-{len(pages)}"}), encoding="utf-8")
    docs = project / "site/docs"
    (few,) = [part["Experiments"] for part in settings(docs, summaries(pages))["nav"] if "Experiments" in part]
    assert len(few) == 1 + MOST_IN_NAVIGATION and few[0] == "experiments/index.md"
    (many,) = [part["Experiments"] for part in settings(docs, summaries([*pages, first]))["nav"] if "Experiments" in part]
    assert many == ["experiments/index.md"]


def test_a_site_that_does_not_build_leaves_the_old_one(project: Path) -> None:
    copy_site(project)
    site(Path("runs"))
    before = (project / "build/site/index.html").read_bytes()
    with (project / "site/docs/guide/install.md").open("a") as stream:
        stream.write("\n[gone](nowhere.md)\n")
    with pytest.raises(StageError) as caught:
        site(Path("runs"))
    assert caught.value.code == "S303" and "nowhere.md" in caught.value.what
    assert (project / "build/site/index.html").read_bytes() == before


def test_a_page_whose_rules_changed_says_so(project: Path) -> None:
    folder = ExperimentFolder(build(project))
    page(folder.root)
    assert age(folder.page) == ""
    folder.conclude_card.write_text(folder.conclude_card.read_text(encoding="utf-8").replace("0.05", "0.04"), encoding="utf-8")
    card = folder.run("zero-s1").card
    card.write_text(card.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    text = html.unescape(age(folder.page))
    assert "The rules changed since this page was written" in text and "runs/quickstart/analysis/conclude.card.json" in text
    assert "Settings changed since this page was written" in text and "runs/quickstart/zero-s1/train.card.json" in text
    assert "older than its data" not in text
    folder.conclude_card.unlink()
    assert "The rules" not in age(folder.page)  # a checkout without it cannot know


def test_a_site_without_experiments_says_what_to_do(project: Path) -> None:
    copy_site(project)
    site(Path("runs"))
    assert "No experiment has a page yet" in (project / "build/site/index.html").read_text(encoding="utf-8")


def test_an_address_that_is_no_page_gets_one_that_needs_nothing_else(built: Path) -> None:
    text = (built / "build/site/404.html").read_text(encoding="utf-8")
    assert "<title>No such page - octavo</title>" in text and '<a href="/index.html">' in text
    assert not re.search(r"<(script|link|img)\b|@import|url\(", text)


def test_home_shows_the_newest_experiments_and_leads_to_the_others(project: Path) -> None:
    folder = build(project)
    page(folder)
    [first] = summaries([folder / "page"])
    many = [
        first.model_copy(update={"experiment": f"e{number:03}", "parent": f"e{number - 1:03}" if number % 4 else None})
        for number in range(100)
    ]
    text = html.unescape(home("", many, {}))
    assert text.count("<article") == 6 and len(re.findall(r"index\.html#answer-", text)) == 8
    assert '<a href="experiments/index.html">All 100 experiments</a>' in text
    assert 'href="experiments/index.html#families"' in text and text.count('class="member"') == MEMBERS
    assert (
        "<dt>experiments</dt><dd>100</dd>" in text
        and "<dt>runs</dt><dd>1200</dd>" in text
        and "supported, with care</dt><dd>100</dd>" in text
    )
    listed = html.unescape(overview(many, {}))
    assert listed.count("<article") == listed.count('class="member"') == 100
