"""`python -m stages.publish.site runs`: all pages and the guide as one static site in `build/site`.

Assembles `build/docs` from `site/docs` and every `runs/*/page`, writes `build/mkdocs.yml`, and lets MkDocs build it strictly.
The old site stays until the new one is complete.

Passports, pages of runs and comparisons are pages that MkDocs does not read: a thousand of them cost seconds, not a minute. A page's
folder holds them in `static/<name>.html`, as the HTML between a site's header and its footer with one `<h1>`. MkDocs builds one empty page
at their depth, the frame; each static page is set into a copy of it. They are out of navigation and search.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup
from ruamel.yaml import YAML

from stages.contracts.artifact import read
from stages.contracts.diagnostic import StageError
from stages.contracts.files import check_folder, file_digest
from stages.contracts.layout import BUILD, COMPARISONS
from stages.contracts.lineage import COMPILED, Lineage
from stages.contracts.stage import main
from stages.publish import compare, family
from stages.publish.header import FOLDER, PageSummary
from stages.publish.home import examples, families, home, overview, summaries
from stages.publish.policy import SCOPE, put_policies, with_policy
from stages.publish.text import escape, render

SOURCE = Path("site")
AGE = "<!-- octavo: age -->"
RULES = "conclude.card.json"
"""The card with the rules of claims, of expectations and of stops."""
MOST_IN_NAVIGATION = 40
"""Every page holds the whole navigation: with more experiments it names their overview only, and the site grows as their number."""
_LOGO = re.compile(r'<a href="([^"]*)"[^>]*class="md-header__button md-logo"')
EXAMPLES = "examples/index.md"
"""About the specs of hand-written analyses; an index, for the theme makes the first index of a part of the navigation its page."""
_AROUND = ("guide", "reference", "decisions", "errors.md", "index.md")
FRAME = "experiments/octavo_frame/frame"
_TITLE, _BODY = "octavo--frame--title", "octavo--frame--body"
"""Escaped text and names hold no `--`: no title in the navigation is one of these."""
_SOURCE = f'---\ntitle: {_TITLE}\nhide:\n  - navigation\n  - toc\nsearch:\n  exclude: true\n---\n<h1 id="{_BODY}"></h1>\n'
_TAB = re.compile(r'<li class="md-tabs__item">(\s*<a href="\.\./index\.html")')
"""The tab of the experiments, which the theme does not mark: static pages are in no navigation."""
_HEADING = re.compile(r"<h1\b[^>]*>(.*?)</h1>", re.DOTALL)


def site(runs: Path) -> None:
    """Build the site of every page under `runs`. Raises StageError S303 with MkDocs' own words when it does not build."""
    for place in (SOURCE, BUILD):
        check_folder(place)
    pages = page_folders(runs)
    build(pages, BUILD)
    print(f"{BUILD / 'site' / 'index.html'}: {len(pages)} experiment page{'' if len(pages) == 1 else 's'}")


def page_folders(runs: Path) -> dict[str, Path]:
    """Experiment -> folder of its page, of every experiment that has one."""
    return {path.parent.name: path for path in sorted(runs.glob("*/page")) if (path / "summary.json").exists()}


def build(pages: Mapping[str, Path], folder: Path, comparisons: Path = COMPARISONS, *, alone: bool = False) -> None:
    """Build `<folder>/site` of these pages, with MkDocs' sources and settings beside it. `alone`: without guide and reference."""
    experiments = summaries(pages.values())
    static: dict[str, str] = {}
    docs, target, new, old = (folder / name for name in ("docs", "site", "site.new", "site.old"))
    shutil.rmtree(docs, ignore_errors=True)
    shutil.copytree(SOURCE / "docs", docs, ignore=shutil.ignore_patterns(*_AROUND) if alone else None)
    by_name = {summary.experiment: summary for summary in experiments}
    compared = [each for each in compare.read_comparisons(comparisons) if {each.experiment, each.other} <= by_name.keys()]
    links = compare.partners(compared)
    trees = families(experiments)
    family_of = family.addresses(trees)
    static |= {f"{tree[0][0].experiment}/{family.PAGE}": family.family_page(tree, compared) for tree in trees if len(tree) > 1}
    for name, page in pages.items():
        age_banner = age(page)
        copied = docs / "experiments" / name
        shutil.copytree(page, copied, ignore=shutil.ignore_patterns(FOLDER))
        text = (copied / "index.md").read_text(encoding="utf-8").replace(AGE, age_banner)
        beside = render("beside.html.j2", links=links.get(name, ()), family=family_of.get(name)).strip()
        (copied / "index.md").write_text(text.replace(compare.MARKER, beside), encoding="utf-8")
        for path in (page / FOLDER).glob("*.html"):
            static[f"{name}/{path.name}"] = path.read_text(encoding="utf-8").replace(AGE, age_banner)
    for each in compared:
        static[f"{each.experiment}/{compare.page_name(each.other)}"] = compare.comparison_page(each, by_name, comparisons)
        tables = docs / "experiments" / each.experiment / "comparisons" / each.other
        tables.mkdir(parents=True)
        for file, text in compare.curve_files(each, comparisons):
            (tables / file).write_text(text, encoding="utf-8")
    put_frame(docs)
    index = docs / "index.md"
    index.write_text(home(index.read_text(encoding="utf-8") if index.exists() else "# octavo\n", experiments, links), encoding="utf-8")
    guide = docs / EXAMPLES
    if guide.exists():
        guide.write_text(examples(guide.read_text(encoding="utf-8"), experiments), encoding="utf-8")
    (docs / "experiments" / "index.md").write_text(overview(experiments, links), encoding="utf-8")
    YAML(typ="safe").dump(settings(docs, experiments), folder / "mkdocs.yml")  # not as JSON: a title may be longer than a plain key
    shutil.rmtree(new, ignore_errors=True)
    _mkdocs(folder / "mkdocs.yml", max((summary.data_until or "" for summary in experiments), default=""))
    put_policies(new, (new / FRAME).with_suffix(".html"))
    write_static_pages(new, static)
    _write_missing(new / "404.html")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        os.replace(target, old)
    os.replace(new, target)
    shutil.rmtree(old, ignore_errors=True)


def age(page: Path) -> str:
    """Banners when a JSON file that the page was written from, or a card, is another one now; files that are not here say nothing."""
    files = [file for file in read(Lineage, page / "lineage.json").files if file.path.endswith(".json") and Path(file.path).exists()]
    changed = [file for file in files if file_digest(Path(file.path)) != file.sha256]
    rules = [file.path for file in changed if file.path.endswith(f"/{RULES}")]
    cards = [file.path for file in changed if file.path.endswith(".card.json") and file.path not in rules]
    data = [file.path for file in changed if file.made_by != COMPILED]
    return render("age.html.j2", rules=rules, cards=cards, files=data) if rules or cards or data else ""


def settings(docs: Path, experiments: Sequence[PageSummary]) -> dict[str, Any]:
    """`site/mkdocs.yml` with folders and navigation added."""
    listed: list[Any] = ["experiments/index.md"]
    small: list[Any] = [EXAMPLES] if (docs / EXAMPLES).exists() else []
    for summary in experiments if len(experiments) <= MOST_IN_NAVIGATION else ():
        title = f"{summary.title} (small: {summary.profile})" if summary.profile else summary.title
        (small if summary.profile else listed).append({str(escape(title)): f"experiments/{summary.experiment}/index.md"})
    order = (SOURCE / "guide.txt").read_text(encoding="utf-8").split()
    nav: list[Any] = [{"Home": "index.md"}, {"Experiments": listed}, *([{"Examples": small}] if small else [])]
    for title, folder, first in (("Guide", "guide", order), ("Reference", "reference", ()), ("Decisions", "decisions", ("index.md",))):
        names = sorted(path.name for path in (docs / folder).glob("*.md"))
        names = [name for name in first if name in names] + [name for name in names if name not in first]
        paths = [f"{folder}/{name}" for name in names]
        if title == "Reference" and (docs / "errors.md").exists():
            paths.append("errors.md")
        if paths:
            nav.append({title: paths})
    places = {"docs_dir": docs.name, "site_dir": "site.new"}
    inherited = os.path.relpath(SOURCE / "mkdocs.yml", docs.parent)
    return {"INHERIT": inherited, **places, "nav": nav, "not_in_nav": "experiments/", "extra": {"scope": SCOPE}}


def _mkdocs(settings_file: Path, newest: str) -> None:
    """`newest`: when the newest data were made; the site's files hold no later date, so that the same pages give the same bytes."""
    date = int(datetime.fromisoformat(newest).timestamp()) if newest else 0
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(settings_file)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "SOURCE_DATE_EPOCH": str(date)}
    built = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if built.returncode:
        words = re.sub(r"\x1b\[[0-9;]*m", "", built.stderr + built.stdout).strip()
        raise StageError(
            "S303",
            f"MkDocs did not build the site:\n{words}",
            why="a page with a broken link or a warning is not published; the old site was left as it is",
            fix=f"{' '.join(command[1:3])} build --strict --config-file {settings_file}",
        )


def put_frame(docs: Path) -> None:
    """The page that MkDocs shall build for the static pages."""
    path = (docs / FRAME).with_suffix(".md")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_SOURCE, encoding="utf-8")


def write_static_pages(site: Path, bodies: Mapping[str, str]) -> None:
    """Set each body (place under `experiments/` -> HTML) into the frame that MkDocs built in `site`, and remove the frame.

    Raises StageError S383 when the theme lost the frame's places.
    """
    path = (site / FRAME).with_suffix(".html")
    parts = re.split(
        f'({_TITLE}|<h1 id="{_BODY}"></h1>)',
        _TAB.sub(r'<li class="md-tabs__item md-tabs__item--active">\1', path.read_text(encoding="utf-8"), count=1),
    )
    if len([part for part in parts if _BODY in part]) != 1 or _TITLE not in parts:
        raise StageError(
            "S383",
            f"{path}: the theme shows the frame of static pages without its title or its body",
            why="passports and run pages are set into a page that MkDocs built; without its places they cannot be",
            fix="use the theme of site/mkdocs.yml as it was, or report the version of mkdocs-material",
        )
    for place, body in bodies.items():
        (site / "experiments" / place).write_text(_framed(parts, body), encoding="utf-8")
    path.unlink()
    path.parent.rmdir()


def _framed(parts: list[str], body: str) -> str:
    """The title is the text of the heading, whose letters are character references already."""
    heading = _HEADING.search(body)
    title = re.sub(r"<[^>]*>", "", heading[1]).strip() if heading else ""
    return "".join(title if part == _TITLE else body if _BODY in part else part for part in parts)


def _write_missing(path: Path) -> None:
    """The page that a host shows for an address that is none. It is shown at any depth, so it loads nothing; the theme's own would look for
    its styles at the host's root. The home page's address is the theme's, which knows `site_url`."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    link, title = _LOGO.search(text), re.search(r"<title>([^<]*)</title>", text)
    values = {"home": Markup(link[1]) if link else "/", "name": Markup(title[1]) if title else "octavo"}
    text = render("404.html.j2", **values)
    path.write_text(with_policy(text, styles=[text.partition("<style>")[2].partition("</style>")[0]]), encoding="utf-8")


if __name__ == "__main__":
    main(site, "python -m stages.publish.site runs")
