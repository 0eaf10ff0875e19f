import html
import json
import re
from pathlib import Path

from example_experiment import build

from stages.contracts.artifact import read, write
from stages.contracts.layout import ExperimentFolder
from stages.contracts.page_card import PageCard, WaivedWords
from stages.publish.page import page
from stages.publish.trace import trace

WHO = "Ada <script>|"


def waived(stage: str, run: str | None, why: str = "only `a` message <b>", before: str = "a" * 16) -> WaivedWords:
    return WaivedWords(stage=stage, run=run, code_from=before, code_to="b" * 16, who=WHO, why=why, at="2026-11-28T02:00:00Z")


def carried(project: Path, *waivers: WaivedWords) -> str:
    folder = ExperimentFolder(build(project))
    write(folder.page_card, read(PageCard, folder.page_card).model_copy(update={"waivers": waivers}))
    page(folder.root)
    return "".join((folder.page / name).read_text(encoding="utf-8") for name in ("index.md", "leaves/numbers.html"))


def text_of(markup: str) -> str:
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", markup)))


def passport(text: str, finding: str) -> str:
    return text_of(text.split(f'id="passport-{finding}"')[1].split("</details>")[0])


def test_numbers_of_waived_runs_say_so_everywhere(project: Path) -> None:
    text = carried(project, waived("train", "shaped-s1"), waived("train", "shaped-s2"))
    assert "<script>" not in text and "message <b>" not in text
    conditions = text.split("## Conditions")[1].split("</table>")[0]
    rows = [text_of(row) for row in conditions.split("<tr")]
    assert [row for row in rows if "carried over" in row] == [row for row in rows if "shaped treatment" in row]
    assert "2 carried over" in next(row for row in rows if "shaped treatment" in row)
    seeds = text.split('<tbody id="seeds-shaped">')[1].split("</tbody>")[0]
    assert [">carried over<" in row for row in seeds.split("<tr")[2:5]] == [True, True, False]
    words = f"code change waived on 2026-11-28 by {WHO}"
    assert f"carried over shaped-s1: {words}" in passport(text, "shaped-s1/reward/final")
    assert f"carried over shaped-s1 and shaped-s2: {words}" in passport(text, "shaped-vs-zero/evaluation.tests.pass_share/difference")
    assert "carried over" not in passport(text, "shaped-s3/reward/final") + passport(text, "zero/evaluation.tests.pass_share/final")
    record = text_of(text.split('<details class="record" id="behind-shaped-s1"')[1].split("</details>")[0])
    assert f"{'a' * 16} → {'b' * 16} judged equal in its results by {WHO}, 2026-11-28T02:00:00Z: only `a` message <b>" in record
    banner = text_of(text.split('<div class="banner excluded"')[2].split("</div>")[0])
    assert "Results of older code, carried over" in banner and f"shaped-s1 and shaped-s2: {words}" in banner
    methods = text_of(text.split("Waived code changes</h3>")[1].split("</table>")[0])
    assert f"shaped-s1 and shaped-s2 {'a' * 16} → {'b' * 16} {WHO} 2026-11-28T02:00:00Z only `a` message <b>" in methods
    found = json.loads((project / "runs/quickstart/page/passports.json").read_text())
    assert [one["run"] for one in found["shaped-s1/reward/final"]["waivers"]] == ["shaped-s1"]
    assert "waivers" not in found["zero-s1/reward/final"]


def test_a_waived_evaluation_is_behind_its_numbers_only(project: Path) -> None:
    text = carried(project, waived("evaluate", None), waived("pretrain", None, "model", "c" * 16))
    said = passport(text, "zero/evaluation.tests.pass_share/final")
    assert "the shared evaluation and the base model: code change" in said
    assert "the shared evaluation" not in passport(text, "shaped-s1/reward/final")
    assert "the base model: code change" in passport(text, "shaped-s1/reward/final")
    assert "carried over" not in text_of(text.split("## Conditions")[1].split("## Curves")[0])


def test_trace_tells_the_waiver(project: Path) -> None:
    carried(project, waived("train", "shaped-s1", before="c" * 16), waived("train", "shaped-s1", "again"), waived("evaluate", None))
    said = trace(Path("runs/quickstart"), "shaped-s1")
    assert re.search(rf"carried over +code {'c' * 16} → {'b' * 16} judged equal in its results by {re.escape(WHO)}", said)
    assert "2026-11-28T02:00:00Z: again" in said
    said = trace(Path("runs/quickstart"), "shaped/reward/final")
    assert "shaped-s1 carried over" in said and "shaped-s2 carried over" not in said
    assert "carried over: code" in trace(Path("runs/quickstart"), "shaped/evaluation.tests.pass_share/final")
    assert "shaped-s1" in trace(Path("runs/quickstart"), "page").split("carried over")[1]
    assert trace(Path("runs/quickstart"), "zero-s1").count("judged equal") == 1, "the evaluation's only"


def test_without_waivers_nothing_is_said(project: Path) -> None:
    text = carried(project)
    assert "carried over" not in text_of(text).lower() and "Waived code changes" not in text
    assert '"waivers"' not in (project / "runs/quickstart/page.card.json").read_text()
