"""`python -m stages.publish.site runs`: all pages and the guide as one static site in `build/site`.

Assembles `build/docs` from `site/docs` and every `runs/*/page`, writes `build/mkdocs.yml`, and lets MkDocs build it strictly.
The old site stays until the new one is complete.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from stages.contracts.artifact import file_digest, read
from stages.contracts.diagnostic import StageError
from stages.contracts.layout import BUILD
from stages.contracts.lineage import Lineage
from stages.contracts.stage import main
from stages.publish import compare
from stages.publish.entries import Entry, entries
from stages.publish.home import home
from stages.publish.leaves import FOLDER, put_frame, write_leaves
from stages.publish.lists import listings, overview
from stages.publish.render import render
from stages.publish.search import write_search
from stages.publish.text import escape

SOURCE = Path("site")
_LOGO = re.compile(r'<a href="([^"]*)"[^>]*class="md-header__button md-logo"')
AGE = "<!-- octavo: age -->"
RULES = "conclude.card.json"
"""The card with the rules of claims, of expectations and of stops."""
COMPARED = f'<p><a href="{compare.LEAF}">Side by side with its family</a>: what differed, what was gained, what was lost.</p>'
MOST_IN_NAVIGATION = 40
"""Every page holds the whole navigation: with more experiments it names their overview only, and the site grows as their number."""
GUIDE = (
    "install.md",
    "first-experiment.md",
    "write-a-spec.md",
    "numbers.md",
    "examples.md",
    "trust-a-reward.md",
    "algorithms.md",
    "hub-and-gpu.md",
    "watching.md",
    "failures.md",
    "plan.md",
    "pull-requests.md",
    "verify.md",
    "import-runs.md",
    "differences.md",
    "lean.md",
    "add-a-gate.md",
    "add-a-detector.md",
    "troubleshooting.md",
)


def site(runs: Path) -> None:
    """Build the site of every page under `runs`. Raises StageError S303 with MkDocs' own words when it does not build."""
    pages = sorted(path for path in runs.glob("*/page") if (path / "summary.json").exists())
    found = entries(pages)
    docs = BUILD / "docs"
    ages = {page: age(page) for page in pages}
    assemble(docs, ages, found)
    (BUILD / "mkdocs.yml").write_text(json.dumps(settings(docs, found), indent=2) + "\n", encoding="utf-8")
    target, new = BUILD / "site", BUILD / "site.new"
    shutil.rmtree(new, ignore_errors=True)
    _mkdocs(BUILD / "mkdocs.yml")
    write_leaves(new, ages, generated(pages, found), AGE)
    write_search(new, found)
    write_missing(new / "404.html")
    old = BUILD / "site.old"
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        os.replace(target, old)
    os.replace(new, target)
    shutil.rmtree(old, ignore_errors=True)
    print(f"{target / 'index.html'}: {len(found)} experiment page{'' if len(found) == 1 else 's'}")


def assemble(docs: Path, pages: Mapping[Path, str], found: list[Entry]) -> None:
    """Everything MkDocs reads, in a folder of its own. `pages`: folder -> what is to be said of its age."""
    shutil.rmtree(docs, ignore_errors=True)
    shutil.copytree(SOURCE / "docs", docs)
    compared = compare.comparisons(found)
    for page, said in pages.items():
        copied = docs / "experiments" / page.parent.name
        shutil.copytree(page, copied, ignore=shutil.ignore_patterns(FOLDER))
        text = (copied / "index.md").read_text(encoding="utf-8").replace(AGE, said)
        link = COMPARED if page.parent.name in compared else ""
        (copied / "index.md").write_text(text.replace(compare.MARKER, link), encoding="utf-8")
    put_frame(docs)
    index = docs / "index.md"
    index.write_text(home(index.read_text(encoding="utf-8") if index.exists() else "# octavo\n", found), encoding="utf-8")
    (docs / "experiments").mkdir(exist_ok=True)
    (docs / "experiments" / "index.md").write_text(overview(found), encoding="utf-8")


def generated(pages: list[Path], found: list[Entry]) -> dict[str, str]:
    """Place under `experiments/` -> HTML of the leaves of no experiment: families side by side, and lists."""
    folders, summaries = {page.parent.name: page for page in pages}, {entry.summary.experiment: entry.summary for entry in found}
    compared = compare.comparisons(found)
    beside = {f"{name}/{compare.LEAF}": compare.comparison(names, folders, summaries) for name, names in compared.items()}
    return beside | listings(found)


def write_missing(path: Path) -> None:
    """The page that a host shows for an address that is none. It is shown at any depth, so it loads nothing; the theme's own would look for
    its styles at the host's root. The home page's address is the theme's, which knows `site_url`."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    link, title = _LOGO.search(text), re.search(r"<title>([^<]*)</title>", text)
    path.write_text(
        render("404.html.j2", home=Markup(link[1]) if link else "/", name=Markup(title[1]) if title else "octavo"), encoding="utf-8"
    )


def age(page: Path) -> str:
    """Banners when a JSON file that the page was written from, or a card, is another one now; files that are not here say nothing."""
    lineage = read(Lineage, page / "lineage.json")
    nodes = [node for node in lineage.nodes if node.path and node.sha256 and node.path.endswith(".json")]
    changed = [node for node in nodes if (path := Path(node.path or "")).exists() and file_digest(path) != node.sha256]
    rules = [node.path for node in changed if node.kind == "card" and node.label == RULES]
    cards = [node.path for node in changed if node.kind == "card" and node.label != RULES]
    files = [node.path for node in changed if node.kind == "file"]
    return render("age.html.j2", rules=rules, cards=cards, files=files) if changed else ""


def settings(docs: Path, found: list[Entry]) -> dict[str, Any]:
    """`site/mkdocs.yml` with folders and navigation added."""
    experiments: list[Any] = ["experiments/index.md"]
    for entry in found if len(found) <= MOST_IN_NAVIGATION else ():
        name = entry.summary.experiment
        title = f"{entry.summary.title} ({entry.summary.profile})" if entry.summary.profile else entry.summary.title
        experiments.append({str(escape(title)): f"experiments/{name}/index.md"})
    nav: list[Any] = [{"Home": "index.md"}, {"Experiments": experiments}]
    for title, folder, first in (("Guide", "guide", GUIDE), ("Reference", "reference", ()), ("Decisions", "decisions", ("index.md",))):
        names = sorted(path.name for path in (docs / folder).glob("*.md")) if (docs / folder).is_dir() else []
        names = [name for name in first if name in names] + [name for name in names if name not in first]
        paths = [f"{folder}/{name}" for name in names]
        if title == "Reference" and (docs / "errors.md").exists():
            paths.append("errors.md")
        if paths:
            nav.append({title: paths})
    places = {"docs_dir": docs.name, "site_dir": "site.new"}
    return {"INHERIT": os.path.relpath(SOURCE / "mkdocs.yml", BUILD), **places, "nav": nav, "not_in_nav": "experiments/"}


def _mkdocs(settings_file: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(settings_file)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if built.returncode:
        words = re.sub(r"\x1b\[[0-9;]*m", "", built.stderr + built.stdout).strip()
        raise StageError(
            "S303",
            f"MkDocs did not build the site:\n{words}",
            why="a page with a broken link or a warning is not published; the old site was left as it is",
            fix=f"{' '.join(command[1:3])} build --strict --config-file {settings_file}",
        )


if __name__ == "__main__":
    main(site, "python -m stages.publish.site runs")
