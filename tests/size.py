"""Lines and words of the repository against the budgets of the rebuild: `make size`. Exit 1 where one is over its budget."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUDGETS = {
    "compiler + contracts": (("compiler/", "stages/contracts/"), ".py", 9_800),
    "stages/train": (("stages/train/",), ".py", 8_000),
    "stages/analyse + rules": (("stages/analyse/", "stages/rules.py"), ".py", 2_800),
    "stages/publish": (("stages/publish/",), ".py", 4_000),
    "tests": (("tests/",), ".py", 16_000),
}
"""Part -> beginnings of paths, their ending, and the most lines."""
GOLDENS = (("tests/golden/", "tests/errors/"), 9_500, 60)
WORDS = {"site/docs/guide/": 16_555, "site/docs/decisions/": 6_420, "CHANGELOG.md": 1_565}


def tracked_files() -> list[str]:
    """Paths that git knows and that are on disk."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in names.split("\0") if name and (ROOT / name).is_file()]


def texts(files: Iterable[str], beginnings: tuple[str, ...], ending: str = "") -> list[str]:
    """Texts of the files below some folders."""
    return [(ROOT / name).read_text(errors="replace") for name in files if name.startswith(beginnings) and name.endswith(ending)]


def main() -> int:
    """Print a line a part."""
    files = tracked_files()
    rows = []
    for part, (beginnings, ending, most) in BUDGETS.items():
        contents = texts(files, beginnings, ending)
        lines = sum(text.count("\n") for text in contents)
        rows.append((part, f"{lines:,} lines in {len(contents)} files", most, lines))
    goldens = texts(files, GOLDENS[0])
    lines = sum(text.count("\n") for text in goldens)
    rows.append(("golden files", f"{lines:,} lines in {len(goldens)} files", GOLDENS[1], lines))
    for path, most in WORDS.items():
        words = sum(len(text.split()) for text in texts(files, (path,), ".md"))
        rows.append((path, f"{words:,} words", most, words))
    for part, text, most, count in rows:
        print(f"{part:24}{text:30}of {most:>7,}  {'over' if count > most else 'ok'}")
    return int(any(count > most for _, _, most, count in rows))


if __name__ == "__main__":
    sys.exit(main())
