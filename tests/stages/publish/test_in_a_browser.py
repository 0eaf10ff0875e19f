"""Pages in a real browser, from the file system: hostile text runs nothing and asks for nothing, and axe finds no serious violation.

Skipped where there is no Chromium; axe also where it is not installed (`make axe`).
"""

import functools
import json
import re
import shutil
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from chromium import CHROMIUM, Browser, browser
from example_experiment import build, copy_site
from poison import poison

from stages.analyse.compare import compare
from stages.contracts.artifact import read, write
from stages.contracts.code import Judgement
from stages.contracts.figure import Figure, Limit, Mark
from stages.contracts.files import write_text
from stages.contracts.import_card import ColumnCard, ImportCard, Imported, ReadCard, SourceCard
from stages.contracts.layout import ExperimentFolder
from stages.contracts.page_card import ChangeWords, ClaimText, PageCard
from stages.contracts.stage import ROOT, card_id
from stages.publish.page import page
from stages.publish.site import site

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")

AXE = ROOT / "tests/axe/node_modules/axe-core/axe.min.js"
EVIL = (
    "</script><script>window.hacked=1</script><img src=http://evil.invalid/a onerror=window.hacked=2><svg onload=window.hacked=3>"
    "\"'><a href=javascript:window.hacked=4>x</a> ![i](http://evil.invalid/b) [x](javascript:window.hacked=5) {{ 7*7 }} {% raw %}"
    "<style>@import 'http://evil.invalid/c';*{position:fixed;width:9999px}</style><link rel=stylesheet href=//evil.invalid/d>|a|"
    "|b|\n---\n# h\u202egnp\u2028&lt;b&gt; -->]]><iframe src=http://evil.invalid/e></iframe> " + "w" * 300
)
KINDS = (
    "index.html",
    "experiments/index.html",
    "experiments/hostile/index.html",
    "experiments/hostile/numbers.html",
    "experiments/hostile/completions.html",
    "experiments/hostile/run-shaped-s1.html",
    "experiments/hostile/run-random-s2.html",
    "experiments/imported/index.html",
    "experiments/imported/compare-hostile.html",
    "experiments/hostile/family.html",
    "404.html",
    "guide/write-a-spec.html",
)
OPEN = """(async () => {
  const moment = () => new Promise((done) => setTimeout(done, 200));
  document.querySelectorAll("details").forEach((part) => { if (!part.closest(".list")) part.open = true; });
  const until = async (find) => { for (let n = 0; n < 300 && !find(); n++) await moment(); return find(); };
  const explore = document.querySelector(".explore");
  if (explore) { explore.click(); await until(() => document.querySelector(".plot canvas")); }
  const fact = document.querySelector(".claim a.fact, table a.fact");
  if (fact) { fact.click(); await until(() => document.querySelector(".popover")); }
  return {
    plot: !!explore && !!document.querySelector(".plot canvas"), popover: !!fact && !!document.querySelector(".popover"),
    hacked: window.hacked === undefined ? null : window.hacked,
    wide: document.documentElement.scrollWidth > innerWidth,
    made: document.querySelectorAll("iframe[src], object, embed, [onload], [onerror], a[href^=javascript]").length,
    turned: /[\\u202a-\\u202e\\u2066-\\u2069]/.test(document.documentElement.outerHTML),
  };
})()"""
SVG = """<svg xmlns="http://www.w3.org/2000/svg" class="octavo-figure" viewBox="0 0 440 180" role="img" aria-label="Reward over steps">
<desc><p><![CDATA[x><img src=http://evil.invalid/f onerror="window.hacked=6">]]></p></desc><script>window.hacked=7</script>
<text id="__config">x
``` {#__config}
{"base": ".", "features": [], "search": "data:text/javascript,window.hacked=8", "translations": {}}
```
</text><style>* {position: fixed}</style><path d="M0 90l400 -60" style="fill: none; stroke: red" onclick="window.hacked=9"/>
</svg>
"""
CONFIG = {
    "base": "../..",
    "features": [],
    "search": "data:text/javascript,postMessage({type: 1})",
    "translations": {
        "clipboard.copy": "<img src=x onerror=window.hacked=10>",
        "search.result.placeholder": "<img src=x onerror=window.hacked=11>",
    },
}
PROSE = f"""Honest words, {{{{ shaped/evaluation.tests.pass_share/final }}}}.

``` {{#__config}}
{json.dumps(CONFIG)}
```

# A heading {{#__search onclick=window.hacked=12}}

~~~
``` {{#__config}}
x
```
~~~

![x](http://evil.invalid/pixel.png) ![y](figures/reward.svg) *a*{{: onclick=window.hacked=13}} <b onclick=window.hacked=14>raw</b>

{EVIL.replace("{{ 7*7 }}", "")}
"""
FILE = 'curves-"><img src=x onerror=window.hacked=15>&lt;'
"""A file name, which holds no slash."""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A site whose experiments hold hostile text wherever text comes from outside."""
    root = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        copy_site(root)
        _trained(ExperimentFolder(build(root, name="hostile", hostile=EVIL, prose=PROSE)))
        _imported(ExperimentFolder(build(root, name="imported", hostile=EVIL)))
        compare(Path("runs"))
        site(Path("runs"))
    yield root / "build/site"


def _words(folder: ExperimentFolder, **more: Any) -> None:
    card = read(PageCard, folder.page_card)
    claims = tuple(ClaimText(id=claim.id, says=EVIL) for claim in card.claims)
    texts = {"title": EVIL[:299].replace("\n", " "), "question": EVIL, "owner": EVIL[:99], "tags": (EVIL[:50],), "claims": claims}
    judged = (Judgement(results="same", why=EVIL, who=EVIL, at="2027-01-01T00:00:00Z", digests={"some.stage": "0" * 12}),)
    write(folder.page_card, card.model_copy(update={**texts, "judged": judged, **more}))


def _trained(folder: ExperimentFolder) -> None:
    _words(folder, run_pages=True, curves=("reward",))
    mark = Mark(run="shaped-s1", kind="not_finite", first=2, last=2, says=EVIL)
    marks = (mark, *(mark.model_copy(update={"kind": kind}) for kind in ("attempt", "collapse", "stopped")))
    figure = read(Figure, folder.figures / "reward.json")
    limit = Limit(condition="shaped", kind="expected", first=3, last=4, above=0.3, says=f"shaped: expected above 0.3 {EVIL}")
    more = {"name": "curves-reward", "marks": marks, "title": EVIL, "limits": (limit,), "panels": (("shaped",), ("inverted", "zero"))}
    write(folder.figures / "curves-reward.json", figure.model_copy(update=more))
    write_text(folder.figures / "curves-reward.svg", SVG)
    rows = "".join(f"reward,{EVIL[:20]},shaped,shaped-s1,1,{step},0.{step},value,true,0\n" for step in (1, 2, 3, 4))
    rows += "".join(f"reward,{EVIL[:20]},inverted,inverted-s3,3,{step},0,value,false,0\n" for step in (1, 2, 3, 4))
    write_text(folder.figures / "curves-reward.csv", "metric,unit,condition,run,seed,step,value,state,counts,part\n" + rows)
    for ending in ("svg", "csv"):
        shutil.copy(folder.figures / f"curves-reward.{ending}", folder.figures / f"{FILE}.{ending}")
    write(folder.figures / f"{FILE}.json", read(Figure, folder.figures / "curves-reward.json").model_copy(update={"name": FILE}))
    assert len(poison(folder.root, EVIL)) > 50
    page(folder.root)


def _imported(folder: ExperimentFolder) -> None:
    changed = (ChangeWords(key=EVIL, before=EVIL, after=EVIL[:40]),)
    _words(folder, unavailable=(EVIL,), parent="hostile", changes=changed, hypothesis=EVIL)
    source = SourceCard(path=f"wandb/{EVIL}/run", sha256="0" * 64)
    reading = ReadCard(format="wandb", columns=(ColumnCard(metric="reward", column=EVIL[:300], unit="reward"),))
    for ref in read(PageCard, folder.page_card).runs:
        card = ImportCard(
            experiment="imported",
            condition=ref.condition,
            seed=ref.seed,
            null_control=False,
            source=source,
            read=reading,
            target_steps=60,
            code={"some.stage": "0" * 16},
        )
        run = folder.run(ref.name)
        run.card.unlink()
        write(run.import_card, card)
        entry = {"source": source, "read": reading, "rows": 60, "first_step": 1, "last_step": 60, "stride": 1, "steps": "known"}
        write(run.imported, Imported(card_id=card_id(card), attempt=f"{ref.name}-1", notes=(f"the log line {EVIL} is cut",), **entry))
    poison(folder.root, EVIL)
    page(folder.root)


@pytest.fixture(scope="module")
def tab(hostile: Path) -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [400, 1280])
def test_hostile_text_runs_nothing_asks_for_nothing_and_breaks_no_layout(hostile: Path, tab: Browser, kind: str, width: int) -> None:
    tab.requested.clear()
    tab.errors.clear()
    tab.violations.clear()
    tab.open(hostile / kind, width=width)
    state = tab.run(OPEN)
    assert (state["hacked"], state["made"], state["wide"], state["turned"]) == (None, 0, False, False)
    assert state["popover"] == (kind.startswith("experiments/") and not re.search("numbers|completions|experiments/index", kind))
    assert state["plot"] == ("hostile/" in kind and not re.search("numbers|completions|family", kind))
    assert [address for address in tab.requested if not address.startswith(("file://", "data:", "blob:"))] == []
    assert tab.errors == [] and tab.violations == []


@pytest.mark.skipif(not AXE.exists(), reason="axe is not installed: make axe")
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "random" not in kind])
def test_axe_finds_no_serious_violation(hostile: Path, tab: Browser, kind: str, dark: bool) -> None:
    tab.open(hostile / kind, dark=dark)
    tab.run(OPEN)
    tab.run(AXE.read_text(encoding="utf-8") + ";0")
    violations = tab.run(
        'axe.run(document, {resultTypes: ["violations"]}).then((result) => result.violations'
        '.filter((one) => ["serious", "critical"].includes(one.impact))'
        ".map((one) => [one.id, one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160) + node.failureSummary.slice(0, 200))]))"
    )
    assert violations == [], json.dumps(violations, indent=1)


def test_a_passport_opens_from_the_file_system_and_without_its_script_the_link_leads_there(hostile: Path, tab: Browser) -> None:
    place = hostile / "experiments/hostile"
    tab.open(place / "index.html")
    assert not any(address.endswith("passports.js") for address in tab.requested[-30:]), "loaded when a number is opened, not before"
    assert tab.run(OPEN)["popover"] and any(address.endswith("passports.js") for address in tab.requested[-5:])
    target = tab.run('document.querySelector(".claim a.fact").href')
    assert target.startswith((place / "numbers.html").resolve().as_uri() + "#passport-")
    tab.open(place / "numbers.html")
    anchor = json.dumps(target.split("#")[1])
    opened = f"""(async () => {{
      const find = () => document.getElementById(decodeURIComponent({anchor}));
      location.hash = {anchor};
      for (let n = 0; n < 100 && !(find() && find().open); n++) await new Promise((done) => setTimeout(done, 50));
      return find().open && document.querySelectorAll("details.record").length >= 12;
    }})()"""
    assert tab.run(opened)


CLOSE = """(async () => {
  const fact = document.querySelector(".answer .number a.fact");
  const popover = () => document.querySelector(".popover");
  const open = async () => { fact.click(); for (let n = 0; n < 100 && !popover(); n++) await new Promise((done) => setTimeout(done, 50)); };
  await open();
  const opened = popover().textContent.includes(fact.dataset.finding)
    && popover().textContent.includes("<script>window.hacked=1<" + "/script>");
  const expanded = fact.getAttribute("aria-expanded");
  document.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape", bubbles: true}));
  const closed = !popover(), focused = document.activeElement === fact;
  await open();
  const links = [...popover().querySelectorAll("a.ref")].every((link) => link.href.includes("/numbers.html#behind-"));
  document.body.click();
  const text = document.body.textContent.includes("<script>window.hacked=1<" + "/script>");
  return [opened, expanded, closed, focused, links, !popover(), location.hash, text];
})()"""


def test_a_passport_closes_by_a_key_or_a_click_outside_and_the_focus_goes_back(hostile: Path, tab: Browser) -> None:
    tab.open(hostile / "experiments/hostile/index.html")
    assert tab.run(CLOSE) == [True, "true", True, True, True, True, "", True]


FILTER = """(() => {
  const list = document.querySelector("[data-texts]"), bar = list.previousElementSibling;
  const shown = () => [...list.children].filter((part) => part.offsetParent !== null).length;
  const set = (label, value) => {
    const part = bar.querySelector(`[aria-label="${label}"]`);
    part.value = value;
    part.dispatchEvent(new Event("input", {bubbles: true}));
    return [shown(), bar.querySelector("[role=status]").textContent];
  };
  const words = "Find in prompts and completions";
  const all = shown(), none = set(words, "no such words")[0];
  const hostile = set(words, "<IMG src=http://evil.invalid/a onerror")[0], prompt = set(words, "write x twice")[0];
  const states = [set(words, ""), set("condition", "shaped"), set("place", "held out"), set("outcome", "failed tests")];
  states.push(set("gates", "format: pass"));
  set("outcome", ""); set("place", "");
  return {all, none, hostile, prompt, states, step: set("step", "60")[0], window: window.hacked === undefined};
})()"""


def test_texts_are_found_by_words_outcome_gate_step_and_condition(hostile: Path, tab: Browser) -> None:
    """From the file system: 2 ways x 3 prompts x 5 models held out, and in training the different texts of four runs."""
    tab.open(hostile / "experiments/hostile/completions.html")
    found = tab.run(FILTER)
    training = found["all"] - 30
    assert training > 40 and found["none"] == 0 and 0 < found["hostile"] < found["all"] and 15 < found["prompt"] < found["all"]
    assert found["states"][0] == [found["all"], f"{found['all']} of {found['all']} shown"]
    shaped = found["states"][1][0]
    assert [count for count, _ in found["states"][2:]] == [6, 3, 3] and 2 < found["step"] < shaped - 6 and found["window"]


SEARCH_ALL = """(async () => {
  const bar = document.querySelector("form.find"), input = bar.querySelector("input"), status = bar.querySelector("[role=status]");
  const button = [...bar.querySelectorAll("button")].find((part) => part.textContent.startsWith("Search all"));
  const scripts = () => document.querySelectorAll("script[src*='texts/']").length, before = scripts();
  const search = async (word) => {
    input.value = word;
    button.click();
    for (let n = 0; n < 600 && !status.textContent.includes("stored"); n++) await new Promise((done) => setTimeout(done, 50));
    const parts = ["article", "img, .stored script"].map((part) => document.querySelectorAll(`.stored ${part}`).length);
    return [status.textContent, ...parts];
  };
  const hostile = await search("<IMG src=http://evil.invalid/a onerror");
  input.dispatchEvent(new Event("input", {bubbles: true}));
  const none = await search("no such words anywhere");
  return {before, after: scripts(), hostile, none, button: button.textContent, safe: window.hacked === undefined};
})()"""


def test_all_stored_texts_are_searched_when_a_reader_asks(hostile: Path, tab: Browser) -> None:
    """The untrained model and 12 runs; hostile texts stay text, and nothing is loaded before."""
    tab.open(hostile / "experiments/hostile/completions.html")
    seen = tab.run(SEARCH_ALL)
    files = sorted(path.stem for path in (hostile / "experiments/hostile/texts").glob("*.js"))
    assert "untrained" in files and len(files) > 5
    assert (seen["before"], seen["after"], seen["safe"]) == (0, len(files), True)
    total = seen["button"].removeprefix("Search all ")
    hits, rest = seen["hostile"][0].split(" of ", 1)
    assert int(hits.replace(",", "")) > 0 and rest.startswith(f"{total} stored completions fit") and 0 < seen["hostile"][1] <= 112
    assert seen["hostile"][2] == 0 and seen["none"][:2] == [f"0 of {total} stored completions fit", 0]


EXPLORE = """(async (name) => {
  const moment = () => new Promise((done) => setTimeout(done, 50));
  const until = async (find) => { for (let n = 0; n < 200 && !find(); n++) await moment(); return find(); };
  const figure = document.querySelector("figure#figure-curves-reward"), readout = () => figure.querySelector(".readout").textContent;
  figure.querySelector(".explore").click();
  await until(() => figure.querySelector(".plot canvas"));
  const panels = figure.querySelectorAll(".u-wrap").length;
  const point = () => {
    const over = figure.querySelector(".u-over"), at = over.getBoundingClientRect();
    over.dispatchEvent(new PointerEvent("pointerenter"));
    over.dispatchEvent(new MouseEvent("mousemove", {clientX: at.right - 1, clientY: at.top + 5, bubbles: true}));
  };
  const change = (label, value) => {
    const select = figure.querySelector(`select[aria-label="${label}"]`);
    select.value = value;
    select.dispatchEvent(new Event("change"));
  };
  point();
  await until(() => readout().startsWith("Step"));
  const plain = readout();
  change("Smoothing", "strong"); await moment(); point();
  await until(() => readout().includes("means over"));
  const smooth = readout();
  change("Vertical axis", "log");
  const log = readout();
  let saved = null;
  HTMLAnchorElement.prototype.click = function () { saved = [this.download, this.href.slice(0, 5)]; };
  figure.querySelector(".png").click();
  await until(() => saved);
  return {plain, smooth, log, saved, panels};
})()"""


def test_a_curve_is_smoothed_read_by_name_set_on_a_log_axis_and_taken_away(hostile: Path, tab: Browser) -> None:
    tab.errors.clear()
    tab.open(hostile / "experiments/hostile/index.html")
    state = tab.run(EXPLORE)
    assert state["plain"].startswith("Step 4: shaped without a mean (shaped-s1 0.4); inverted without a mean (inverted-s3 left out 0).")
    assert "Nearest: shaped-s1 0.4." in state["plain"] or "Nearest: inverted-s3 (left out: " in state["plain"]
    assert EVIL[:60] in state["plain"], "words of the expectation at this step"
    assert "means over 3 steps" in state["smooth"] and "shaped-s1 0.35" in state["smooth"], "of the steps 3 and 4"
    assert "A log axis has no place for 4 values at or below 0." in state["log"]
    assert (state["saved"], state["panels"]) == (["curves-reward.png", "blob:"], 2)
    assert tab.errors == [] and tab.violations == []


SEARCH = """(async (word) => {
  const input = document.querySelector(".md-search__input");
  input.focus(); input.value = word; input.dispatchEvent(new Event("input", {bubbles: true}));
  input.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true, key: "d"}));
  const links = () => [...document.querySelectorAll(".md-search-result__link")];
  for (let n = 0; n < 600 && !links().length; n++) await new Promise((done) => setTimeout(done, 100));
  document.querySelectorAll(".md-search-result details").forEach((part) => { part.open = true; });
  await new Promise((done) => setTimeout(done, 300));
  return {
    links: links().map((link) => link.getAttribute("href")), text: document.querySelector(".md-search-result").textContent,
    hacked: window.hacked === undefined ? null : window.hacked,
    made: document.querySelectorAll(".md-search-result :is(img, iframe, script, style, link, [onerror], a[href^=javascript])").length,
  };
})"""


@pytest.fixture(scope="module")
def host(hostile: Path) -> Iterator[str]:
    """The address of the site on a web server."""
    handler = functools.partial(SimpleHTTPRequestHandler, directory=hostile)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("served", [False, True])
@pytest.mark.parametrize("word", ["untrained", "onerror"])
def test_the_search_finds_words_and_shows_hostile_ones_as_text(hostile: Path, host: str, tab: Browser, word: str, served: bool) -> None:
    """From the file system, where the theme's worker is an iframe, and from a web server."""
    tab.requested.clear()
    tab.violations.clear()
    tab.open(f"{host}/index.html" if served else hostile / "index.html")
    result = tab.run(f"{SEARCH}({json.dumps(word)})")
    assert any("experiments/hostile/index.html" in link for link in result["links"])
    assert (result["hacked"], result["made"], tab.violations) == (None, 0, [])
    assert word == "untrained" or "<img src=http://evil.invalid/a onerror=window.hacked=2>" in result["text"]
    assert [address for address in tab.requested if not address.startswith(("file://", "data:", "blob:", "about:", host))] == []


def test_what_was_put_into_a_page_runs_only_without_its_policy(hostile: Path, tab: Browser) -> None:
    text = (hostile / "experiments/hostile/index.html").read_text(encoding="utf-8")
    policy = re.search(r'<meta http-equiv="Content-Security-Policy"[^>]*>', text)
    injected = "<script>window.hacked=1</script><img src=x onerror=window.hacked=2><style>body {opacity: 0.5}</style>"
    for put, hacked in ((injected, None), (f"{injected}<base href='http://evil.invalid/'>", None), ("", 1)):
        page = text.replace("</body>", f"{put or injected}</body>")
        path = hostile / "experiments/hostile/injected.html"
        path.write_text(page if put else page.replace(policy[0], ""), encoding="utf-8")
        tab.violations.clear()
        tab.open(path)
        tab.run("new Promise((done) => setTimeout(done, 300))")
        assert (tab.run("window.hacked === undefined ? null : window.hacked") is None) == (hacked is None)
        assert (tab.run("getComputedStyle(document.body).opacity") == "1") == bool(put) and bool(tab.violations) == bool(put)
        path.unlink()


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_of_a_web_server_runs_nothing_of_others_and_works(host: str, tab: Browser, kind: str) -> None:
    tab.requested.clear()
    tab.violations.clear()
    tab.errors.clear()
    tab.open(f"{host}/{kind}")
    state = tab.run(OPEN)
    assert (state["hacked"], state["made"], tab.violations, tab.errors) == (None, 0, [], [])
    assert state["plot"] == ("hostile/" in kind and not re.search("numbers|completions|family", kind))
    assert [address for address in tab.requested if not address.startswith((host, "data:", "blob:"))] == []


@pytest.mark.parametrize("way", ["picture", "caption", "keyboard", "verdict"])
def test_a_figure_and_a_verdict_open_their_passports_as_numbers_do(hostile: Path, tab: Browser, way: str) -> None:
    tab.open(hostile / "experiments/hostile/index.html")
    state = tab.run(
        """(async (way) => {
          const moment = () => new Promise((done) => setTimeout(done, 20));
          const until = async (find) => { for (let n = 0; n < 300 && !find(); n++) await moment(); return find(); };
          const figure = document.querySelector("figure#figure-curves-reward"), box = () => document.querySelector(".popover");
          const link = way === "verdict" ? document.querySelector(".answer a.fact.word") : figure.querySelector("a.passport-of");
          if (way === "picture") figure.querySelector("svg").dispatchEvent(new MouseEvent("click", {bubbles: true, cancelable: true}));
          else if (way === "keyboard") link.focus({focusVisible: true});
          else link.click();
          await until(box);
          const text = box().textContent, files = [...box().querySelectorAll("a[href*='figures/']")];
          const stands = files.map((one) => one.href), expanded = link.getAttribute("aria-expanded");
          document.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape", bubbles: true, cancelable: true}));
          return {text, stands, expanded, closed: !box(), back: document.activeElement === link, hash: location.hash};
        })("""
        + json.dumps(way)
        + ")"
    )
    assert (state["expanded"], state["closed"], state["back"], state["hash"]) == ("true", True, True, "")
    place = (hostile / "experiments/hostile").resolve().as_uri()
    if way == "verdict":
        assert "verdict/shaped-teaches" in state["text"] and "rule written" in state["text"]
    else:
        assert "figure/curves-reward" in state["text"] and EVIL[:300] in state["text"]
        assert f"{place}/figures/curves-reward.csv" in state["stands"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith(("index", "experiments/hostile"))])
def test_what_a_finger_aims_at_is_large_enough(hostile: Path, tab: Browser, kind: str) -> None:
    """24 CSS pixels (WCAG 2.2, 2.5.8); numbers in running text and in tables are links of a line, which the rule leaves out."""
    tab.open(hostile / kind, width=400)
    small = tab.run(
        """[...document.querySelectorAll(".md-content :is(button, summary, select, input, .md-tag, a.verdict, a.dot, .leaves a,"
          + " figcaption a, .md-button):not(.md-code__button)")].map((part) => [part, part.getBoundingClientRect()])
          .filter(([, at]) => at.width && (at.width < 24 || at.height < 24)).map(([part, at]) => part.outerHTML.slice(0, 90) + at.height)"""
    )
    assert small == []


def test_nothing_moves_for_readers_who_asked_for_less_motion(hostile: Path, tab: Browser) -> None:
    tab.open(hostile / "index.html")
    tab.run("document.adoptedStyleSheets = []; 0")  # the tests' own style that ends all transitions
    longest = (
        'Math.max(...[...document.querySelectorAll("*")].map((one) => getComputedStyle(one))'
        ".flatMap((style) => [...style.transitionDuration.split(','), ...style.animationDuration.split(',')]).map(parseFloat))"
    )
    assert tab.run(longest) > 0.05, "the theme moves"
    tab.media([{"name": "prefers-reduced-motion", "value": "reduce"}])
    assert tab.run(longest) < 0.001
    tab.media([])
