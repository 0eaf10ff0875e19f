"""What a reader's browser loads for each kind of page of an experiment of 12 runs: below 300 KB, without the library for figures."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from example_experiment import copy_site
from test_page_from_analysis import analysed_in

from stages.contracts.artifact import read, write
from stages.contracts.page_card import PageCard
from stages.publish.page import page
from stages.publish.site import site

MOST = 300_000
KINDS = {
    "home": "index.html",
    "list": "experiments/index.html",
    "experiment": "experiments/*/index.html",
    "numbers": "experiments/*/numbers.html",
    "run": "experiments/*/run-*.html",
    "guide": "guide/*.html",
    "reference": "reference/*.html",
    "decision": "decisions/*.html",
    "errors": "errors.html",
    "not found": "404.html",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("weight")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        copy_site(root)
        folder = analysed_in(root)
        write(folder.page_card, read(PageCard, folder.page_card).model_copy(update={"run_pages": True}))
        page(folder.root)
        site(Path("runs"))
    yield root / "build/site"


def loaded(html: Path, site: Path) -> list[Path]:
    """The page with the styles, scripts and pictures that it names, and the fonts that its styles name."""
    text = html.read_text(encoding="utf-8")
    named = re.findall(r'<(?:script|img)\b[^>]*?\bsrc="?([^"\s>]+)', text) + re.findall(r'<link\b[^>]*?rel="?stylesheet"?[^>]*', text)
    places = [re.sub(r'.*href="?([^"\s>]+).*', r"\1", tag, flags=re.DOTALL) for tag in named]
    files = [site / place.lstrip("/") if place.startswith("/") else html.parent / unquote(place) for place in places]
    fonts = [css.parent / font for css in files if css.suffix == ".css" for font in re.findall(r'url\("?(fonts/[^")]+)', css.read_text())]
    return [html, *dict.fromkeys(path.resolve() for path in [*files, *fonts])]


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_of_twelve_runs_weighs_less_than_300_kb(place: Path, kind: str) -> None:
    pages = sorted(place.glob(KINDS[kind]))
    assert pages
    for html in pages:
        files = loaded(html, place)
        names = {path.name for path in files}
        assert {"octavo.css", "octavo.js", "shim.js", "inter.woff2"} <= names or kind == "not found"
        assert not any("uplot" in name.lower() for name in names)
        sent = sum(path.stat().st_size if path.suffix == ".woff2" else len(gzip.compress(path.read_bytes(), 6)) for path in files)
        most = 400_000 if kind == "reference" else MOST  # tables of all keys and files, of which a server sends a tenth
        assert html.stat().st_size < most and sent < MOST, (html, html.stat().st_size, sent)
