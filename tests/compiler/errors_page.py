"""Writes site/docs/errors.md from compiler/errors.yaml: `python tests/compiler/errors_page.py`. A test compares."""

from __future__ import annotations

from pathlib import Path

from compiler.problems import catalogue

PAGE = Path(__file__).parents[2] / "site/docs/errors.md"
SECTIONS = {
    "E1": "YAML",
    "E2": "Shape of a spec",
    "E3": "Values that do not fit together",
    "E4": "Files on disk",
    "E5": "Machines and jobs",
    "W": "Warnings",
    "S": "Stages",
}


def generated() -> str:
    """The page: what it says above its first section, and a heading and a paragraph for each code."""
    parts = [PAGE.read_text(encoding="utf-8").partition("\n## ")[0].rstrip()]
    codes = [code for code in catalogue() if "." not in code]
    for prefix, title in SECTIONS.items():
        parts.append(f"## {title}")
        parts += [f"### {code}: {catalogue()[code]['title']}\n\n{catalogue()[code]['about']}" for code in codes if code.startswith(prefix)]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(generated(), encoding="utf-8")
