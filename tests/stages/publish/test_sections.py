"""Small sections of a page: its first lines, claims, rewards, attempts, exclusions, lineage, citation."""

import html
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from example_experiment import FAILED, GATED, build, plain, read_with_care, section

from stages.contracts.analysis_card import RunRef
from stages.contracts.artifact import read, write
from stages.contracts.attempt import Changed, Started
from stages.contracts.files import write_text
from stages.contracts.finding import Expected, Finding, RunScore, Verdict
from stages.contracts.health import Exclusion
from stages.contracts.layout import ExperimentFolder
from stages.contracts.lineage import Written
from stages.contracts.page_card import PageCard
from stages.contracts.reward import Gate, Penalty, Phase, Reward
from stages.publish.anomalies import anomalies
from stages.publish.attempts import changes, hours, rates
from stages.publish.care import Sources, cautions, is_doubtful
from stages.publish.claims import ClaimView, Place, bar, claim_views, explain_verdict
from stages.publish.experiment import RunFiles, load
from stages.publish.facts import Facts, undetected_change
from stages.publish.header import page_summary, verdict_counts
from stages.publish.home import pills
from stages.publish.methods import citation
from stages.publish.page import page
from stages.publish.passports import read_passports
from stages.publish.text import environment, record_anchor, slug


def number(**fields: object) -> Finding:
    plain_one = {"id": "a/b/change", "says": "", "subject": "a", "metric": "b", "statistic": "change", "unit": "share", "value": 0.01}
    return Finding.model_validate({**plain_one, **fields})


def decided(verdict: str, **fields: object) -> Verdict:
    rule = {"claim": "c", "why": "", "finding": None, "direction": "above", "margin": 0}
    return Verdict.model_validate({**rule, "verdict": verdict, **fields})


@pytest.mark.parametrize(
    ("verdicts", "sentence"),
    [
        ((), "No claim was declared, so nothing is decided."),
        (("void",), "The one declared claim is void."),
        (("supported", "supported"), "Both declared claims are supported."),
        (("refuted",) * 3, "All three declared claims are refuted."),
        (("supported", "inconclusive", "void"), "Of three declared claims, one is supported, one is inconclusive and one is void."),
        (("void", "supported", "void", "supported"), "Of four declared claims, two are supported and two are void."),
    ],
)
def test_the_answer_reads_as_a_sentence(verdicts: tuple[str, ...], sentence: str) -> None:
    nothing = (None, None, None, None, (), None, Written(written=""))
    views = [ClaimView("c", "", decided(word), *nothing) for word in verdicts]
    assert verdict_counts(views) == sentence


def test_what_a_reader_must_know_stands_beside_the_answers(project: Path) -> None:
    experiment = load(build(project, hostile="x" * 300))
    late = Written(written="2026-11-28, after the first data", late="the rule was edited")
    says = read_with_care(experiment, shaped_teaches={"dated": late})
    assert says[0] == "1 of 12 runs failed. Verifier (random-s2): the sandbox died \u2026"
    assert says[1] == "1 of 12 runs does not count (inverted-s3): nonfinite: gradient norms are not finite from step 41."
    assert says[2] == "The rule of shaped-teaches changed after the data."
    assert says[3] == "Preflight warned about random: half of the groups carry no signal (16 of 32)."
    assert says[4] == "In inverted gradient norm is not a finite number; in shaped reward atoms." and len(says) == 5
    assert not any("rule" in sentence for sentence in read_with_care(experiment))

    def broken(run: RunFiles) -> RunFiles:
        assert run.outcome
        end = {"finished": False, "failure": "out_of_memory", "error": "CUDA out of memory."}
        return replace(run, outcome=run.outcome.model_copy(update=end))

    broke = read_with_care(replace(experiment, runs=tuple(map(broken, experiment.runs))))[0]
    assert broke.startswith(
        "12 of 12 runs failed. Out of memory (all runs): CUDA out of memory. What helps: a smaller per_device_train_batch_s"
    )
    gone = tuple(replace(run, outcome=None, attempts=()) if run.ref.name in SOME else run for run in experiment.runs)
    missing = read_with_care(replace(experiment, runs=gone))[0]
    assert missing == "4 of 12 runs have no data (all of shaped and zero-s1): dvc repro runs/quickstart/dvc.yaml runs them."


SOME = ("shaped-s1", "shaped-s2", "shaped-s3", "zero-s1")


def test_a_supported_claim_with_warnings_or_missed_expectations_reads_as_no_success(project: Path) -> None:
    experiment = load(build(project))
    facts = Facts(experiment.findings)
    claims = claim_views(experiment, facts)
    sources = Sources(experiment, facts, claims, anomalies(experiment))
    quiet = sources._replace(seen=[])
    assert is_doubtful(claims[0], sources) and not is_doubtful(claims[0], quiet)  # reward atoms of shaped
    score = {"expectation": "learns", "condition": "shaped", "metric": "reward", "place": "100%", "direction": "above", "bound": 2}
    runs = (RunScore(run="shaped-s1", state="missed", finding="shaped-s1/reward/final", window="steps 55-60", why="0.87 is below 2"),)
    missed = Expected.model_validate({**score, "finding": "shaped/reward/final", "runs": runs})
    missing = replace(experiment, conclusions=experiment.conclusions.model_copy(update={"expectations": (missed,)}))
    assert is_doubtful(claims[0], quiet._replace(experiment=missing))
    assert cautions(quiet._replace(experiment=missing))[-1].short == "1 of 1 expectation missed"
    summary = page_summary(sources, cautions(sources))
    counts, _, doubts = summary.answer.partition(" Read with care: ")
    assert counts == "Of four declared claims, one is supported, one is refuted, one is inconclusive and one is void."
    assert doubts == "1 of 12 runs failed, 1 of 12 runs does not count, preflight warned about random and 2 warnings (1 severe)."
    assert pills([summary]) == {"care": 1, "refuted": 1, "inconclusive": 1, "void": 1}


def drawn(value: float, low: float | None, high: float | None, margin: float, direction: str) -> dict[str, float]:
    """x of each mark of a claim's bar."""
    text = bar(Place(value=value, low=low, high=high, margin=margin, direction=direction), "void", "")
    patterns = {
        "low": r'class="whisker" x1="([^"]*)"',
        "high": r'class="whisker" [^>]*x2="([^"]*)"',
        "value": r'class="point" cx="([^"]*)"',
        "margin": r'<line class="margin" x1="([^"]*)"',
        "zero": r'class="zero" x1="([^"]*)"',
        "side": r'class="side" x="([^"]*)"',
        "width": r'class="side" [^>]*width="([^"]*)"',
    }
    return {name: float(match[1]) for name, pattern in patterns.items() if (match := re.search(pattern, text))}


def test_marks_of_a_bar_lie_where_their_values_are_and_the_claimed_side_is_shaded() -> None:
    above, below = drawn(0.3, 0.2, 0.4, 0.1, "above"), drawn(0.3, 0.2, 0.4, 0.1, "below")
    steps = [above[b] - above[a] for a, b in (("zero", "margin"), ("margin", "low"), ("low", "value"), ("value", "high"))]
    assert steps == pytest.approx([steps[0]] * 4, abs=0.2) and above["high"] <= 308  # all are 0.1 apart
    assert above["side"] == above["margin"] and above["side"] + above["width"] == 320
    assert below["side"] == 0 and below["width"] == below["margin"]
    alone = drawn(0.0, None, None, 0.0, "above")
    assert "low" not in alone and alone["value"] == alone["margin"]


def test_a_claim_on_equal_seeds_does_not_speak_of_an_interval_that_is_not_there() -> None:
    finding = number(value=5.0, method="no spread between seeds: the interval would have no width", n=3)
    verdict = decided("inconclusive", direction="below", margin=-1.5)
    says = f"There is no interval ({finding.method}), so the value alone does not say on which side of the margin \u22121.5 the truth lies."
    assert explain_verdict(verdict, finding, listed=False) == says
    bounded = finding.model_copy(update={"low": -2.0, "high": 1.0})
    assert explain_verdict(verdict, bounded, listed=False) == "The interval contains the margin \u22121.5."
    counted = bounded.model_copy(update={"equal_seeds": True, "method": "seeds are equal; Wilson interval from 0 of 9"})
    says = "The whole interval lies below the margin \u22121.5. The seeds are equal; Wilson interval from 0 of 9"
    supported = verdict.model_copy(update={"verdict": "supported"})
    assert explain_verdict(supported, counted, listed=False) == f"{says}; it does not cover other seeds."


@pytest.mark.parametrize(
    ("low", "high", "detectable", "says"),
    [
        (-0.03, 0.05, 0.061, "no change detected (smallest detectable: ±0.061)"),
        (0.001, 0.05, 0.061, ""),
        (-0.05, -0.001, 0.061, ""),
        (None, None, None, ""),
        (0.0, 0.0, 0.0, ""),  # no spread at all: nothing to detect against
    ],
)
def test_the_detectable_change_stands_beside_no_change(low: float | None, high: float | None, detectable: float | None, says: str) -> None:
    finding = number(low=low, high=high, detectable=detectable)
    assert undetected_change(finding) == says
    written = Facts({finding.id: finding}).change(finding, decimals=2)
    assert ("<small" in written) == bool(says) and "0.01</a>" in written


def test_what_gates_penalties_and_phases_do_reads_as_specs_write_them() -> None:
    def gate(name: str, **rest: object) -> Gate:
        return Gate.model_validate({"name": name, "kind": "constant", "settings": {}, **rest})

    words = environment().get_template("reward_words.html.j2").module
    decides, after = words.decides, words.after  # type: ignore[attr-defined]
    weighted = Reward(name="r", combine="weighted", gates=(gate("types", weight=0.2), gate("tests", weight=0.8, needs="types")))
    assert decides(weighted, weighted.gates[0]) == "20&#37; of the reward"
    assert plain(decides(weighted, weighted.gates[1])) == "80% of the reward; asked only where types passed"
    phased = weighted.model_copy(update={"curriculum": (Phase(**{"from": 0.5}, weights={"types": 0.5, "tests": 0.5}),)})
    assert decides(phased, phased.gates[0]) == "20&#37; of the reward at first"
    assert plain(after(phased)) == "From 50% of training on: types 50%, tests 50%."
    chain = Reward(name="r", gates=(gate("format", on_fail=0.0), gate("tests")))
    assert plain(decides(chain, chain.gates[0])) == "fail gives 0; otherwise the next gate is asked"
    assert decides(chain, chain.gates[1]) == "otherwise its own score is the reward"
    marked = Reward.model_validate({"name": "r", "answer": {"from": "tag"}, "gates": (gate("brief", judges="completion"), gate("tests"))})
    assert plain(decides(marked, marked.gates[0])) == "otherwise the next gate is asked; judges the whole completion"
    assert plain(after(marked)) == (
        "The gates judge the answer, which is what the last tag <answer> holds; a completion without one fails them."
    )
    leaf = {"gate": "structure", "mark": "end_marker", "holds": False}
    both = {"any": [{"signal": "empty", "holds": False}, {"all": [{"gate": "tests", "status": "fail"}, leaf]}]}
    penalties = (
        {"name": "runaway", "when": {"all": [{"signal": "truncated"}, leaf]}, "set": 0},
        {"name": "short", "when": both, "factor": 0.5},
    )
    reward = Reward(name="r", gates=(gate("tests"),), penalties=tuple(map(Penalty.model_validate, penalties)), cap=0.9)
    assert plain(after(reward)) == (
        "Penalty runaway: where truncated and not structure.end_marker, the reward becomes 0. "
        "Penalty short: where not empty or tests.fail and not structure.end_marker, the reward is multiplied by 0.5. "
        "No reward is above 0.9."
    )


def test_attempts_are_listed_and_counted_and_no_time_of_a_killed_one_is_made_up(project: Path) -> None:
    experiment = load(build(project))
    page(experiment.folder.root)
    rows = [plain(row) for row in section(experiment.folder, "Attempts").split("<tr")]
    killed, again = (next(row for row in rows if f"shaped-s2 {attempt} " in row) for attempt in (1, 2))
    assert killed.endswith("killed – – the start linux-x86_64-2cpu no end was written")
    assert again.endswith("finished 60 17 s step 20 linux-x86_64-2cpu")
    counted = {name: (plain(share), bounds) for name, share, bounds in rates(experiment, Facts(experiment.findings))}
    assert counted["random"][0] == "2 of 4" and counted["all conditions"] == ("11 of 14", "[0.52, 0.92]")
    assert ("killed", 1, "not known") in hours(experiment)


def test_the_page_links_a_run_at_wandb_and_marks_what_was_passed_on(project: Path) -> None:
    folder = ExperimentFolder(build(project))
    ledger = folder.run("shaped-s1").attempts
    place = '"wandb":"https://wandb.ai/team/provers/runs/a1?<b>"'
    write_text(ledger, ledger.read_text().replace('"outcome":"finished"', f'"outcome":"finished",{place}'))
    for card in folder.root.glob("shaped-s*/train.card.json"):
        content = json.loads(card.read_text())
        content["train"]["trl"] = {"neftune_noise_alpha": 5.0}
        write_text(card, json.dumps(content))
    page(folder.root)
    attempts, settings = section(folder, "Attempts"), section(folder, "Hyperparameters")
    assert attempts.count("<a href=") == attempts.count('rel="noreferrer">W&amp;B</a>') + attempts.count('<a href="run-') == 1
    assert 'href="https://wandb.ai/team/provers/runs/a1?<b>"' in html.unescape(attempts) and "<b>" not in attempts
    row = next(plain(row) for row in settings.split("<tr") if ">trl.neftune_noise_alpha<" in row)
    assert "trl.neftune_noise_alpha 5.0 shaped only Passed on to TRL as it is. Not audited by octavo." in row


def test_what_an_attempt_changed_stands_beside_where_it_went_on_from() -> None:
    shared = {
        "attempt": "a2",
        "number": 2,
        "at": "2026-01-01T00:00:00Z",
        "card_id": "c",
        "commit": None,
        "host": "h",
        "devices": ("cpu",),
        "versions": {},
    }
    first = Started.model_validate({**shared, "sandbox": "s", "resumed_from": None})
    halved = Changed(after="a1", failure="out_of_memory", microbatch=4)
    back = Changed(after="a1", failure="nonfinite", microbatch=4, resume="last_finite_checkpoint")
    assert changes(first) == ""
    assert changes(first.model_copy(update={"changed": halved})) == "; micro-batch 4, after out of memory"
    assert changes(first.model_copy(update={"changed": back})) == "; micro-batch 4, last finite checkpoint, after nonfinite"
    assert "changed" not in first.model_dump(mode="json"), "entries of older ledgers keep their form"


def test_reasons_for_leaving_a_run_out_are_those_of_its_gates(project: Path) -> None:
    runs = load(build(project)).by_name
    says = "truncated share is 0.91 in the final window, not below 0.5"
    truncated = Exclusion(gate="truncated", rule="truncated share below 0.5", reason=f"gate truncated: {says}", says=says)
    health = runs["shaped-s1"].health
    assert health
    left_out = health.model_copy(update={"included": False, "exclusions": (truncated,), "reasons": (truncated.reason,)})
    assert replace(runs["shaped-s1"], health=left_out).left_out == [says]
    assert runs[FAILED].left_out == ["failed at step 31 (verifier)"] and runs["zero-s1"].left_out == []


def boxes(folder: ExperimentFolder) -> list[list[str]]:
    """The words of every box of the small picture of the lineage, column by column."""
    page(folder.root)
    columns = section(folder, "Lineage").split('<p class="says">')[1:]
    return [[plain(box) for box in column.split("<summary>")[1:]] for column in columns]


def test_the_lineage_goes_from_the_spec_over_conditions_and_findings_to_the_page(project: Path) -> None:
    folder = ExperimentFolder(build(project))
    card = read(PageCard, folder.page_card)
    write(folder.page_card, card.model_copy(update={"run_pages": True}))
    declared, run, computed, published = boxes(folder)
    assert [box.split()[0] for box in (*declared, *run, *computed, *published)] == (
        ["spec", "data", "shaped", "inverted", "random", "zero", "findings", "figures", "verdicts", "page"]
    )
    assert "specs/quickstart.yaml:10:5 claim shaped-teaches" in declared[0]
    assert run[2].startswith("random 2 of 3 runs count") and f"{FAILED} failed, 2 attempts" in run[2]
    assert f"{GATED} finished, left out, " in run[1]
    text = html.unescape(section(folder, "Lineage"))
    assert text.count('<details class="box hole">') == 2
    content = read_passports(folder.page / "passports.js")
    anchors = {*map(slug, content["passports"]), *map(record_anchor, content["records"])}
    for address in re.findall(r'href="([^"]*)"', text):
        name, _, anchor = address.partition("#")
        assert (folder.page / name).exists() or (folder.page / "static" / name).exists(), address
        assert not anchor or anchor in anchors, address
    assert 'href="run-shaped-s1.html"' in text


def test_many_conditions_share_the_last_box_of_the_lineage(project: Path) -> None:
    folder = ExperimentFolder(build(project))
    card, names = read(PageCard, folder.page_card), [f"c{number}" for number in range(20)]
    conditions = tuple(card.conditions[0].model_copy(update={"name": name}) for name in names)
    refs = tuple(RunRef(name=f"{name}-s1", condition=name, seed=1, target_steps=60) for name in names)
    write(folder.page_card, card.model_copy(update={"conditions": conditions, "runs": refs, "claims": ()}))
    run = boxes(folder)[1]
    assert [box.split(" 0 of")[0] for box in run] == ["c0", "c1", "c2", "c3", "16 more conditions"]
    assert re.findall(r"c\d+-s1", run[-1]) == [f"{name}-s1" for name in names[4:]]


def test_a_citation_has_title_owner_date_and_commit_and_the_page_carries_it(project: Path) -> None:
    folder = ExperimentFolder(build(project))
    cited = citation(load(folder.root))
    assert cited.bibtex.splitlines() == [
        "@misc{octavo-quickstart,",
        "  title = {{Does a verifiable reward teach a small model to write right expressions?}},",
        "  author = {{octavo}},",
        "  note = {octavo experiment quickstart, commit 1f2e3d4c5b6a79880123},",
        "  year = {2026},",
        "  month = nov,",
        "}",
    ]
    cff = yaml.safe_load(cited.cff)
    assert cff["cff-version"] == "1.2.0" and cff["type"] == "dataset" and cff["authors"] == [{"name": "octavo"}]
    assert cff["commit"] == "1f2e3d4c5b6a79880123" and str(cff["date-released"]).startswith("2026-11-27")
    page(folder.root)
    text = (folder.page / "index.md").read_text()
    assert "&#64;misc&#123;octavo-quickstart" in text and 'href="citation.bib"' in text
    assert (folder.page / "CITATION.cff").read_text() == cited.cff


def test_words_of_a_spec_end_no_field_of_a_citation(project: Path) -> None:
    folder = ExperimentFolder(build(project))
    title = 'a }, evil = {x}\\end "q": & 100% \u202e $x_1$'
    write(folder.page_card, read(PageCard, folder.page_card).model_copy(update={"title": title, "owner": "- x: [y]\n#"}))
    cited = citation(load(folder.root))
    line = r'  title = {{a \}, evil = \{x\}\textbackslash{}end "q": \& 100\% ⟨U+202E⟩ \$x\_1\$}},'
    assert cited.bibtex.splitlines()[1] == line
    cff = yaml.safe_load(cited.cff)
    assert cff["title"] == title.replace("\u202e", "⟨U+202E⟩") and cff["authors"] == [{"name": "- x: [y]\n#"}]
