"""A pool's batch on several zygotes at once: the same results in the same order, whatever happens to one of them."""

import os
import signal
import threading

import pytest

from stages.train.verifiers import cores
from stages.train.verifiers.faults import VerifierFault
from stages.train.verifiers.python_pool import Job, Pool

MEMORY = 256 * 2**20


def job(number, code="x * x"):
    return Job(f"{code} + {number}", "expression", ("x",), "[[3]]", 5.0, MEMORY)


def values(found):
    return [one.values[0].value if one.outcome == "values" else one.outcome for one in found]


@pytest.fixture
def three(tier):
    pool = Pool(tier, lanes=3)
    yield pool
    pool.close()


def pids(pool):
    return [zygote.pid for zygote in pool.zygotes]


def test_results_are_in_order_and_do_not_depend_on_the_number_of_lanes(three, tier):
    codes = ["x * x", "x / 0", "(", "[x]", "x * x"]
    jobs = [job(number % 25, codes[number % 5]) for number in range(60)]
    one = Pool(tier, lanes=1)
    alone, together = one.run(jobs), three.run(jobs)
    one.close()
    strip = [(ran.outcome, ran.values, ran.reason) for ran in together]
    assert strip == [(ran.outcome, ran.values, ran.reason) for ran in alone]
    assert [together[place].values[0].value for place in (0, 4, 5)] == [9, 13, 14]
    assert together[2].outcome == "stopped" and together[0] == together[25]


def test_lanes_start_when_they_pay_and_stay(three):
    assert values(three.run([job(number) for number in range(8)])) == list(range(9, 17))
    assert len(three.zygotes) == 1, "eight short jobs are not worth a second zygote"
    three.run([job(number) for number in range(100, 124)])
    first = pids(three)
    assert len(set(first)) == 3
    assert values(three.run([job(number) for number in range(200, 224)])) == list(range(209, 233))
    assert pids(three) == first, "a zygote does not end with the thread that worked with it"
    assert not [thread for thread in threading.enumerate() if "_work" in thread.name]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give each lane a uid of its own")
def test_each_lane_has_a_uid_of_its_own():
    pool = Pool("seccomp", lanes=3)
    pool.run([job(number) for number in range(24)])
    assert [zygote.ready["uid"] for zygote in pool.zygotes] == [60720, 60721, 60722]
    pool.close()


def test_killed_zygotes_cost_no_result(three):
    three.run([job(number) for number in range(24)])
    for victim in (1, 2, 0):
        os.kill(pids(three)[victim], signal.SIGKILL)
        start = 100 * (victim + 1)
        assert values(three.run([job(number) for number in range(start, start + 24)])) == list(range(start + 9, start + 33))


class Lame(Pool):
    """Some of its lanes never start, and some jobs break it."""

    lame = frozenset({1})

    def start(self, tier, lane):
        if lane in self.lame:
            raise VerifierFault(f"lane {lane} is lame")
        return super().start(tier, lane)

    def ask(self, zygote, one):
        if "+ 7" in one.code:
            raise ZeroDivisionError("a mistake of ours")
        return super().ask(zygote, one)


def test_a_lane_that_does_not_start_leaves_its_jobs_to_the_others(tier):
    pool = Lame(tier, lanes=3)
    found = pool.run([job(number) for number in range(10, 40)])
    assert values(found) == list(range(19, 49))
    assert len(pool.zygotes) == 2
    pool.close()


class Dying(Pool):
    """Its first zygote dies with the first job, and answers once more while it does."""

    died = False

    def ask(self, zygote, one):
        found = super().ask(zygote, one)
        if self.died or not one.code.startswith("x"):  # a canary
            return found
        self.died = True
        os.kill(zygote.pid, signal.SIGKILL)
        return self.unknown("killed from outside")


def test_a_zygote_that_answers_while_it_dies_costs_no_result(tier):
    pool = Dying(tier, lanes=1)
    assert values(pool.run([job(1)])) == [10]
    pool.close()


def test_when_none_starts_all_is_unknown(tier):
    pool = Lame(tier, lanes=2)
    pool.lame = frozenset({0, 1})
    found = pool.run([job(number) for number in range(20)])
    assert {(one.outcome, one.reason[-7:]) for one in found} == {("unknown", "is lame")}
    pool.close()


def test_a_mistake_of_ours_is_unknown_for_its_job_only(tier):
    pool = Lame(tier, lanes=2)
    found = pool.run([job(number) for number in (6, 7, 8)])
    assert values(found) == [15, "unknown", 17]
    assert found[1].reason == "a mistake of ours"
    pool.close()


def test_an_interrupt_stops_all_lanes(three):
    def interrupt(number, frame):
        raise KeyboardInterrupt

    three.run([job(number) for number in range(24)])
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            three.run([Job(f"while True: pass\n# {number}", "function", ("f",), "[]", 5.0, MEMORY) for number in range(24)])
    finally:
        signal.signal(signal.SIGALRM, before)
    assert values(three.run([job(number) for number in range(100, 124)])) == list(range(109, 133))


def test_how_many_lanes_there_are(tmp_path, monkeypatch):
    have = len(os.sched_getaffinity(0))
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setattr(cores, "CGROUP", tmp_path)
    assert cores.cores() == have
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert cores.cores() == 1, "half a core is one"
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert cores.cores() == have
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("-1\n")
    (tmp_path / "cpu/cpu.cfs_period_us").write_text("100000\n")
    assert cores.cores() == have
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("100000\n")
    assert cores.cores() == 1
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("-1\n")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(have))
    assert cores.cores() == 1, "one trainer a core"
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1000")
    assert cores.cores() == 1


def test_how_much_memory_there_is(tmp_path, monkeypatch):
    monkeypatch.setattr(cores, "CGROUP", tmp_path)
    machine = cores.memory()
    assert machine == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    (tmp_path / "memory.max").write_text("max\n")
    assert cores.memory() == machine
    (tmp_path / "memory.max").write_text("1000000\n")
    assert cores.memory() == 1000000


def test_memory_bounds_the_lanes(three, tmp_path, monkeypatch):
    monkeypatch.setattr(cores, "CGROUP", tmp_path)
    (tmp_path / "memory.max").write_text(str(2 * MEMORY + 1))
    three.run([job(number) for number in range(24)])
    assert len(three.zygotes) == 2
