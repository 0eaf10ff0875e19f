import html
import re
from pathlib import Path

from example_experiment import build, copy_site

from stages.contracts.artifact import read, write
from stages.contracts.layout import ExperimentFolder
from stages.contracts.page_card import ChangeWords, PageCard
from stages.publish.home import families, summaries
from stages.publish.page import page
from stages.publish.site import site


def child(project: Path, name: str, parent: str, *changes: ChangeWords) -> Path:
    """An experiment with a parent, and its page."""
    folder = ExperimentFolder(build(project, name=name))
    card = read(PageCard, folder.page_card)
    words = {"parent": parent, "changes": changes, "hypothesis": "A smaller `learning_rate` drifts less."}
    write(folder.page_card, card.model_copy(update=words))
    page(folder.root)
    return folder.page


def text_of(markup: str) -> str:
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", markup)))


def test_a_page_names_its_parent_and_the_whole_difference(project: Path) -> None:
    change = ChangeWords(key="train.learning_rate", before="1e-3", after="1e-4 <b>|")
    text = (child(project, "slower", "quickstart", change) / "index.md").read_text(encoding="utf-8")
    assert "A change of the experiment quickstart : A smaller learning_rate drifts less." in text_of(text)
    assert "train.learning_rate 1e-3 1e-4 <b>| " in text_of(text) and "<b>|" not in text
    page(build(project))
    assert "A change of the experiment" not in (project / "runs/quickstart/page/index.md").read_text(encoding="utf-8")


def test_home_shows_what_children_changed_and_decided(project: Path) -> None:
    copy_site(project)
    page(build(project))
    child(project, "slower", "quickstart", ChangeWords(key="train.learning_rate", before="1e-3", after="1e-4"))
    child(project, "slowest", "slower", ChangeWords(key="train.max_steps", before="60", after="120"))
    child(project, "orphan", "elsewhere")
    page(build(project, name="quickstart@smoke", profile="smoke"))

    trees = families(summaries(sorted(Path("runs").glob("*/page"))))
    assert [[(member.experiment, depth) for member, depth in tree] for tree in trees] == [
        [("orphan", 0)],
        [("quickstart", 0), ("slower", 1), ("slowest", 2)],
    ]
    site(Path("runs"))
    tree = (project / "build/site/index.html").read_text(encoding="utf-8").split('id="family"')[1].split("</div>")[0]
    words = "changes quickstart in train.learning_rate 1e-3 → 1e-4 expected: A smaller learning_rate drifts less. decided: Of four"
    assert words in text_of(tree)
    assert "✓ 1 supported" in text_of(tree.split("slower/index.html")[1].split("slowest/index.html")[0])
    assert 'href="experiments/slowest/index.html"' in tree


def test_a_line_of_2000_children_is_one_family_in_order(project: Path) -> None:
    page(build(project))
    [first] = summaries([Path("runs/quickstart/page")])
    line = [first.model_copy(update={"experiment": f"e{n:04}", "parent": f"e{n - 1:04}" if n else None}) for n in range(2000)]
    [tree] = families(line)
    assert [depth for _, depth in tree] == list(range(2000))
