"""The catalogue of messages: every code of the code is in it and has a case, every text has its facts, and the page is made from it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Template

import errors_page
from error_cases import all_cases

from compiler.problems import catalogue, problem
from compiler.render import LIMIT, render
from stages.contracts.diagnostic import Place

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"[EWS]\d{3}(\.[a-z_]+)?")
TEXTS = ("what", "why", "fix", "meant", "note")
OF_UNKNOWN = {"word", "known", "first", "meant"}


def trees() -> Iterator[ast.Module]:
    for package in ("compiler", "stages"):
        for path in (ROOT / package).rglob("*.py"):
            yield ast.parse(path.read_text(encoding="utf-8"))


def codes() -> set[str]:
    """Codes and forms that the code names, in texts such as `error S210: ...` too."""
    texts = [node.value for tree in trees() for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return {text for text in texts if CODE.fullmatch(text)} | {
        code for text in texts for code in re.findall(r"\berror ([EWS]\d{3}):", text)
    }


def calls() -> Iterator[tuple[str, set[str] | None]]:
    """(code, names of its facts) of each call that makes a message; None for facts that a call hands on."""
    for tree in trees():
        for call in ast.walk(tree):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ("problem", "unknown", "refused")):
                continue
            names = {keyword.arg for keyword in call.keywords}
            facts = None if None in names else {str(name) for name in names} | (OF_UNKNOWN if call.func.id == "unknown" else set())
            for node in ast.walk(call.args[0]) if call.args else ():
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
                    yield node.value, facts


def test_the_catalogue_holds_what_the_code_names():
    named = codes()
    assert {code[:4] for code in named} == {code for code in catalogue() if "." not in code}
    forms = {code for code in named if "." in code and code[0] != "S"}  # forms of refusals of stages stand in stages/train
    assert {code for code in catalogue() if "." in code} == forms


def test_every_code_of_the_compiler_has_a_case():
    assert {code[:4] for code in codes() if code[0] in "EW"} - {name[:4] for name in all_cases()} == set()


def test_each_call_names_the_facts_of_its_texts():
    missing = {}
    for code, facts in calls():
        entry = catalogue()[code]
        assert {"what", "why", "fix"} <= set(entry), code
        wanted = {name for part in TEXTS if part in entry for name in Template(entry[part]).get_identifiers()} - OF_UNKNOWN
        if facts is not None and not wanted <= facts:
            missing[code] = wanted - facts
    assert missing == {}


def test_the_page_is_made_from_the_catalogue():
    assert errors_page.PAGE.read_text(encoding="utf-8") == errors_page.generated(), "run make fix"


def test_twenty_problems_are_shown_and_the_others_are_counted():
    text = render([problem("E102", Place("spec.yaml", line, 1), key="seeds") for line in range(LIMIT + 5)], {})
    assert text.count("E102") == LIMIT and text.endswith("\n\nand 5 more, not shown: repair these first\n")
