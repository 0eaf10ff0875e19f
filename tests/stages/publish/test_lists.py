"""Lists of experiments: pages of a size that a phone loads, tags, families, and a home page that does not grow."""

import html
import re
from pathlib import Path

from example_experiment import build

from stages.contracts.names import SLUG
from stages.publish.entries import Entry, entries, family, size
from stages.publish.home import CARDS, NEWEST, computed
from stages.publish.leaves import FRAME
from stages.publish.lists import ALL_TAGS, FAMILIES, ON_A_PAGE, listings, overview, tag_place
from stages.publish.page import page


def many(project: Path, count: int, **changes: object) -> list[Entry]:
    """Entries of so many experiments that are alike but for their name, their day and their parent."""
    folder = build(project)
    page(folder)
    [entry] = entries([folder / "page"])
    days = [f"2026-{1 + number // 28 % 12:02}-{1 + number % 28:02}T00:00:00Z" for number in range(count)]
    return [
        Entry(
            entry.summary.model_copy(
                update={
                    "experiment": f"e{number:04}",
                    "parent": f"e{number - 1:04}" if number % 4 else None,
                    "data_until": days[number],
                    **changes,
                }
            ),
            entry.pills,
        )
        for number in range(count)
    ]


def cards(text: str) -> list[str]:
    return re.findall(r'<h[23]><a href="[^"]*?(e\d{4})/index\.html"', html.unescape(text))


def test_a_thousand_experiments_are_listed_once_each_in_pages_below_300_kb(project: Path) -> None:
    found = many(project, 1000)
    first, leaves = overview(found), listings(found)
    pages = [first, *(leaves[f"octavo_list/all_{number}.html"] for number in range(2, 22))]
    assert [name for text in pages for name in cards(text)] == [entry.summary.experiment for entry in found]
    assert all(len(cards(text)) <= ON_A_PAGE for text in pages) and "octavo_list/all_22.html" not in leaves
    assert max(len(text.encode()) for text in [first, *leaves.values(), computed(found)]) < 250_000, "50 KB are left to the theme"
    assert 'href="octavo_list/all_2.html"' in html.unescape(first) and 'href="../index.html"' in html.unescape(pages[1])
    assert '<b aria-current="page">2</b>' in pages[1] and "<h1>Experiments, page 2</h1>" in html.unescape(pages[1])


def test_home_shows_the_newest_and_leads_to_the_rest(project: Path) -> None:
    text = html.unescape(computed(many(project, 100)))
    assert len(cards(text)) == CARDS and text.count('<ul class="newest">') == 1
    assert len(re.findall(r"index\.html#claim-", text)) == NEWEST
    assert '<a href="experiments/index.html">All 100 experiments</a>' in text and f'href="experiments/{FAMILIES}"' in text
    assert re.search(r"<dt>experiments</dt><dd>100</dd>", text) and re.search(r"<dt>runs</dt><dd>1200</dd>", text)
    assert re.search(r"✓</span> supported</dt><dd>100</dd>", text)


def test_a_tag_leads_to_its_experiments_and_every_address_in_a_list_is_there(project: Path) -> None:
    found = many(project, 60)
    found[7] = Entry(found[7].summary.model_copy(update={"tags": ("Two Words", "grpo")}), found[7].pills)
    leaves = listings(found)
    place = tag_place("Two Words")
    assert cards(leaves[place]) == ["e0007"] and re.fullmatch(r"octavo_list/tag-two-words-[0-9a-f]{6}\.html", place)
    assert len(cards(leaves[tag_place("grpo")])) == ON_A_PAGE and len(cards(leaves["octavo_list/tag-grpo_2.html"])) == 60 - ON_A_PAGE
    assert "Two Words" in html.unescape(leaves[ALL_TAGS])
    known = {*leaves, "index.html"}
    for name, text in {**leaves, "index.html": overview(found)}.items():
        folder = name.rpartition("/")[0]
        for address in re.findall(r'href="([^"#]*)', html.unescape(text)):
            target = (Path("/") / folder / address).as_posix()
            target = re.sub(r"[^/]+/\.\./", "", target).removeprefix("/")
            assert target in known or re.fullmatch(r"e\d{4}/(index|compare)\.html", target), (name, address)


def test_tags_that_differ_only_in_letters_of_no_address_have_different_pages() -> None:
    assert len({tag_place(tag) for tag in ("a b", "a-b", "A b", "a/b", "../a b", "")}) == 6
    assert tag_place("a-b") == "octavo_list/tag-a-b.html" and ".." not in tag_place("../a b")


def test_the_second_page_of_a_tag_is_not_the_page_of_another_tag(project: Path) -> None:
    found = many(project, ON_A_PAGE + 1)
    found[3] = Entry(found[3].summary.model_copy(update={"tags": ("grpo", "grpo-2")}), found[3].pills)
    leaves = listings(found)
    assert cards(leaves[tag_place("grpo-2")]) == [found[3].summary.experiment]
    (second,) = (text for place, text in leaves.items() if "tag-grpo" in place and "page 2" in html.unescape(text))
    assert cards(second) == [found[-1].summary.experiment]


def test_no_experiment_can_be_called_as_the_folders_of_lists_and_of_the_frame_are() -> None:
    """Its page would lie among the lists, or go with the frame."""
    folders = [ALL_TAGS.partition("/")[0], FRAME.split("/")[1]]
    assert not [folder for folder in folders if SLUG.fullmatch(folder)]


def test_a_line_of_500_children_is_a_family_that_is_listed_in_order(project: Path) -> None:
    alone = many(project, 500)
    parents = [None, *(entry.summary.experiment for entry in alone[:-1])]
    line = [Entry(entry.summary.model_copy(update={"parent": parent}), entry.pills) for entry, parent in zip(alone, parents, strict=True)]
    (tree,) = family(line)
    assert size(tree) == 500 and [len(member.children) for member in tree.whole] == [*[1] * 499, 0]
    for text in (listings(line)[FAMILIES], computed(line).split('class="oct tree"')[1]):
        shown = html.unescape(text)
        assert re.findall(r'class="member"><a href="[^"]*?(e\d{4})/index', shown) == [entry.summary.experiment for entry in line]
        assert shown.count("changes e0497") == 1 and shown.count("<ul>") == shown.count("</ul>") == 12
