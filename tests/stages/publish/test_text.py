import html
import unicodedata

import markdown
from hypothesis import given
from hypothesis import strategies as st

from stages.publish.text import escape, escape_with_code, reveal_hidden, script_literal, slug

ANY = st.text(st.characters(), max_size=60)


def test_text_that_markdown_html_or_a_template_would_read_becomes_references() -> None:
    assert escape("<b>") == "&#60;b&#62;"
    assert escape("{{ 7*7 }}") == "&#123;&#123; 7&#42;7 &#125;&#125;"
    assert escape("a|b\n") == "a&#124;b&#10;"


def test_a_dash_or_an_underscore_inside_a_word_stays_and_nowhere_else() -> None:
    assert escape("shaped-s1 pass_share runs/a-b") == "shaped-s1 pass_share runs/a-b"
    assert escape("- x --> __init__ a--b") == "&#45; x &#45;&#45;&#62; &#95;&#95;init&#95;&#95; a&#45;&#45;b"


def test_marks_that_cannot_be_seen_are_named() -> None:
    assert reveal_hidden("a\u202eb\x00c\u200d\u2066\ud800") == "a⟨U+202E⟩b⟨U+0000⟩c⟨U+200D⟩⟨U+2066⟩⟨U+D800⟩"
    assert reveal_hidden("tab\tand\nline") == "tab\tand\nline"
    blanks = "\u034f\u115f\u1160\u17b4\u180b\u2028\u2800\u3164\ufe00\ufe0f\uffa0\U000e0101\U000e01ef"
    assert reveal_hidden(blanks) == "".join(f"⟨U+{ord(letter):04X}⟩" for letter in blanks), "a font draws nothing for these letters"
    assert script_literal({"a": ["\u202e", ("\u3164<",)]}) == r'{"a":["\u27e8U+202E\u27e9",["\u27e8U+3164\u27e9\u003c"]]}'


@given(ANY)
def test_a_browser_shows_exactly_the_visible_text_and_markdown_reads_nothing_in_it(text: str) -> None:
    markup = markdown.markdown(f"<div>{escape(text)}</div>", extensions=["tables", "attr_list", "md_in_html", "fenced_code", "toc"])
    assert markup.startswith("<div>") and markup.endswith("</div>")
    inside = markup.removeprefix("<div>").removesuffix("</div>")
    assert "<" not in inside and ">" not in inside
    assert _characters(inside) == reveal_hidden(text)


@given(ANY)
def test_in_a_heading_it_is_still_the_same_text(text: str) -> None:
    markup = markdown.markdown(f"# x{escape(text)}x", extensions=["attr_list", "toc"])
    assert markup.count("<") == 2, markup


def test_different_ids_have_different_anchors() -> None:
    assert slug("shaped/evaluation.tests.pass_share/final") == "passport-shaped/evaluation.tests.pass_share/final"
    assert slug("a/b") != slug("a.b")


def _characters(text: str) -> str:
    """What a browser makes of references; html.unescape drops some control characters that `visible` has named already."""
    assert all(unicodedata.category(letter) != "Cc" or letter == "\n" for letter in text)
    return html.unescape(text)


def test_backticks_in_a_sentence_mark_code_and_nothing_else() -> None:
    assert escape_with_code("such as `a<b` here") == "such as <code>a&#60;b</code> here"
    assert escape_with_code("one ` alone") == "one &#96; alone"
