import contextlib
import html
import json
import re
from pathlib import Path

import pytest
from example_experiment import FAILED, GATED, HOSTILE, build, plain, section_of

from stages.contracts.analysis_card import ConcludeCard
from stages.contracts.artifact import read, write
from stages.contracts.diagnostic import StageError
from stages.contracts.files import file_digest
from stages.contracts.finding import Findings
from stages.contracts.layout import ExperimentFolder
from stages.contracts.lineage import Lineage
from stages.contracts.page_card import PageCard
from stages.contracts.ppo import PpoSettings
from stages.publish.header import PageSummary
from stages.publish.page import page
from stages.publish.passports import read_passports
from stages.publish.text import reveal_hidden


def written(folder: Path) -> str:
    page(folder)
    return (folder / "page" / "index.md").read_text(encoding="utf-8")


def words(markup: str) -> str:
    """The page's text as a reader sees it."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", markup)))


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> str:
    """`index.md` of the example as it is."""
    with contextlib.chdir(tmp_path_factory.mktemp("example")):
        return written(build(Path.cwd()))


@pytest.mark.parametrize(
    ("title", "says"),
    [
        ("Claims", "The whole interval lies above the margin 0.05."),
        ("Claims", "specs/quickstart.yaml:10:5"),
        ("Claims", "Rule written unknown: not in a git repository, so it is not known to be older than the first data of 2026-11-27"),
        ("Claims", "The claim needs 3 healthy seeds in each condition; inverted has 2."),
        ("Claims", "These seeds could have shown a distance of 0.031 from it (80% power). If the value seen is the true one,"),
        ("Claims", "one, 14 seeds a condition would decide against the claim."),
        ("Reward", "earn, before any inversion: empty 0 one word 1.0 (no right answer earns more)"),
        ("Reward", "completions was predicted to take 2.5 s to sample and 0.5 s to score, most of that for tests."),
        ("Hyperparameters", "learning_rate 0.001 shaped, inverted, random only Peak learning rate of AdamW. specs/quickstart.yaml:22:18"),
        ("Hyperparameters", "learning_rate 0.0005 zero only"),
    ],
)
def test_what_a_section_says(example: str, title: str, says: str) -> None:
    assert says in words(section_of(example, title))


def test_a_missing_value_is_a_dash_with_its_reason_and_never_a_zero(example: str) -> None:
    row = example.split('<tbody id="seeds-random">')[1].split("</tbody>")[0]
    assert 'title="training failed at step 31&#58; no final window">–</a>' in row


def test_the_first_screen_answers_each_claim_with_its_numbers(example: str) -> None:
    answers = [words(part) for part in example.split('<div class="answer"')[1:5]]
    assert [re.search("[✓✗∅?] (Yes|Not decided|No)", text)[1] for text in answers] == ["Yes", "No", "Not decided", "Not decided"]
    assert "87% of held-out answers pass tests with shaped , 51% with zero (null control), 52% untrained." in answers[0]
    assert "+0.36 [+0.30, +0.42]" in answers[0] and "−0.28 [−0.37, −0.19]" in answers[1]
    assert "The claim needs 3 healthy seeds in each condition; inverted has 2." in answers[2]
    assert "If the value seen is the true one, about 14 seeds a condition would decide against the claim." in answers[3]


def test_a_void_claim_shows_the_seeds_it_would_have_compared(project: Path) -> None:
    folder = build(project)
    path = ExperimentFolder(folder).conclude_card
    card = read(ConcludeCard, path)
    metric = {"metric": "evaluation.tests.pass_share"}
    claims = [claim.model_copy(update=metric if claim.id == "inverted-lengthens" else {}) for claim in card.claims]
    write(path, card.model_copy(update={"claims": tuple(claims)}))
    claim = words(written(folder).split('id="claim-inverted-lengthens"')[1].split("</article>")[0])
    assert "Seeds in inverted-s1 " in claim and "Seeds out inverted-s3 0.02 not finite from step 41" in claim


def test_numbers_of_a_column_have_the_same_digits(project: Path) -> None:
    folder = ExperimentFolder(build(project))
    findings = read(Findings, folder.findings)
    tiny = ("random-s1/reward/initial", "zero/reward/final", "inverted-s2/truncated/final")
    changed = [finding.model_copy(update={"value": 0.0052}) if finding.id in tiny else finding for finding in findings.findings]
    write(folder.findings, findings.model_copy(update={"findings": tuple(changed)}))
    text = written(folder.root)
    for title in ("Conditions", "Seeds"):
        table = section_of(text, title).split("</table>")[0]
        rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in table.split("<tr") if "<td" in row and "because" not in row]
        columns: dict[int, set[int]] = {}
        for row in rows:
            for index, cell in enumerate(row):
                for number in re.findall(r"[0-9]+[.]([0-9]+)", words(cell)):
                    columns.setdefault(index, set()).add(len(number))
        assert len(columns) >= 5 and all(len(digits) == 1 for digits in columns.values()), (title, columns)


def test_holes_are_on_the_first_screen(project: Path) -> None:
    folder = build(project)
    (folder / "zero-s3" / "outcome.json").unlink()
    text = words(written(folder))
    top = text[: text.index("Evidence")]
    assert "1 of 12 runs has no data (zero-s3)" in top
    assert f"1 of 12 runs failed. Verifier ({FAILED}): the sandbox died" in top
    assert f"1 of 12 runs does not count ({GATED}): nonfinite: gradient norms are not finite from step 41" in top


def test_a_profile_says_that_it_is_no_evidence(project: Path) -> None:
    says = "This is the profile smoke: it shows that every part works, and its numbers decide nothing."
    assert says in words(written(build(project, profile="smoke"))) and says not in words(written(build(project)))
    evidence = build(project, profile="large")
    card = evidence / "page.card.json"
    card.write_text(json.dumps({**json.loads(card.read_text()), "evidence": True}))
    assert "decide nothing" not in words(written(evidence))
    assert json.loads((evidence / "page/summary.json").read_text())["profile"] is None


def test_what_the_methods_say_of_a_loss_is_of_the_algorithm_that_trained(project: Path) -> None:
    folder = ExperimentFolder(build(project))
    assert "GRPO's logged loss is no measure of progress" in words(written(folder.root))
    settings = PpoSettings(algorithm="ppo", max_steps=60, learning_rate=1e-5, max_completion_length=24).model_dump(mode="json")
    for path in folder.root.glob("*/train.card.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "train": settings}))
    text = words(written(folder.root))
    assert "PPO's logged losses are no measure of progress" in text and "GRPO's" not in text


def test_the_first_table_has_no_column_of_a_metric_that_nothing_measured(project: Path) -> None:
    folder, head = ExperimentFolder(build(project)), "groups without signal, last"
    assert head in words(written(folder.root))
    before = read(Findings, folder.findings)
    silent = [
        f.model_copy(update={"value": None, "reason": "no groups"}) if f.metric == "zero_signal_share" else f for f in before.findings
    ]
    write(folder.findings, before.model_copy(update={"findings": tuple(silent)}))
    assert head not in words(written(folder.root)), "PPO compares no groups"


def test_reward_examples_are_shown_with_what_they_earn(project: Path) -> None:
    text = words(written(build(project, hostile="(x*2)+3)")))
    assert "1 reward example, tested before training Completion Earns Because (x*2)+3) 0 not an expression" in text


def test_hostile_text_is_only_ever_text(project: Path) -> None:
    text = written(build(project))
    assert "<script" not in text and "<img" not in text and "javascript:" not in text and "{{" not in text and "{:" not in text
    assert "\x00" not in text and "\u202e" not in text
    assert words(text).count(" ".join(reveal_hidden(HOSTILE).split())) >= 5  # completions, atoms, errors, captions


def test_two_builds_are_byte_equal(project: Path) -> None:
    folder = build(project)

    def content() -> dict[str, bytes]:
        page(folder)
        return {path.name: path.read_bytes() for path in (folder / "page").rglob("*") if path.is_file()}

    assert content() == content()


def test_the_folder_holds_the_figures_a_summary_and_the_lineage(project: Path) -> None:
    folder = build(project)
    page(folder)
    names = {path.relative_to(folder / "page").as_posix() for path in (folder / "page").rglob("*") if path.is_file()}
    text = {"index.md", "static/numbers.html", "static/completions.html", "passports.js", "summary.json", "rules.json", "lineage.json"}
    text |= {"citation.bib", "CITATION.cff"}
    texts = {name for name in names if name.startswith("texts/")}
    assert names - texts == text | {f"figures/reward.{ending}" for ending in ("svg", "csv", "json")}
    assert {"texts/untrained.js", "texts/shaped-s1.js"} < texts
    summary = read(PageSummary, folder / "page" / "summary.json")
    assert (summary.runs, summary.included, summary.finished, summary.data_until) == (12, 10, 11, "2026-11-27T11:59:48Z")
    assert summary.claims[0].printed == "+0.36 [+0.30, +0.42]"


def test_lineage_lists_every_file_with_its_digest_and_what_made_it(project: Path) -> None:
    folder = ExperimentFolder(build(project))
    page(folder.root)
    lineage = read(Lineage, folder.page / "lineage.json")
    makers = {file.path: file.made_by for file in lineage.files}
    history, card = folder.run("shaped-s2").history, folder.run("shaped-s2").card
    assert makers[history.as_posix()] == "attempt shaped-s2-2", "the killed attempt made nothing"
    assert (makers[card.as_posix()], makers[folder.findings.as_posix()]) == ("octavo compile", "stage conclude")
    assert makers["data/train.jsonl"] == makers["data/heldout.jsonl"] == "input"
    assert makers[folder.run("zero-s1").health.as_posix()] == "stage screen"
    assert all(file_digest(Path(file.path)) == file.sha256 for file in lineage.files)
    assert lineage.commit == "1f2e3d4c5b6a79880123"


def test_a_stale_card_is_refused_and_the_old_page_stays(project: Path) -> None:
    folder = build(project)
    page(folder)
    before = (folder / "page" / "index.md").read_bytes()
    card = ExperimentFolder(folder).page_card
    write(card, read(PageCard, card).model_copy(update={"code": {"publish.page": "0" * 12}}))
    with pytest.raises(StageError) as caught:
        page(folder)
    assert caught.value.code == "S101" and caught.value.fix == "octavo compile && dvc repro"
    assert (folder / "page" / "index.md").read_bytes() == before


def test_a_failed_write_leaves_the_old_page(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = build(project)
    page(folder)
    before = (folder / "page" / "index.md").read_bytes()
    real = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        if self.name == "lineage.json":
            raise OSError(28, "No space left on device", str(self))
        return real(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        page(folder)
    assert (folder / "page" / "index.md").read_bytes() == before
    assert not [path for path in folder.iterdir() if path.name.startswith(".page")]


def test_an_unknown_reference_in_the_prose_ends_the_stage(project: Path) -> None:
    folder = build(project, prose="See {{ shaped/reward/finale }}.\n")
    with pytest.raises(StageError, match=r"specs/quickstart.md:1:5: unknown id 'shaped/reward/finale'; did you mean 'shaped/reward/final'"):
        page(folder)
    assert not (folder / "page").exists()


WRITTEN = """---
written_for: {shaped-teaches: supported, random-harmless: [supported, inconclusive]}
---
It is {{ claim:shaped-teaches }}.

{{ figure:reward }}

{{ table:conditions }}

The first one had {{ first:shaped/reward/final }}.
"""


def test_an_interpretation_says_for_which_verdicts_it_was_written(project: Path) -> None:
    build(project, name="first")
    folder = ExperimentFolder(build(project, prose=WRITTEN))
    write(folder.page_card, read(PageCard, folder.page_card).model_copy(update={"cited": ("first",)}))
    page(folder.root)
    markup = (folder.page / "index.md").read_text(encoding="utf-8").split('<h2 id="interpretation">')[1].split('<section class="parts">')[0]
    text = plain(markup)
    assert "for other verdicts random-harmless is refuted, and the text is for supported or inconclusive." in text
    assert "does not say for which verdict of inverted-lengthens , shaped-forms this was written" in text
    assert 'href="#claim-shaped-teaches">supported</a>' in markup
    assert markup.count("<svg") == 1 and "<table" in markup and " id=" not in markup.split("</svg>")[1].split("<footer")[0]
    passports = read_passports(folder.page / "passports.js")["passports"]
    assert "experiment first" in passports["first:shaped/reward/final"]["says"]
    assert "runs/first/" in str(passports["first:shaped/reward/final"]["behind"])


def test_a_profile_has_an_interpretation_of_its_own_or_none(project: Path) -> None:
    assert "author makes of it" not in words(written(build(project, profile="smoke")))
    text = words(written(build(project, profile="smoke", prose="Ends **here**.\n")))
    assert "Ends here" in text and "author makes of it" in text


def test_an_experiment_without_runs_claims_or_figures_still_has_an_honest_page(project: Path) -> None:
    folder = ExperimentFolder(build(project))
    for name in ("train.card.json", "outcome.json", "health.json", "attempts.jsonl", "completions.parquet"):
        for path in folder.root.glob(f"*/{name}"):
            path.unlink()
    folder.preflight.unlink()
    for path in folder.figures.iterdir():
        path.unlink()
    write(folder.page_card, read(PageCard, folder.page_card).model_copy(update={"claims": ()}))
    write(folder.findings, read(Findings, folder.findings).model_copy(update={"findings": (), "verdicts": (), "claims_tested": 0}))
    text = words(written(folder.root))
    assert "This experiment declares no claim." in text
    assert (
        "12 of 12 runs have no data (all runs)" in text
        and "No attempt has begun." in text
        and "No curve was drawn: none of 12 runs logged a step." in text
    )
    assert "No completions were kept." in text and "No train card was found, so no reward can be shown." in text
