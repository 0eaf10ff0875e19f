from pathlib import Path

import pytest

from stages.contracts.diagnostic import StageError
from stages.contracts.finding import Finding
from stages.publish.facts import Facts
from stages.publish.prose import render_prose

PATH = Path("specs/quickstart.md")


def finding(id_: str, value: float | None = 0.8812, **more: object) -> Finding:
    subject, metric, statistic = id_.split("/")
    return Finding(id=id_, says="", subject=subject, metric=metric, statistic=statistic, unit="share", value=value, **more)  # type: ignore[arg-type]


def render(text: str) -> tuple[str, Facts]:
    findings = [finding("shaped/reward/final", low=0.84, high=0.92), finding("zero/reward/final", None, reason="no run counts")]
    facts = Facts({f.id: f for f in findings})
    return render_prose(text, PATH, facts), facts


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


def test_references_inside_code_stay_as_they_are() -> None:
    html, facts = render("`{{ x }}`\n\n```\n{{ y }}\n```\n")
    assert "{{ x }}" in html and "{{ y }}" in html and not facts.used


def test_raw_html_is_text_and_links_lead_nowhere_dangerous() -> None:
    html, _ = render(
        "<script>alert(1)</script>\n\n<img src=x onerror=alert(1)> *a*{: onclick=alert(1)}\n\n"
        "[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](data:text/html,x) ![d](javascript:1) <javascript:alert(1)> "
        "[e](https://example.org) [f](#claims)"
    )
    assert "<script" not in html and "<img src=x" not in html and "&lt;script&gt;" in html
    assert "onclick=alert(1)}" in html and "<em onclick" not in html
    assert 'href="java' not in html.lower() and 'src="java' not in html.lower() and 'href="data' not in html
    assert 'href="https://example.org"' in html and 'href="#claims"' in html


def test_a_stashed_entity_cannot_smuggle_a_link() -> None:
    html, _ = render("[a](java&#115;cript:alert(1)) [b](&#106;avascript:alert(1)) [c](\x01javascript:alert(1)) [d](//evil.example/x)")
    assert "script:alert" not in html.replace("[", "") or "href" not in html


def test_headings_are_below_those_of_the_page() -> None:
    html, _ = render("# One\n\n## Two\n\n###### Six\n")
    assert "<h3>One</h3>" in html and "<h4>Two</h4>" in html and "<h6>Six</h6>" in html


def test_the_place_is_that_of_the_reference_and_not_of_the_same_words_in_code() -> None:
    with pytest.raises(StageError) as caught:
        render("`{{ no/such/id }}`\n\n```\n{{ no/such/id }}\n```\n\nIt is {{ no/such/id }}.\n")
    assert caught.value.what.startswith("specs/quickstart.md:7:7: unknown id 'no/such/id'")
