"""Records, both ways: how often a record may be in the log depends on how it was sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from checkers.judging.verdict import Verdict
from checkers.promises.records import ORDERED, check
from tests.checkers.together import Asks, judging


def sends(story: Any, delivery: str | None, process: str = "p") -> None:
    workload = {"process": process, "role": "producer", "delivery": delivery}
    story.run["trials"] = [{"arm": story.arm, "trial": story.trial, "workloads": [workload]}]


@judging(check)
def test_a_sound_history(story: Any) -> Asks:
    sends(story, "idempotent")
    for value in range(10):
        story.produce(5 + value, value, value, acks=-1)
    story.final_log({v: v for v in range(10)})
    found = yield story
    assert found.verdict([(story.arm, 0)]) == (Verdict.VALID, [])
    assert found.evidence[story.arm, 0, ORDERED] == 10


@pytest.mark.parametrize(
    ("delivery", "took_ms", "rule"),
    [
        ("once", 5, "duplicate-append"),
        ("once", 300, "duplicate-append"),
        ("idempotent", 300, "idempotent-duplicate"),
        (None, 5, "duplicate-append"),  # answered before anybody sends again
        (None, 300, None),  # a retry: lawful without idempotence
    ],
)
@judging(check)
def test_twice_in_the_log(story: Any, delivery: str | None, took_ms: int, rule: str | None) -> Asks:
    sends(story, delivery)
    story.produce(500, 7, 0, invoke_t=500 - took_ms)
    story.final_log({0: 7, 1: 7})
    found = yield story
    assert found.counts == ({rule: 1} if rule else {})
    assert found.arms[story.arm]["duplicates"] == 1


@pytest.mark.parametrize(
    ("delivery", "took_ms", "epochs", "rule"),
    [
        ("once-a-leader", 300, (1, 2), None),  # the first leader said that it was none any more
        ("once-a-leader", 300, (1, 1), "duplicate-append"),
        ("once-a-leader", 5, (1, 2), "duplicate-append"),  # too soon for a second try
        ("once-a-leader", 300, (1, 1, 2), "duplicate-append"),
        ("once", 300, (1, 2), "duplicate-append"),
        ("idempotent", 300, (1, 2), "idempotent-duplicate"),
    ],
)
@judging(check)
def test_once_with_each_leader(
    story: Any, delivery: str, took_ms: int, epochs: tuple[int, ...], rule: str | None
) -> Asks:
    """What librdkafka does without retries, when a demoted leader refuses what it has appended."""
    sends(story, delivery)
    story.produce(500, 7, len(epochs) - 1, acks=-1, invoke_t=500 - took_ms)
    for offset, leader_epoch in enumerate(epochs):
        story.add("log_read", 90_000, node=1, offset=offset, value=7, leader_epoch=leader_epoch)
    story.final_log({})
    found = yield story
    assert found.counts == ({rule: 1} if rule else {})
    assert found.arms[story.arm]["duplicates"] == 1


@pytest.mark.parametrize(
    ("began_ms", "named_ms", "who", "broken"),
    [
        (100, 300, 2, 0),  # broker 2 began, and knew of nobody while the record was under way
        (100, None, 2, 1),  # nobody has an answer of it since: nothing is known
        (None, 300, 2, 0),  # it ran on, and named fewer than before
        (100, 190, 2, 1),  # it named the leader before the record was sent
        (520, 600, 2, 1),  # it began after the record was answered
        (100, 300, 1, 1),  # who led said so: a leader excuses nobody
        (None, None, 2, 1),  # it named the leader all the while
    ],
)
@pytest.mark.parametrize("failed", [False, True])
@judging(check)
def test_sent_again_since_another_broker_named_no_such_leader(
    story: Any, began_ms: int | None, named_ms: int | None, who: int, broken: int, failed: bool
) -> Asks:
    """librdkafka gives up the connection to who is not named, and sends again, unasked."""
    sends(story, "once-a-leader")
    story.commit(10, 1, 1)
    story.read(20, who, 1, brokers=[1, 2])
    if began_ms is not None:
        story.add("node_event", began_ms, node=who, event="start")
    elif named_ms is not None:
        story.read(210, who, 1, brokers=[2])
    if named_ms is not None:
        story.read(named_ms, who, 1, brokers=[1, 2])
    if failed:
        story.produce(500, 7, None, acks=-1, type="fail", error=19, invoke_t=200)
    else:
        story.produce(500, 7, 1, acks=-1, invoke_t=200)
    for offset in (0,) if failed else (0, 1):
        story.add("log_read", 90_000, node=1, offset=offset, value=7, leader_epoch=1)
    story.final_log({}, node=1)
    found = yield story
    rule = "failed-write-visible" if failed else "duplicate-append"
    assert found.counts == ({rule: 1} if broken else {})
    assert sum(found.excused.values()) == 1 - broken


@pytest.mark.parametrize(("lives", "broken"), [((0, 1), 0), ((0, 0), 1), ((0, 0, 1), 1)])
@judging(check)
def test_an_idempotent_producer_that_begins_a_new_epoch(
    story: Any, lives: tuple[int, ...], broken: int
) -> Asks:
    """It may send again what is there in its old one: no broker can know."""
    sends(story, "idempotent")
    for value in (7, 8):
        story.produce(500 + value, value, None, acks=-1, invoke_t=100 + value)
    for offset, life in enumerate(lives):
        for value in (7, 8):
            at = {"offset": 2 * offset + value - 7, "value": value, "leader_epoch": offset}
            story.add("log_read", 90_000, node=1, producer_epoch=life, **at)
    story.final_log({})
    found = yield story
    assert found.counts.get("idempotent-duplicate", 0) == 2 * broken
    assert found.counts.get("idempotent-reordered", 0) == broken


@pytest.mark.parametrize(("took_ms", "broken"), [(5, 1), (300, 0)])
@judging(check)
def test_a_second_try_may_fail_after_the_first_has_landed(
    story: Any, took_ms: int, broken: int
) -> Asks:
    sends(story, "once-a-leader")
    story.produce(500, 7, None, acks=-1, type="fail", error=19, invoke_t=500 - took_ms)
    story.final_log({0: 7})
    assert (yield story).counts.get("failed-write-visible", 0) == broken


@pytest.mark.parametrize(
    ("next_ms", "broken"),
    [
        (None, 1),  # nobody came after the leader that appended it
        (900, 1),  # somebody did, long after the answer
        (400, 0),  # it may have lost the leadership before it answered
        (503, 0),  # by the clock's error it may, too
    ],
)
@judging(check)
def test_it_failed_although_its_leader_led_on(story: Any, next_ms: int | None, broken: int) -> Asks:
    sends(story, "once-a-leader")
    story.commit(10, 1, 0, commit_ms=10)
    if next_ms is not None:
        story.commit(next_ms, 2, 1, commit_ms=next_ms)
    story.produce(502, 7, None, acks=-1, type="fail", error=19, invoke_t=202)
    story.final_log({0: 7})
    if next_ms == 503:
        story.run["clock"]["error_ns"] = 2_000_000
    assert (yield story).counts == ({"failed-write-visible": 1} if broken else {})


@pytest.mark.parametrize(
    ("error", "how", "broken"),
    [
        (87, "", 1),
        (2, "", 1),
        (29, "", 1),
        (29, "authorizer", 0),
        (6, "", 0),
        (19, "", 0),
        (19, "acks=1", 1),
        (20, "acks=1", 1),
    ],
)
@judging(check)
def test_refused_for_nothing(story: Any, error: int, how: str, broken: int) -> Asks:
    story.produce(500, 7, 0)
    came_of = "info" if error in (6, 20) else "fail"
    acks = 1 if how == "acks=1" else -1
    story.produce(510, 8, None, acks, type=came_of, error=error)
    story.final_log({0: 7})
    if how == "authorizer":
        story.run["settings"] = {"overrides": {"authorizer.class.name": "kafka.Acl"}}
    assert (yield story).counts == ({"refused-for-nothing": 1} if broken else {})


@pytest.mark.parametrize(
    ("kind", "error", "how", "broken"),
    [
        ("listed_offset", 43, "", 1),
        ("read_at", 42, "", 1),
        ("group_step", 24, "", 1),
        ("coordinator", 30, "", 1),
        ("coordinator", 30, "authorizer", 0),
        ("epoch_end", 6, "", 0),
        ("listed_offset", 35, "", 0),
        ("committed", 16, "", 0),
        ("read_at", 19, "", 1),  # of whoever writes
        ("metadata", 6, "", 1),
        ("fetch", -139, "", 0),  # its library's own
    ],
)
@judging(check)
def test_a_question_refused_for_nothing(
    story: Any, kind: str, error: int, how: str, broken: int
) -> Asks:
    story.produce(500, 7, 0)
    story.final_log({0: 7})
    for t in (510, 520):
        story.add(kind, t, node=2, type="fail", error=error)
    if how == "authorizer":
        story.run["settings"] = {"overrides": {"authorizer.class.name": "kafka.Acl"}}
    found = yield story
    assert found.counts == ({"refused-for-nothing": 1} if broken else {})
    if broken:
        assert found.findings[0].says.startswith(f"node 2 refused 2 questions ({kind})")


@pytest.mark.parametrize(("read_ms", "broken"), [(480, 1), (495, 0)])
@judging(check)
def test_read_before_it_was_sent(story: Any, read_ms: int, broken: int) -> Asks:
    story.produce(500, 7, 0, invoke_t=490)
    story.add("fetch", read_ms, offset=0, value=7, process="c")
    story.add("fetch", 600, offset=0, value=7, process="d")
    story.final_log({0: 7})
    assert (yield story).counts == ({"read-before-sent": 1} if broken else {})


@judging(check)
def test_twice_in_two_partitions(story: Any) -> Asks:
    sends(story, "once")
    story.produce(500, 7, 0)
    story.final_log({0: 7})
    story.final_log({0: 7}, partition=1)
    assert (yield story).counts == {"duplicate-append": 1, "misplaced": 1}


@judging(check)
def test_twice_in_a_followers_log_is_its_own_affair(story: Any) -> Asks:
    sends(story, "once")
    story.produce(500, 7, 0)
    story.final_log({0: 7})
    story.final_log({0: 7, 1: 7}, 2, leader=False)
    assert not (yield story).counts


@judging(check)
def test_what_nobody_knows_the_end_of_may_have_landed_once(story: Any) -> Asks:
    sends(story, "once")
    for value in (1, 2):
        story.produce(500, value, None, type="info", failure="timeout")
    story.final_log({0: 1, 1: 2, 2: 2})
    assert (yield story).counts == {"duplicate-append": 1}


@pytest.mark.parametrize(
    ("delivery", "took_ms", "broken"), [("once", 400, 1), (None, 5, 1), (None, 400, 0)]
)
@judging(check)
def test_a_certain_failure_that_landed(
    story: Any, delivery: str | None, took_ms: int, broken: int
) -> Asks:
    sends(story, delivery)
    begun = {"invoke_t": 500 - took_ms}
    story.produce(500, 1, None, type="fail", error=10, **begun)
    story.produce(500, 2, None, type="fail", error=6, **begun)  # NOT_LEADER is never certain
    story.final_log({0: 1, 1: 2})
    assert (yield story).counts.get("failed-write-visible", 0) == broken


@judging(check)
def test_a_certain_failure_that_a_consumer_was_given(story: Any) -> Asks:
    """Wherever it is now."""
    sends(story, "once")
    story.produce(10, 1, None, -1, type="fail", error=19)
    story.produce(10, 2, None, type="fail", error=6)
    for value in (1, 2):
        story.add("fetch", 20, offset=value, value=value, poll=value, process="c")
    story.final_log({0: 9})
    assert (yield story).counts == {"failed-write-read": 1}


@pytest.mark.parametrize(("delivery", "broken"), [("idempotent", 1), ("once", 0), (None, 0)])
@judging(check)
def test_an_idempotent_producers_order(story: Any, delivery: str | None, broken: int) -> Asks:
    sends(story, delivery)
    for value in (1, 2, 3):
        story.produce(500, value, None)
    story.produce(500, 0, None, process="another")
    story.final_log({0: 1, 1: 3, 2: 0, 3: 2})
    assert (yield story).counts.get("idempotent-reordered", 0) == broken


@judging(check)
def test_nobodys_records_are_counted(story: Any) -> Asks:
    story.produce(500, 1, 0)
    story.final_log({0: 1, 1: 77})
    found = yield story
    assert not found.counts
    assert found.arms[story.arm]["foreign_records"] == 1


@pytest.mark.parametrize(
    ("delivery", "producer_epoch", "n"),
    [
        ("idempotent", -1, 2),
        ("idempotent", 0, 0),
        ("idempotent", None, 0),  # of before it was read
        ("once", -1, 0),
    ],
)
@judging(check)
def test_whose_records_they_are_kept_as(
    story: Any, delivery: str, producer_epoch: int | None, n: int
) -> Asks:
    sends(story, delivery)
    for value in range(3):
        story.produce(5 + value, value, value, acks=-1)
    story.final_log({v: v for v in range(3)})
    for row in story.rows["log_read"][1:]:
        row["producer_epoch"] = producer_epoch
    assert (yield story).counts == ({"idempotent-unmarked": n} if n else {})


# ---- append times --------------------------------------------------------------------------------


def stamped(story: Any, *, told_ms: int, stored_ms: int) -> None:
    """A record that was offered from 4000 to 4010 ms. The wall clock is a million ms ahead."""
    story.run["clock"]["monotonic_minus_wall_ns"] = -1_000_000 * 1_000_000
    story.produce(
        4010, 7, 0, acks=-1, invoke_t=4000, log_append_time_ms=told_ms, topic="t", partition=0
    )
    story.final_log({0: 7})
    story.rows["log_read"][-1]["append_time_ms"] = stored_ms


SENT_MS = 1_004_005
STAMPED = "LogAppendTime"
MICROSECONDS = 1_795_799_061_000_000
"""As nanoseconds no long holds it."""


@pytest.mark.parametrize(
    ("told_ms", "stored_ms", "wrong"),
    [
        (SENT_MS, SENT_MS, False),
        (SENT_MS - 900, SENT_MS - 900, False),  # clocks may be off by that
        (SENT_MS, SENT_MS + 1, True),
        (SENT_MS - 60_000, SENT_MS - 60_000, True),
        (SENT_MS + 60_000, SENT_MS + 60_000, True),
        (SENT_MS, MICROSECONDS, True),
        (MICROSECONDS, MICROSECONDS, True),
        (-1, SENT_MS + 60_000, False),  # nobody was told: not of that kind
        (SENT_MS, -1, False),
    ],
)
@judging(check)
def test_append_times(story: Any, told_ms: int, stored_ms: int, wrong: bool) -> Asks:
    stamped(story, told_ms=told_ms, stored_ms=stored_ms)
    found = yield story
    assert found.counts == ({"append-time-wrong": 1} if wrong else {})


@pytest.mark.parametrize(
    ("traces", "off_ms", "wrong"),
    [
        (["plane_use"], -40, False),
        (["plane_use"], -200, True),
        (["plane_use"], 200, True),
        ([], -900, False),  # it may run on a machine with a clock of its own
        ([], -2_000, True),
    ],
)
@judging(check)
def test_append_times_by_the_clock_of_the_harness(
    story: Any, traces: list[str], off_ms: int, wrong: bool
) -> Asks:
    story.run["arms"][story.arm]["traces"] = traces
    stamped(story, told_ms=SENT_MS + off_ms, stored_ms=SENT_MS + off_ms)
    assert (yield story).counts == ({"append-time-wrong": 1} if wrong else {})


@judging(check)
def test_without_a_tie_of_clocks_only_the_answer_counts(story: Any) -> Asks:
    stamped(story, told_ms=SENT_MS + 60_000, stored_ms=SENT_MS + 60_000)
    del story.run["clock"]
    assert (yield story).counts == {}


# ---- records that are not what they were ---------------------------------------------------------


TRIED_AGAIN = {
    # What is told, how long it took, how it is sent, who dates the topic; then whether it is wrong.
    "the latest of its batch": (500, 1000, "idempotent", {}, 0),
    "a time of no record": (400, 1000, "idempotent", {}, 1),
    "a time of before": (-500, 1000, "idempotent", {}, 1),
    "at once": (500, 10, "idempotent", {}, 1),
    "by who sends once": (500, 1000, "once", {}, 1),
    "dated by its broker": (500, 1000, "idempotent", {"message.timestamp.type": STAMPED}, 1),
}


@pytest.mark.parametrize("case", TRIED_AGAIN)
@judging(check)
def test_append_times_of_a_second_try(story: Any, case: str) -> Asks:
    """A leader that has it already answers the latest time of its batch, whoever dates it."""
    later_ms, took_ms, how, configs, n = TRIED_AGAIN[case]
    stamped(story, told_ms=SENT_MS + later_ms, stored_ms=SENT_MS)
    story.rows["produce"][0]["t"] += (took_ms - 10) * 1_000_000
    for offset, ms in ((1, SENT_MS - 500), (2, SENT_MS + 500)):
        story.add("log_read", 90_000, node=1, offset=offset, value=90 + offset, leader_epoch=0,
                  append_time_ms=ms)  # fmt: skip
    story.rows["log_end"][0] |= {"log_end_offset": 3, "high_watermark": 3}
    sends(story, how)
    story.run["trials"][0]["topics"] = {"t": {"configs": configs}}
    counts = (yield story).counts
    assert {rule: at for rule, at in counts.items() if rule == "append-time-wrong"} == (
        {"append-time-wrong": n} if n else {}
    )


def whole(story: Any, *, closed: bool = True, named: bool = True) -> None:
    """One producer sent value 7 and was told offset 0 and its append time; it is there."""
    sends(story, "once")
    story.run["trials"][0]["workloads"][0]["acks"] = -1
    if not named:
        del story.run["trials"]
    story.add("source", 90, process="p", source="p", rows=1, missing=0, closed=closed)
    story.produce(500, 7, 0, acks=-1, log_append_time_ms=499)
    story.final_log({0: 7}, leader_epoch=3)
    story.rows["log_read"][0]["append_time_ms"] = 499
    story.add("fetch", 600, offset=0, value=7, poll=0, process="c", leader_epoch=3)


@pytest.mark.parametrize(
    ("how", "rule"),
    [
        ("sound", None),
        ("phantom", "phantom"),
        ("phantom, beside a flood of its own topic", "phantom"),
        ("phantom, a flood wrote there", None),
        ("phantom, a writer did not end", None),
        ("phantom, clients are not named", None),
        ("no record of the workload", None),
        ("another time", "append-time-wrong"),
        ("no time was told", None),
        ("another epoch", "read-otherwise"),
        ("no epoch was told", None),
        ("sent elsewhere", "misplaced"),
        ("failed before it had a partition", None),
    ],
)
@judging(check)
def test_a_record_is_what_it_was(story: Any, how: str, rule: str | None) -> Asks:
    whole(story, closed="did not end" not in how, named="not named" not in how)
    produced, read = story.rows["produce"][0], story.rows["fetch"][0]
    if how.startswith("phantom"):
        story.final_log({0: 9}, partition=1)
    if "flood" in how:
        detail = json.dumps({"writes_to": "t"} if "wrote there" in how else {"targets": {}})
        story.add("fault", 50, fault="flood-produce", id="f", phase="injected", detail=detail)
    if how == "no record of the workload":
        story.final_log({0: None}, partition=1)
    if "time" in how:
        produced["log_append_time_ms"] = 498 if how == "another time" else -1
    if "epoch" in how:
        read["leader_epoch"] = 2 if how == "another epoch" else None
    if how == "sent elsewhere":
        produced |= {"partition": 1, "type": "info", "offset": None}
    if how == "failed before it had a partition":
        produced |= {"partition": None, "type": "info", "offset": None}
    found = yield story
    assert found.counts == ({rule: 1} if rule else {})
    assert bool(found.not_judged) is ("wrote there" in how)


@judging(check)
def test_a_value_offered_twice_is_unknown(story: Any) -> Asks:
    whole(story)
    story.produce(500, 7, 0, acks=-1)
    found = yield story
    assert not found.counts
    assert "1 values were offered twice, the first 7" in found.unknowns[0]


@pytest.mark.parametrize(
    ("delivery", "took_ms", "acked_ms", "made_again", "broken"),
    [
        ("once", 300, 500, True, 1),
        (None, 5, 500, True, 1),  # answered before anybody sends again
        (None, 300, 500, True, 0),  # what was sent twice may land twice, and late
        ("once", 300, 2_500, True, 0),  # taken by the new topic
        ("once", 300, None, True, 0),  # nobody knows: it may have waited in a socket
        ("once", 300, 500, False, 0),
    ],
)
@judging(check)
def test_in_the_log_of_a_deleted_topics_namesake(
    story: Any,
    delivery: str | None,
    took_ms: int,
    acked_ms: int | None,
    made_again: bool,
    broken: int,
) -> Asks:
    sends(story, delivery)
    at = {"what": "topic", "topic": "t"}
    story.add("zk_write", 10, zxid=1, step="created", replicas=[1], **at)
    if made_again:
        story.add("zk_write", 1_000, zxid=2, step="removed", **(at | {"partition": None}))
        story.add("zk_write", 2_000, zxid=3, step="created", replicas=[1], **at)
    t = acked_ms or 900
    more: dict[str, Any] = {} if acked_ms else {"type": "info", "failure": "timeout"}
    story.produce(t, 7, 0 if acked_ms else None, invoke_t=t - took_ms, **more)
    story.produce(2_600, 8, 1)
    story.final_log({0: 7, 1: 8})
    assert (yield story).counts == ({"outlived-topic": 1} if broken else {})


def leads(story: Any, t: float, node: int, leader_epoch: int, **more: Any) -> None:
    role = {"role": "leader", "leader": node, "leader_epoch": leader_epoch, "node": node}
    story.add("leader_change", t, **{**role, **more})


def in_files(story: Any, *epochs: int, node: int = 1) -> None:
    told = [{"leader_epoch": e, "first_offset": n, "last_offset": n} for n, e in enumerate(epochs)]
    story.add("log_folder", 91_000, node=node, epochs=told)


@pytest.mark.parametrize(
    ("name", "sent_ms", "epoch", "broken"),
    [
        ("the lead was taken up again", 5_000, 1, 1),
        ("the lead was taken up again", 5_000, 3, 0),
        ("the lead was taken up again", 3_900, 1, 0),  # sent before, and taken as it changed
        ("another led in between", 2_500, 1, 1),
        ("another led in between", 2_500, 2, 0),
        ("another led in between, of which nothing is left", 2_500, 1, 0),
        ("one who follows", 5_000, 1, 0),
        ("in the topic's life before", 7_000, 1, 0),
    ],
)
@judging(check)
def test_a_record_has_the_leader_epoch_in_which_it_was_taken(
    story: Any, name: str, sent_ms: float, epoch: int, broken: int
) -> Asks:
    """Node 1 leads in epochs 1 and 3, from 1 and 4 s on; in between node 2 may, from 2 s on."""
    leads(story, 1_000, 1, 1)
    if name.startswith("another"):
        leads(story, 2_000, 2, 2)
    leads(story, 4_000, 1, 3, **({"role": "follower"} if name == "one who follows" else {}))
    if name == "in the topic's life before":
        at = {"what": "topic", "topic": "t"}
        story.add("zk_write", 6_000, zxid=2, step="removed", partition=None, **at)
        story.add("zk_write", 6_100, zxid=3, step="created", replicas=[1], **at)
        leads(story, 6_200, 1, 0)
    in_files(story, *((1, 2, 3) if name == "another led in between" else (1,)))
    story.produce(sent_ms + 10, 7, 0, acks=-1, invoke_t=sent_ms)
    story.final_log({0: 7}, leader_epoch=epoch)
    assert (yield story).counts == ({"past-epoch": 1} if broken else {})
