"""Every code has a heading in site/docs/errors.md, every heading a code, and every code of the compiler a golden text."""

import re
from pathlib import Path

from error_cases import all_cases

ROOT = Path(__file__).parents[2]


def codes_in_code() -> set[str]:
    files = [path for package in ("compiler", "stages") for path in (ROOT / package).rglob("*.py")]
    return {code for path in files for code in re.findall(r'(?:"|\berror )([EWS]\d{3})(?:"|:)', path.read_text(encoding="utf-8"))}


def headings() -> list[str]:
    return re.findall(r"^### ([EWS]\d{3}): \S", (ROOT / "site/docs/errors.md").read_text(encoding="utf-8"), re.M)


def test_headings_are_the_codes():
    assert len(headings()) == len(set(headings()))
    assert set(headings()) == codes_in_code()


def test_every_code_of_the_compiler_has_a_golden_text():
    golden = {name[:4] for name in all_cases()}
    assert {code for code in codes_in_code() if code[0] in "EW"} - golden == set()
