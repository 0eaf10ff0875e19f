import re
from pathlib import Path

from example_experiment import build

from stages.publish.attempts import hours, rates
from stages.publish.experiment import load
from stages.publish.facts import Facts
from stages.publish.page import page


def test_the_table_of_attempts(project: Path) -> None:
    folder = build(project)
    page(folder)
    text = (folder / "page/index.md").read_text(encoding="utf-8").split("## Attempts")[1].split("## ")[0]
    rows = [" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in text.split("<tr")]
    killed, again = (next(row for row in rows if f"shaped-s2 {number} " in row) for number in (1, 2))
    assert killed.endswith("killed – – the start linux-x86_64-2cpu no end was written")
    assert again.endswith("finished 60 17 s step 20 linux-x86_64-2cpu")


def test_completion_rates_count_attempts_not_runs(project: Path) -> None:
    experiment = load(build(project))
    by_subject = {rate.subject: rate for rate in rates(experiment, Facts(experiment.findings))}
    assert (by_subject["random"].finished, by_subject["random"].attempts) == (2, 4)
    total = by_subject["all conditions"]
    assert (total.finished, total.attempts, total.bounds) == (11, 14, "[0.52, 0.92]")


def test_time_by_outcome_does_not_invent_the_time_of_a_killed_attempt(project: Path) -> None:
    assert ("killed", 1, "not known") in hours(load(build(project)))


def test_what_an_attempt_changed_stands_beside_where_it_went_on_from():
    from stages.contracts.attempt import Changed, Started
    from stages.publish.attempts import changes

    shared = {"attempt": "a2", "number": 2, "at": "t", "card_id": "c", "commit": None, "host": "h", "devices": ("cpu",), "versions": {}}
    plain = Started(**shared, sandbox="s", resumed_from=None)
    halved = Changed(after="a1", failure="out_of_memory", microbatch=4)
    back = Changed(after="a1", failure="nonfinite", microbatch=4, resume="last_finite_checkpoint")
    assert changes(plain) == ""
    assert changes(plain.model_copy(update={"changed": halved})) == "; micro-batch 4, after out of memory"
    assert changes(plain.model_copy(update={"changed": back})) == "; micro-batch 4, last finite checkpoint, after nonfinite"
    assert "changed" not in plain.model_dump(mode="json"), "entries of older ledgers keep their form"
