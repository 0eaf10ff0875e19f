import re
import resource
from pathlib import Path

import markdown
import pytest
from example_experiment import plain

from stages.contracts.artifact import ArtifactError
from stages.contracts.diagnostic import StageError
from stages.contracts.finding import Finding
from stages.contracts.interpretation import Interpretation, read_interpretation
from stages.publish.facts import Facts
from stages.publish.prose import Named, render_prose

PATH = Path("specs/quickstart.md")


def finding(id_: str, value: float | None = 0.8812, **more: object) -> Finding:
    subject, metric, statistic = id_.split("/")
    return Finding(id=id_, says="", subject=subject, metric=metric, statistic=statistic, unit="share", value=value, **more)  # type: ignore[arg-type]


def render(text: str) -> tuple[str, Facts]:
    findings = [
        finding("shaped/reward/final", low=0.84, high=0.92),
        finding("zero/reward/final", None, reason="no run counts"),
        finding("before:shaped/loss/final", 3.21987),
    ]
    facts = Facts({f.id: f for f in findings})
    return render_prose(
        Interpretation(text, {}), PATH, facts, Named(blocks={"figure:curve": lambda: '<figure id="figure-curve">\n\n<b>x</b></figure>\n'})
    ), facts


def test_references_become_numbers_with_their_passports() -> None:
    html, facts = render("It reached {{ shaped/reward/final }}, or {{shaped/reward/final|interval}}.")
    assert ">0.88</a>," in html
    assert '>0.88 <span class="bounds">&#91;0.84, 0.92&#93;</span></a>.' in html
    assert list(facts.used) == ["shaped/reward/final"]


def test_a_value_that_does_not_exist_is_a_dash_with_its_reason() -> None:
    html, _ = render("It reached {{ zero/reward/final }}.")
    assert ' title="no run counts">–</a>' in html


def test_an_unknown_reference_ends_the_stage_with_its_place_and_a_suggestion() -> None:
    with pytest.raises(StageError) as caught:
        render("First line.\n\nIt is {{ shaped/reward/finl }}\nand {{ 7*7 }}.")
    assert caught.value.code == "S301"
    assert "specs/quickstart.md:3:7: unknown id 'shaped/reward/finl'; did you mean 'shaped/reward/final'" in caught.value.what
    assert "specs/quickstart.md:4:5: unknown id '7*7'" in caught.value.what


@pytest.mark.parametrize("expression", ["a b", "shaped/reward/final | upper", "shaped/reward/final | interval | x", ""])
def test_nothing_else_is_evaluated(expression: str) -> None:
    with pytest.raises(StageError):
        render("{{ " + expression + " }}")


def test_digits_are_the_authors_choice() -> None:
    html, _ = render("{{ shaped/reward/final | digits 3 }} and {{ shaped/reward/final | interval | digits 1 }}")
    assert plain(html) == "0.881 and 0.9 [0.8, 0.9]"


def test_a_reference_in_a_table_is_one() -> None:
    cell = "| a |\n|---|\n| {{ shaped/reward/%s \\| interval }} |\n"
    html, _ = render(cell % "final")
    assert "0.88 [0.8" in plain(html)
    with pytest.raises(StageError, match=r"specs/quickstart.md:3:3: unknown id 'shaped/reward/finl'"):
        render(cell % "finl")


def test_a_number_of_another_experiment_is_never_one_of_this() -> None:
    html, facts = render("It was {{ before:shaped/loss/final }}.")
    assert ">3.22</a>." in html and list(facts.used) == ["before:shaped/loss/final"]
    with pytest.raises(StageError) as caught:
        render("{{ shaped/loss/final }} and {{ before:shaped/reward/final }}\nand {{ elsewhere:shaped/reward/final }}")
    first, second, third = caught.value.what.splitlines()
    assert first == "specs/quickstart.md:1:1: unknown id 'shaped/loss/final'; did you mean 'shaped/reward/final'?"
    assert second.endswith("unknown id 'before:shaped/reward/final'; did you mean 'before:shaped/loss/final'?")
    assert third.startswith("specs/quickstart.md:2:5: ") and "octavo compile" in third
    with pytest.raises(StageError, match="another experiment is written 'before:shaped/loss/final'"):
        render("{{ before/shaped/loss/final }}")


def test_a_figure_stands_alone_in_its_paragraph_without_its_id() -> None:
    html, _ = render("Before.\n\n{{ figure:curve }}\n\nAfter.")
    assert html == "<p>Before.</p>\n<figure>\n<b>x</b></figure>\n<p>After.</p>"
    for text in ("See {{ figure:curve }}.", "{{ figure:curves }}", "{{ table:wages }}", "{{ claim:none }}"):
        with pytest.raises(StageError):
            render(text)


def test_references_inside_code_stay_as_they_are() -> None:
    html, facts = render("`{{ x }}`\n\n```\n{{ y }}\n```\n")
    assert plain(html) == "{{ x }} {{ y }}" and not facts.used


def test_raw_html_is_text_and_links_lead_nowhere_dangerous() -> None:
    html, _ = render(
        "<script>alert(1)</script>\n\n<img src=x onerror=alert(1)> *a*{: onclick=alert(1)}\n\n"
        "[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](data:text/html,x) ![d](javascript:1) <javascript:alert(1)> "
        "[g](java&#115;cript:alert(1)) [h](&#106;avascript:alert(1)) [i](\x01javascript:alert(1)) ![j](http://evil.example/x) "
        "[e](https://example.org) [f](#claims) ![k](figures/reward.svg)"
    )
    assert "<script>alert(1)</script>" in plain(html) and "*a*{: onclick" not in html and "{: onclick=alert(1)}" in plain(html)
    assert re.findall(r'(?:href|src)="([^"]*)"', html) == ["https://example.org", "#claims", "figures/reward.svg"]
    assert set(re.findall(r"<(\w+)", html)) == {"p", "em", "a", "img"}


@pytest.mark.parametrize(
    "text",
    [
        "``` {#__config}\n{}\n```",
        "~~~\n``` {#__config}\n{}\n```\n~~~",
        "# Title {#__search .md-overlay}",
        "[a](#x){: #__config } ![b](c.svg){: #__config }",
        "|a|\n|-|\n|b {#__config}|",
        "<pre id=__config>\n{}\n</pre>",
        "- ``` {#__config}\n  {}\n  ```",
    ],
)
def test_prose_gives_no_element_an_id_or_a_class_also_where_the_site_reads_it_again(text: str) -> None:
    """The theme looks up its own configuration by id. The site's Markdown reads a page with prose once more, with more extensions."""
    html, _ = render(text)
    extensions = ["attr_list", "tables", "toc", "admonition", "pymdownx.highlight", "pymdownx.superfences"]
    again = markdown.markdown(f'<div class="oct prose">\n{html}\n</div>\n', extensions=extensions)
    assert not re.search(r'<[^>]*\b(id|class|name|style|on\w+)=(?!"oct prose")', again), again
    assert plain(again) == plain(html)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 20_000,
        "![" * 450_000,
        "[a]: " + "x" * 20_000 + "\n\n" + "[a] " * 20_000,
        "|" + "a|" * 5_000 + "\n|" + "-|" * 5_000 + "\n" + "b\n" * 10_000,
    ],
    ids=["brackets", "pictures", "references", "cells"],
)
def test_prose_is_read_in_bounded_time_and_memory_or_refused(text: str) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        html, _ = render(text)
    except StageError as error:
        assert error.code == "S302" and "specs/quickstart.md" in error.what and "thousands of brackets" in error.fix
    else:
        assert len(html) < 5_000_000
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 60


def test_the_end_of_a_text_that_is_too_long_is_not_left_out() -> None:
    with pytest.raises(StageError) as caught:
        render("x\n" + "\n" * 1_000_000 + "the end")
    assert caught.value.code == "S302"


def test_headings_are_below_those_of_the_page() -> None:
    html, _ = render("# One\n\n## Two\n\n###### Six\n")
    assert "<h3>One</h3>" in html and "<h4>Two</h4>" in html and "<h6>Six</h6>" in html


def test_the_place_is_that_of_the_reference_and_not_of_the_same_words_in_code() -> None:
    with pytest.raises(StageError) as caught:
        render("`{{ no/such/id }}`\n\n```\n{{ no/such/id }}\n```\n\nIt is {{ no/such/id }}.\n")
    assert caught.value.what.startswith("specs/quickstart.md:7:7: unknown id 'no/such/id'")


@pytest.mark.parametrize("body", ["written_for: " + "[" * 5000, "a: &a {x: 1}\n" + "b: {<<: [*a, *a]}\n" * 300, "&a " * 6000])
def test_front_matter_that_takes_hours_to_read_is_refused(body: str, tmp_path: Path) -> None:
    path = tmp_path / "words.md"
    path.write_text(f"---\n{body}\n---\nWords.\n")
    with pytest.raises(ArtifactError, match="anchors, merges or hundreds of brackets"):
        read_interpretation(path)
