"""Building the site of 10, 100 and 1,000 experiment pages against plain Material for MkDocs on the same Markdown.

`--runs` gives every experiment N run pages: 100 experiments with 10 each are the target's 1,000 (30 s, an index below 2 MB). Plain
Material gets the same run pages as Markdown files with the same HTML. With a Chromium on the machine the first search is timed, from the
input to the first result, with the index not yet loaded.

Wall and CPU seconds of whole processes, once each, with the peak memory and the size of what was built. The pages are copies of one
page with claims, figures, rewards and passports, under other names; `search MB` is what is loaded for a first search. Plain Material is
the theme with its defaults and search, no navigation of ours, on the folder that octavo assembled. A build that needs longer than the
limit is shown as such, not extrapolated.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/stages/publish")]

from chromium import CHROMIUM, browser  # noqa: E402
from example_experiment import build, copy_site  # noqa: E402

from stages.contracts.artifact import canonical_json, read, write  # noqa: E402
from stages.contracts.layout import ExperimentFolder  # noqa: E402
from stages.contracts.page_card import PageCard  # noqa: E402
from stages.publish.page import page  # noqa: E402

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}


def main() -> int:
    arguments = argparse.ArgumentParser(description="octavo's site against plain Material")
    arguments.add_argument("--sizes", type=int, nargs="+", default=[10, 100, 1000])
    arguments.add_argument("--limit", type=int, default=600, help="wall seconds that a build may take")
    arguments.add_argument("--runs", type=int, default=0, help="run pages of each experiment")
    arguments.add_argument("--ours-only", action="store_true", help="leave plain Material out")
    options = arguments.parse_args()
    print(f"{options.runs} run pages each")
    print(f"{'pages':>6}  {'built by':<16} {'wall s':>8} {'CPU s':>8} {'MB':>6} {'site MB':>8} {'search MB':>9} {'to Material':>11}")
    with tempfile.TemporaryDirectory() as folder:
        for pages in options.sizes:
            project = experiments(Path(folder) / str(pages), pages, options.runs)
            ours = measured([sys.executable, "-m", "stages.publish.site", "runs"], project, options.limit)
            built = project / "build"
            plain = {"site_name": "plain", "docs_dir": "docs", "site_dir": "plain", "theme": {"name": "material"}, "plugins": ["search"]}
            (built / "plain.yml").write_text(json.dumps(plain))
            plainly(built)
            theirs = (
                None
                if options.ours_only
                else measured(
                    [sys.executable, "-m", "mkdocs", "build", "--quiet", "--config-file", "build/plain.yml"], project, options.limit
                )
            )
            for name, cost, site in (("octavo", ours, built / "site"), ("plain Material", theirs, built / "plain")):
                if cost is None:
                    print(f"{pages:>6}  {name:<16} {'>' + str(options.limit):>8}", flush=True)
                    continue
                wall, cpu, peak = cost
                size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) / 1e6
                first = site / "search/octavo-0.js"
                search = (first if first.exists() else site / "search/search_index.json").stat().st_size / 1e6
                ratio = f"{cpu / theirs[1]:10.2f}x" if theirs else ""
                print(f"{pages:>6}  {name:<16} {wall:8.1f} {cpu:8.1f} {peak:6.0f} {size:8.1f} {search:9.2f} {ratio}", flush=True)
            largest = max((path.stat().st_size, path.name) for path in (built / "site/experiments").rglob("*.html"))
            lists = [built / "site/index.html", built / "site/experiments/index.html", *(built / "site/experiments/octavo_list").glob("*")]
            rest = [path.stat().st_size / 1e6 for path in (built / "site/search").glob("octavo-[1-9]*.js")]
            print(f"        largest page {largest[0] / 1e3:.0f} KB ({largest[1]}), list {max(map(bytes_of, lists)) / 1e3:.0f} KB; ", end="")
            print(f"{len(rest)} further parts of the search, {sum(rest):.1f} MB; first search {first_search(built / 'site')}", flush=True)
            shutil.rmtree(project)
    return 0


def bytes_of(path: Path) -> int:
    return path.stat().st_size


def plainly(built: Path) -> None:
    """Leaves as Markdown files, for plain Material."""
    for leaf in sorted(Path(built.parent / "runs").glob("*/page/leaves/*.html")):
        target = built / "docs/experiments" / leaf.parents[2].name / f"{leaf.stem}.md"
        target.write_text("\n".join(line for line in leaf.read_text().splitlines() if line.strip()))


def first_search(site: Path) -> str:
    """Milliseconds from typing a word to its first result, on a page that has just been loaded."""
    if CHROMIUM is None:
        return "not timed: no chromium"
    with browser() as tab:
        tab.open(site / "index.html")
        took = tab.run(
            """(async () => {
              const input = document.querySelector(".md-search__input"), began = performance.now();
              input.focus(); input.value = "verifiable"; input.dispatchEvent(new Event("input", {bubbles: true}));
              input.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true, key: "e"}));
              const found = () => document.querySelector(".md-search-result__link");
              while (!found() && performance.now() - began < 60000) await new Promise((done) => setTimeout(done, 5));
              return found() ? performance.now() - began : -1;
            })()"""
        )
    return f"{took:.0f} ms after typing" if took >= 0 else "found nothing"


def experiments(project: Path, count: int, runs: int) -> Path:
    """A project with a given number of experiments that have run and been written up."""
    project.mkdir()
    with contextlib.chdir(project):
        copy_site(project)
        first = build(project, hostile="x")
        card = ExperimentFolder(first).page_card
        write(card, read(PageCard, card).model_copy(update={"run_pages": runs > 0}))
        page(first)
        for leaf in sorted((first / "page/leaves").glob("run-*.html"))[runs:]:
            leaf.unlink()
        for number in range(1, count):
            copied = project / "runs" / f"{first.name}-{number}" / "page"
            shutil.copytree(first / "page", copied)
            summary = json.loads((copied / "summary.json").read_text())
            changed = {
                "experiment": f"{first.name}-{number}",
                "title": f"{summary['title']} {number}",
                "tags": [f"tag-{number % 30}", "grpo"],
            }
            (copied / "summary.json").write_text(canonical_json({**summary, **changed}))
    return project


def measured(command: list[str], folder: Path, limit: int) -> tuple[float, float, float] | None:
    """(wall seconds, CPU seconds, peak MB); None when it takes longer than the limit."""
    began = time.perf_counter()
    with subprocess.Popen(["timeout", str(limit), *command], cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode == 124:
        return None
    assert process.returncode == 0, command
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


if __name__ == "__main__":
    raise SystemExit(main())
