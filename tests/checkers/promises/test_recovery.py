"""What never comes back is found, and what only takes its time, or must stay away, is not."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.history.schema import SENT
from checkers.judging.outcome import Outcome
from checkers.promises.recovery import check
from tests.checkers.conftest import ARM, MS
from tests.checkers.together import Asks, apart, judging

HEALED = 10_000
NODES = (1, 2, 3)


class Trial:
    """One trial after healing, sound unless told otherwise."""

    def __init__(self, story: Any, until: float = 40_000) -> None:
        self.story, self.until = story, until
        self.clients: list[dict[str, Any]] = []
        story.run["trials"] = [{"arm": story.arm, "trial": 0, "workloads": self.clients}]
        story.add("phase", HEALED, name="heal", event="end")
        story.add("phase", HEALED + 1, name="quiesce", event="begin")
        story.add("phase", until, name="settle", event="end")
        for node in NODES:
            self.node(node)
        for partition in (0, 1):
            self.partition(partition)

    def state(self, what: str, lasting_ms: float = 0, **fields: Any) -> None:
        fields = {"topic": None, "partition": None, **fields}
        rows = self.story.rows.get("final_state", [])
        same = ("what", "node", "topic", "partition")
        new = {"what": what, **fields}
        rows[:] = [r for r in rows if any(r.get(name) != new.get(name) for name in same)]
        self.story.add("final_state", self.until, lasting_ns=int(lasting_ms * 1e6), **new)

    def node(self, node: int, lasting_ms: float = 0, **fields: Any) -> None:
        good = {"running": True, "registered": True, "answers": True}
        self.state("node", lasting_ms, node=node, **{**good, **fields})

    def partition(self, partition: int, lasting_ms: float = 0, **fields: Any) -> None:
        good = {"leader": 1, "leader_epoch": 3, "isr": [*NODES], "replicas": [*NODES]}
        at = {"topic": "t", "partition": partition}
        self.state("partition", lasting_ms, **{**at, **good, **fields})

    def ends(self, node: int, earlier: int, now: int, partition: int = 0) -> None:
        at = {"topic": "t", "partition": partition}
        self.state("replica", node=node, log_end_offset=now, earlier_end_offset=earlier, **at)

    def fault(self, *phases: str, nodes: tuple[int, ...] = (2,)) -> None:
        for number, phase in enumerate(phases):
            self.story.add("fault", 5000 + number, fault="kill", id="kill-0", phase=phase,
                           nodes=list(nodes))  # fmt: skip

    def producer(self, acks: int = -1, partitions: int = 2, process: str = "p") -> None:
        topics = {"t": list(range(partitions))}
        self.clients.append(
            {"process": process, "role": "producer", "acks": acks, "topics": topics}
        )

    def produce(self, partition: int, kind: str, *, from_t: float = 11_000, n: int = 30,
                to_t: float | None = None, **more: Any) -> None:  # fmt: skip
        step = ((self.until if to_t is None else to_t) - from_t) / n
        acks = more.pop("acks", -1)
        if kind == "info" and not {"error", "node", "failure"} & more.keys():
            more["failure"] = f"_MSG_TIMED_OUT{SENT}"
        for i in range(n):
            t = from_t + i * step
            offset = i if kind == "ok" else None
            self.story.add("produce", t + 1, partition=partition, type=kind, value=i, acks=acks,
                           offset=offset, invoke_t=t, **more)  # fmt: skip


def told(outcome: Outcome) -> tuple[str, dict[str, int], str]:
    verdict, reasons = outcome.verdict([(ARM, 0)])
    return str(verdict), outcome.counts, " | ".join(reasons)


@judging(check, trial=Trial)
def test_all_came_back(trial: Trial) -> Asks:
    trial.producer()
    trial.fault("inject", "injected", "heal", "healed")
    for partition in (0, 1):
        trial.produce(partition, "ok")
    assert told((yield trial.story)) == ("valid", {}, "")


@judging(check)
def test_a_trial_that_did_not_come_to_healing(story: Any) -> Asks:
    story.produce(10, 1, 0)
    verdict, reasons = (yield story).verdict([(story.arm, 0)])
    assert verdict == "unknown"
    assert "did not come to the phases" in reasons[0]


@pytest.mark.parametrize(("component", "verdict"), [("toxiproxy", "unknown"), (None, "invalid")])
@judging(check, trial=Trial)
def test_what_the_harness_took_down_nobody_is_blamed_for(
    trial: Trial, component: str | None, verdict: str
) -> Asks:
    trial.node(2, lasting_ms=20_000, registered=False)
    if component is not None:
        trial.story.add("infra", 9_000, component=component, reason="exited with -9")
    assert told((yield trial.story))[0] == verdict


@judging(check, trial=Trial)
def test_nobody_read_the_state(trial: Trial) -> Asks:
    trial.story.rows["final_state"].clear()
    verdict, _, reasons = told((yield trial.story))
    assert (verdict, "was not read" in reasons) == ("unknown", True)


# ---- replicas and leaders -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replica", "leader", "lasting_ms", "verdict"),
    [
        ((500, 900), (500, 900), 20_000, "invalid"),  # abreast of its leader, and kept out
        ((100, 100), (500, 900), 20_000, "invalid"),  # it does not move
        ((900, 900), (900, 900), 20_000, "invalid"),  # nothing to fetch, and kept out
        ((100, 400), (500, 900), 20_000, "unknown"),  # it catches up
        ((100, 600), (500, 900), 20_000, "unknown"),  # it goes on, half the time behind
        ((100, 850), (500, 900), 20_000, "unknown"),  # it catches up, and is nearly there
        ((100, 885), (500, 900), 20_000, "invalid"),  # it has caught up
        ((450, 820), (500, 900), 20_000, "invalid"),  # it does not, and is near all the while
        ((500, 900), (500, 900), 5_000, "unknown"),  # not for long enough
        (None, (500, 900), 20_000, "unknown"),  # it did not say where it is
    ],
)
@judging(check, trial=Trial)
def test_a_replica_that_is_not_in_sync(
    trial: Trial, replica: Any, leader: Any, lasting_ms: float, verdict: str
) -> Asks:
    trial.partition(0, lasting_ms, isr=[1, 3])
    if replica is not None:
        trial.ends(2, *replica)
    trial.ends(1, *leader)
    found = told((yield trial.story))
    assert found[0] == verdict
    assert found[1] == ({"never-in-sync": 1} if verdict == "invalid" else {})
    assert "t-0: replica 2" in found[2]


@pytest.mark.parametrize(
    ("state", "lasting_ms", "verdict"),
    [
        ({"leader": 2, "gives_back": True}, 9_000, "invalid"),
        ({"leader": 2, "gives_back": True}, 3_000, "unknown"),
        ({"leader": 1, "gives_back": True}, 9_000, "valid"),
        ({"leader": 2, "gives_back": False}, 9_000, "valid"),
    ],
)
@judging(check, trial=Trial)
def test_a_preferred_leader_that_does_not_lead(
    trial: Trial, state: Any, lasting_ms: float, verdict: str
) -> Asks:
    trial.partition(0, lasting_ms, **state)
    found = told((yield trial.story))
    assert found[:2] == (verdict, {"never-given-back": 1} if verdict == "invalid" else {})


@pytest.mark.parametrize(
    ("told_so", "gives_back", "verdict"),
    [("true", None, "unknown"), ("true", False, "valid"), ("false", None, "valid")],
)
@judging(check, trial=Trial)
def test_whether_leaderships_are_given_back_is_told(
    trial: Trial, told_so: str, gives_back: bool | None, verdict: str
) -> Asks:
    overrides = {"auto.leader.rebalance.enable": told_so}
    trial.story.run["expectations"] = {"overrides": overrides}
    for partition in (0, 1):
        trial.partition(partition, gives_back=gives_back)
    found = told((yield trial.story))
    assert found[0] == verdict
    assert ("t-0 was to be given back" in found[2]) is (verdict == "unknown")


@judging(check, trial=Trial)
def test_a_replica_on_a_broker_that_was_left_down(trial: Trial) -> Asks:
    """All of its own partition, and one of the three of another: too much only when it is most."""
    trial.node(2, running=False, registered=False, answers=False)
    trial.story.add("node_event", 3_000, node=2, event="kill")
    trial.partition(0, 30_000, isr=[1, 3])
    for partition in range(2, 8):
        trial.partition(partition, isr=[1, 3], replicas=[1, 3])
    outcome = yield trial.story
    assert not outcome.counts
    assert {e.excuse for e in outcome.excuses()} == {"left-down"}
    assert {e.rule for e in outcome.excuses()} == {"never-back", "never-in-sync"}


@judging(check, trial=Trial)
def test_a_broker_that_does_not_run_and_was_not_taken_down(trial: Trial) -> Asks:
    trial.node(2, running=False, registered=False, answers=False)
    trial.partition(0, 30_000, isr=[1, 3])
    for event in ("kill", "start"):
        trial.story.add("node_event", 3_000, node=2, event=event)
    verdict, counts, why = told((yield trial.story))
    assert (verdict, counts) == ("unknown", {})
    assert "node 2 does not run, and nobody had taken it down" in why


@pytest.mark.parametrize("what", ["node", "partition", "nothing", "a fact of a node"])
@judging(check, trial=Trial)
def test_what_nobody_looked_at_in_the_end(trial: Trial, what: str) -> Asks:
    for node in (1, 2, 3):
        trial.story.add("node_event", 100, node=node, event="start")
    for partition in (0, 1):
        trial.story.commit(100, 1, 0, partition=partition)
    rows = trial.story.rows["final_state"]
    if what == "a fact of a node":
        next(row for row in rows if row["what"] == "node")["answers"] = None
    elif what != "nothing":
        rows.remove(next(row for row in rows if row["what"] == what))
    verdict, counts, why = told((yield trial.story))
    assert (verdict, counts) == ("valid" if what == "nothing" else "unknown", {})
    assert ("in the end was not read" in why) == (what in ("node", "partition"))


@judging(check, trial=Trial)
def test_a_partition_without_leader(trial: Trial) -> Asks:
    trial.partition(0, 20_000, leader=-1)
    assert told((yield trial.story))[1] == {"never-led": 1}


@judging(check, trial=Trial)
def test_a_partition_whose_only_replica_was_left_down(trial: Trial) -> Asks:
    trial.node(2, running=False, registered=False, answers=False)
    trial.story.add("node_event", 3_000, node=2, event="kill")
    trial.partition(0, 20_000, leader=-1, isr=[2], replicas=[2])
    trial.producer(partitions=1)
    trial.produce(0, "info")
    assert not told((yield trial.story))[1]


@pytest.mark.parametrize("nodes", [(2,), ()])
@judging(check, trial=Trial)
def test_a_fault_that_was_not_healed_makes_it_unknown(trial: Trial, nodes: tuple[int, ...]) -> Asks:
    trial.fault("inject", "injected", "heal", "failed", nodes=nodes)
    trial.partition(0, 30_000, isr=[1, 3])
    trial.ends(2, 900, 900)
    trial.ends(1, 900, 900)
    verdict, counts, reasons = told((yield trial.story))
    assert (verdict, counts) == ("unknown", {})
    assert "kill-0 was not healed" in reasons


@judging(check, trial=Trial)
def test_a_fault_that_was_not_healed_elsewhere_excuses_nobody_here(trial: Trial) -> Asks:
    trial.fault("inject", "injected", nodes=(3,))
    trial.partition(0, 30_000, isr=[1], replicas=[1, 2])
    trial.ends(2, 900, 900)
    trial.ends(1, 900, 900)
    assert told((yield trial.story))[1] == {"never-in-sync": 1}


# ---- brokers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "lasting_ms", "verdict"),
    [
        ({"answers": False}, 20_000, "invalid"),
        ({"registered": False}, 20_000, "invalid"),
        ({"answers": False}, 3_000, "unknown"),
    ],
)
@judging(check, trial=Trial)
def test_a_broker_that_does_not_come_back(
    trial: Trial, fields: dict[str, bool], lasting_ms: float, verdict: str
) -> Asks:
    trial.node(2, lasting_ms, **fields)
    found = told((yield trial.story))
    assert found[0] == verdict
    assert found[1] == ({"never-back": 1} if verdict == "invalid" else {})
    assert "node 2" in found[2]


@pytest.mark.parametrize(
    ("stood_s", "lasting_s", "verdict"),
    [
        ((0.6, 0.6), 20.1, "invalid"),
        ((0.6, 0.6), 19.9, "unknown"),
        ((0.6,), 14.1, "invalid"),
        ((3.0,), 30.0, "unknown"),
    ],
)
@judging(check, trial=Trial)
def test_on_a_machine_that_stood_still_it_is_waited_for_longer(
    trial: Trial, stood_s: tuple[float, ...], lasting_s: float, verdict: str
) -> Asks:
    for n, seconds in enumerate(stood_s):
        trial.story.add("standstill", 9000 + n, process="pulse", lasting_ns=int(seconds * 1e9))
    trial.node(2, lasting_s * 1000, answers=False)
    found = told((yield trial.story))
    assert found[0] == verdict
    assert ("stood still" in found[2]) is (verdict == "unknown")


@pytest.mark.parametrize(
    ("slowness", "lasting_s", "verdict"),
    [(6, 8.1, "invalid"), (12, 15.9, "unknown"), (12, 16.1, "invalid"), (90, 32.1, "invalid")],
)
@judging(check, trial=Trial)
def test_on_a_busy_machine_it_is_waited_for_longer(
    trial: Trial, slowness: int, lasting_s: float, verdict: str
) -> Asks:
    trial.story.strain(HEALED, slowness)
    trial.node(2, lasting_s * 1000, answers=False)
    found = told((yield trial.story))
    assert found[0] == verdict
    assert ("times as long" in found[2]) is (verdict == "unknown")


@pytest.mark.parametrize(("stood_s", "verdict"), [(0.9, "invalid"), (3.0, "unknown")])
@judging(check, trial=Trial)
def test_nor_are_those_blamed_that_clients_wait_for(
    trial: Trial, stood_s: float, verdict: str
) -> Asks:
    """30 s are looked at."""
    trial.story.add("standstill", 9000, process="pulse", lasting_ns=int(stood_s * 1e9))
    trial.producer()
    trial.produce(0, "ok")
    trial.produce(1, "info", n=40)
    verdict_told, counts, reasons = told((yield trial.story))
    assert verdict_told == verdict
    assert counts == ({"never-accepted": 1} if verdict == "invalid" else {})
    assert ("stood still" in reasons) is (verdict == "unknown")


@judging(check, trial=Trial)
def test_a_broker_that_ended_by_itself_is_another_matter(trial: Trial) -> Asks:
    trial.story.add("node_event", 9000, node=2, event="exited", detail="{}", process="harness")
    trial.node(2, 20_000, running=False, registered=False, answers=False)
    verdict, counts, reasons = told((yield trial.story))
    assert (verdict, counts) == ("unknown", {})
    assert "ended by itself" in reasons


def reads(trial: Trial, node: int, n: int, kind: str = "ok", **more: Any) -> None:
    for i in range(n):
        trial.story.add("metadata", 12_000 + i * 100, process="reader", node=node, read=i,
                        type=kind, leader_epoch=3, **more)  # fmt: skip


@pytest.mark.parametrize(
    ("until", "elsewhere", "kind", "error", "verdict"),
    [
        (40_000, 50, "info", None, "invalid"),
        (40_000, 3, "info", None, "unknown"),  # the reader itself hardly asked
        (15_000, 50, "info", None, "unknown"),  # not for long enough
        (40_000, 50, "fail", 5, "valid"),  # an error is an answer
    ],
)
@judging(check)
def test_a_broker_that_never_answers_a_reader(
    story: Any, until: float, elsewhere: int, kind: str, error: Any, verdict: str
) -> Asks:
    trial = Trial(story, until)
    trial.clients.append(
        {"process": "reader", "role": "metadata-reader", "topics": {"t": []}, "nodes": [1, 2]}
    )
    reads(trial, 1, elsewhere)
    reads(trial, 2, 2, kind, error=error)
    assert told((yield trial.story))[0] == verdict


@judging(check, trial=Trial)
def test_a_broker_that_the_reader_cannot_even_dial(trial: Trial) -> Asks:
    trial.clients.append({"process": "reader", "role": "metadata-reader", "nodes": [1, 2]})
    reads(trial, 1, 50)
    assert told((yield trial.story))[1] == {"never-answered": 1}


@judging(check, trial=Trial)
def test_a_prober_has_nobody_else_to_ask(trial: Trial) -> Asks:
    trial.clients.append({"process": "prober", "role": "prober", "nodes": [2]})
    for i in range(20):
        trial.story.add("probe", 12_000 + i * 100, process="prober", node=2, type="fail",
                        planned_t=11_000, failure="no free connection")  # fmt: skip
    assert told((yield apart(trial.story)))[1] == {"never-answered": 1}


# ---- producers and consumers ---------------------------------------------------------------------


@pytest.mark.parametrize(("level", "acks"), [("all", -1), ("1", 1)])
@judging(check, trial=Trial)
def test_one_level_of_acks_that_is_never_accepted_on_one_partition(
    trial: Trial, level: str, acks: int
) -> Asks:
    other = -1 if acks == 1 else 1
    trial.producer(acks)
    trial.producer(other, process="other")
    for partition in (0, 1):
        trial.produce(partition, "ok", acks=other, process="other")
    trial.produce(0, "ok", acks=acks)
    trial.produce(1, "fail", acks=acks, error=19)
    verdict, counts, reasons = told((yield apart(trial.story)))
    assert (verdict, counts) == ("invalid", {"never-accepted": 1})
    assert f"p: t-1 took none of 30 records (acks={level})" in reasons


@pytest.mark.parametrize(
    "tries",
    [
        {"n": 5},  # starved
        {"to_t": 17_000},  # it stopped trying
        {"n": 30, "from_t": 2_000, "to_t": 12_000},  # mostly before
        {"n": 0 + 1},
    ],
)
@judging(check, trial=Trial)
def test_too_little_was_tried(trial: Trial, tries: dict[str, Any]) -> Asks:
    trial.producer(partitions=1)
    trial.produce(0, "info", **tries)
    verdict, counts, reasons = told((yield trial.story))
    assert (verdict, counts) == ("unknown", {})
    assert "too little to tell" in reasons


@judging(check, trial=Trial)
def test_nothing_was_tried(trial: Trial) -> Asks:
    trial.producer(partitions=1)
    assert told((yield trial.story))[0] == "unknown"


@judging(check, trial=Trial)
def test_one_success_after_long_is_recovery(trial: Trial) -> Asks:
    trial.producer(partitions=1)
    trial.produce(0, "info", to_t=35_000)
    trial.produce(0, "ok", from_t=36_000, n=1)
    assert told((yield trial.story))[0] == "valid"


@pytest.mark.parametrize(
    ("again_t", "tries", "stops"),
    [(None, 30, True), (39_000, 30, False), (20_000, 30, True), (None, 12, False)],
)
@judging(check, trial=Trial)
def test_a_partition_that_takes_records_no_more(
    trial: Trial, again_t: float | None, tries: int, stops: bool
) -> Asks:
    trial.producer(partitions=1)
    trial.produce(0, "ok", from_t=11_000, to_t=14_000)
    trial.produce(0, "info", from_t=25_000, to_t=39_900, n=tries)
    if again_t is not None:
        trial.produce(0, "ok", from_t=again_t, n=1)
    _, counts, reasons = told((yield trial.story))
    assert counts == ({"never-accepted": 1} if stops else {})
    assert ("took none of the last" in reasons) == stops


@judging(check, trial=Trial)
def test_a_success_before_healing_is_none(trial: Trial) -> Asks:
    trial.producer(partitions=1)
    trial.produce(0, "ok", from_t=2_000, to_t=9_000)
    trial.produce(0, "info")
    assert told((yield trial.story))[1] == {"never-accepted": 1}


ASKED: dict[str, tuple[list[dict[str, Any]], bool]] = {
    "it says so": ([{"failure": f"_MSG_TIMED_OUT{SENT}"}], True),
    "it named the broker": ([{"node": 1, "failure": "timeout"}], True),
    "a broker answered": ([{"error": 6}], True),
    "it keeps them back": ([{"failure": "_MSG_TIMED_OUT"}], False),
    "it knows no such topic": ([{"failure": "_UNKNOWN_TOPIC"}], False),
    "as it ends": ([{"failure": "no completion was recorded"}], False),
    "it got stuck": (
        [{"failure": f"_MSG_TIMED_OUT{SENT}", "to_t": 14_000}, {"failure": "_MSG_TIMED_OUT"}],
        False,
    ),
    "it did so late": (
        [{"failure": "_MSG_TIMED_OUT"}, {"error": 7, "from_t": 39_000, "n": 20}],
        True,
    ),
    "it hardly did": (
        [{"failure": "_MSG_TIMED_OUT"}, {"error": 7, "from_t": 39_000, "n": 9}],
        False,
    ),
}


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("name", ASKED)
@judging(check, trial=Trial)
def test_a_broker_that_nobody_asked_is_not_to_blame(trial: Trial, name: str, before: bool) -> Asks:
    """``before``: it took records after healing, and then none any more."""
    steps, asked = ASKED[name]
    trial.producer(partitions=1)
    if before:
        trial.produce(0, "ok", from_t=10_100, n=5, to_t=10_900)
    for step in steps:
        trial.produce(0, "info", **{"n": 40, **step})
    verdict, counts, reasons = told((yield trial.story))
    assert counts == ({"never-accepted": 1} if asked else {})
    assert verdict == ("invalid" if asked else "unknown")
    assert ("nobody tells that a broker was asked" in reasons) is not asked


@judging(check, trial=Trial)
def test_acks_all_waits_for_an_in_sync_set_that_fills(trial: Trial) -> Asks:
    """The set is judged by itself: here it is slow."""
    trial.producer(partitions=1)
    trial.produce(0, "fail", error=19)
    trial.partition(0, 20_000, isr=[1, 3])
    trial.ends(2, 100, 400)
    trial.ends(1, 500, 900)
    assert told((yield trial.story))[:2] == ("unknown", {})


@judging(check, trial=Trial)
def test_nobody_answers_acks_0(trial: Trial) -> Asks:
    trial.producer(0, partitions=1)
    trial.produce(0, "info", acks=0)
    assert told((yield trial.story))[0] == "valid"


def consumer(trial: Trial, polls: int = 100, until: float = 39_000, *, asks: bool = True) -> None:
    if asks:
        ask(trial, 11_000, until)
    trial.clients.append({"process": "c", "role": "consumer", "topics": {"t": [0, 1]}})
    for i in range(polls):
        t = 11_000 + i * (until - 11_000) / max(1, polls - 1)
        trial.story.add("fetch", t + 1, process="c", poll=i, topic=None, partition=None, invoke_t=t)


def ask(trial: Trial, from_t: float, to_t: float, process: str = "c") -> None:
    """It asks a broker for both partitions all the while, twice a second."""
    for t in range(int(from_t), int(to_t), 500):
        for partition in (0, 1):
            at = {"process": process, "node": 1, "partition": partition}
            trial.story.add("waiting", t + 500, from_t=t * MS, **at)


def delivered(trial: Trial, partition: int, t: float) -> None:
    trial.story.add("fetch", t, process="c", poll=999, partition=partition, offset=5, value=5)


@judging(check, trial=Trial)
def test_a_partition_that_gives_a_consumer_nothing_new(trial: Trial) -> Asks:
    trial.producer()
    consumer(trial)
    for partition in (0, 1):
        trial.produce(partition, "ok")
        delivered(trial, partition, 8_000)
    delivered(trial, 0, 20_000)
    verdict, counts, reasons = told((yield apart(trial.story)))
    assert (verdict, counts) == ("invalid", {"never-delivered": 1})
    assert "c: t-1 gave none of 30 new records" in reasons


@judging(check, trial=Trial)
def test_an_error_of_a_partition_is_no_record_of_it(trial: Trial) -> Asks:
    trial.producer(partitions=1)
    consumer(trial)
    trial.produce(0, "ok")
    for i in range(5):
        trial.story.add("fetch", 20_000 + i, process="c", poll=i, type="fail", error=6)
    assert told((yield trial.story))[1] == {"never-delivered": 1}


WAITED: dict[str, tuple[list[tuple[float, float, str]], bool]] = {
    "all the while": ([(11_000, 39_000, "c")], True),
    "for half of it": ([(24_500, 39_000, "c")], True),
    "for less": ([(26_000, 39_000, "c")], False),
    "never": ([], False),
    "before anything was new": ([(5_000, 11_000, "c")], False),
    "another did": ([(11_000, 39_000, "d")], False),
}


@pytest.mark.parametrize("name", WAITED)
@judging(check, trial=Trial)
def test_a_broker_that_no_consumer_asked_is_not_to_blame(trial: Trial, name: str) -> Asks:
    spans, asked = WAITED[name]
    trial.producer(partitions=1)
    consumer(trial, asks=False)
    for span in spans:
        ask(trial, *span)
    trial.produce(0, "ok")
    verdict, counts, reasons = told((yield trial.story))
    assert counts == ({"never-delivered": 1} if asked else {})
    assert verdict == ("invalid" if asked else "unknown")
    assert ("nobody tells that a broker was asked" in reasons) is not asked


@judging(check, trial=Trial)
def test_what_was_given_before_it_was_acknowledged(trial: Trial) -> Asks:
    """A record that healing came in between of: the consumer had it already."""
    trial.producer(partitions=1)
    consumer(trial)
    delivered(trial, 0, HEALED - 50)
    trial.story.produce(HEALED + 50, 5, 5, acks=-1, invoke_t=HEALED - 100)
    assert told((yield trial.story))[0] == "valid"


@pytest.mark.parametrize(
    ("polls", "until", "produced_from"),
    [(5, 39_000, 11_000), (100, 17_000, 11_000), (100, 39_000, 38_000)],
)
@judging(check, trial=Trial)
def test_the_consumer_hardly_looked(
    trial: Trial, polls: int, until: float, produced_from: float
) -> Asks:
    trial.producer(partitions=1)
    consumer(trial, polls, until)
    trial.produce(0, "ok", from_t=produced_from)
    assert told((yield trial.story))[:2] == ("unknown", {})


@judging(check, trial=Trial)
def test_there_was_nothing_new_to_give(trial: Trial) -> Asks:
    trial.producer(partitions=1)
    consumer(trial)
    trial.produce(0, "ok")
    delivered(trial, 0, 20_000)
    assert told((yield trial.story))[0] == "valid"


# ---- administration ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "fields", "rule"),
    [
        ("deletion", {"topic": "d"}, "never-ended"),
        ("reassignment", {"topic": "t"}, "never-ended"),
        ("leftover", {"topic": "d", "partition": 0, "node": 3}, "left-behind"),
        ("settings", {"topic": "d"}, "left-behind"),
    ],
)
@pytest.mark.parametrize("lasting_ms", [2_000, 20_000])
@judging(check, trial=Trial)
def test_what_never_ends(
    trial: Trial, what: str, fields: dict[str, Any], rule: str, lasting_ms: float
) -> Asks:
    trial.state(what, lasting_ms, **fields)
    verdict, counts, _ = told((yield trial.story))
    if lasting_ms > 10_000:
        assert (verdict, counts) == ("invalid", {rule: 1})
    else:
        assert (verdict, counts) == ("unknown", {})


@pytest.mark.parametrize("was_away", [False, True])
@judging(check, trial=Trial)
def test_a_log_on_a_broker_that_its_partition_was_moved_off(trial: Trial, was_away: bool) -> Asks:
    trial.partition(0, isr=[1, 2], replicas=[1, 2])
    trial.state("leftover", 20_000, topic="t", partition=0, node=3)
    if was_away:
        trial.story.add("node_event", 4000, node=3, event="kill")
    verdict, counts, _ = told((yield trial.story))
    expected = ("valid", {}) if was_away else ("invalid", {"left-behind": 1})
    assert (verdict, counts) == expected


@judging(check, trial=Trial)
def test_a_deletion_that_waits_for_a_broker_that_was_not_brought_back(trial: Trial) -> Asks:
    trial.fault("inject", "injected", "heal", "failed")
    trial.state("deletion", 20_000, topic="d")
    assert told((yield trial.story))[:2] == ("unknown", {})


@judging(check, trial=Trial)
def test_a_state_that_could_not_be_read(trial: Trial) -> Asks:
    trial.state("unread", failure="ZooKeeper did not answer")
    verdict, _, reasons = told((yield trial.story))
    assert (verdict, "ZooKeeper did not answer" in reasons) == ("unknown", True)


@judging(check, trial=Trial)
def test_every_arm_and_trial_is_judged_for_itself(trial: Trial) -> Asks:
    trial.story.run["trials"].append({"arm": trial.story.arm, "trial": 1, "workloads": []})
    verdict, _, reasons = told((yield trial.story))
    assert (verdict, "trial 1" in reasons) == ("unknown", True)
