from pathlib import Path

from example_experiment import build

from stages.publish.experiment import load
from stages.publish.facts import Facts
from stages.publish.ledger import attempt_rows, completions, hours


def test_a_start_without_an_end_is_shown_as_killed(project: Path) -> None:
    experiment = load(build(project))
    rows = {(row.run, row.number): row for row in attempt_rows(experiment)}
    killed = rows["shaped-s2", 1]
    assert (killed.state, killed.failure, killed.last_step, killed.took) == ("killed", "no end was written", "–", "–")
    again = rows["shaped-s2", 2]
    assert (again.state, again.resumed, again.last_step) == ("finished", "step 20", "60")


def test_completion_rates_count_attempts_not_runs(project: Path) -> None:
    experiment = load(build(project))
    rates = {rate.subject: rate for rate in completions(experiment, Facts(experiment.findings))}
    assert (rates["random"].finished, rates["random"].attempts) == (2, 4)
    assert rates["all conditions"].words == "11 of 14 attempts finished"
    assert rates["all conditions"].bounds == "[0.52, 0.92]"


def test_time_by_outcome_does_not_invent_the_time_of_a_killed_attempt(project: Path) -> None:
    assert ("killed", 1, "not known") in hours(load(build(project)))


def test_what_an_attempt_changed_stands_beside_where_it_went_on_from():
    from stages.contracts.attempt import Changed, Started
    from stages.publish.ledger import changes

    shared = {"attempt": "a2", "number": 2, "at": "t", "card_id": "c", "commit": None, "host": "h", "devices": ("cpu",), "versions": {}}
    plain = Started(**shared, sandbox="s", resumed_from=None)
    halved = Changed(after="a1", failure="out_of_memory", microbatch=4)
    back = Changed(after="a1", failure="nonfinite", microbatch=4, resume="last_finite_checkpoint")
    assert changes(plain) == ""
    assert changes(plain.model_copy(update={"changed": halved})) == "; micro-batch 4, after out of memory"
    assert changes(plain.model_copy(update={"changed": back})) == "; micro-batch 4, last finite checkpoint, after nonfinite"
    assert "changed" not in plain.model_dump(mode="json"), "entries of older ledgers keep their form"
