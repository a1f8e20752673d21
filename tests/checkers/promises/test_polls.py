"""Polls, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.judging.verdict import Verdict
from checkers.promises.polls import check
from checkers.promises.polls.given_late import AWAITED
from tests.checkers.conftest import MS
from tests.checkers.together import Asks, apart, judging


def poll(story: Any, number: int, *offsets: int, process: str = "c1", **more: Any) -> None:
    for offset in offsets:
        story.add("fetch", 10 + number, offset=offset, value=offset, poll=number, process=process,
                  **more)  # fmt: skip


@judging(check)
def test_a_sound_history(story: Any) -> Asks:
    poll(story, 0, 0, 1, 2)
    poll(story, 1, 3, 4, 5, 6, 7, 8, 9)
    story.final_log({v: v for v in range(10)})
    found = yield story
    assert found.verdict([(story.arm, 0)]) == (Verdict.VALID, [])


@judging(check)
def test_two_consumers_that_disagree(story: Any) -> Asks:
    story.add("fetch", 10, offset=0, value=1, poll=0, process="c1")
    story.add("fetch", 10, offset=0, value=2, poll=0, process="c2")
    story.final_log({0: 1})
    assert (yield apart(story)).counts == {"inconsistent-offset": 1}


@judging(check)
def test_going_back(story: Any) -> Asks:
    story.final_log({v: v for v in range(6)})
    poll(story, 0, 0, 1, 2)
    poll(story, 1, 1, 2, 3)
    poll(story, 0, 0, 1, process="c2")  # another consumer begins where it likes
    assert (yield story).counts == {"poll-went-back": 1}


@pytest.mark.parametrize(
    ("numbers", "more", "n"),
    [
        ((0, 1, 2), {}, 0),
        ((0, 2, 1), {}, 1),  # offset 2 before offset 1
        ((None, None, None), {}, 0),  # of who numbers nothing
        ((0, 2, 1), {"partitions": True}, 0),  # each for itself
        ((0, 2, 1), {"reset": True}, 0),
    ],
)
@judging(check)
def test_the_order_within_a_poll(
    story: Any, numbers: tuple[int | None, ...], more: dict[str, bool], n: int
) -> Asks:
    for offset, seq in enumerate(numbers):
        poll(story, 0, offset, seq=seq, partition=offset % 2 if more.get("partitions") else 0)
    if more.get("reset"):
        story.add("fetch", 10, type="fail", error=1, poll=0, process="c1", seq=3)
    story.final_log({v: v for v in range(3)})
    assert (yield story).counts.get("poll-went-back", 0) == n


@pytest.mark.parametrize(
    ("how", "rules"),
    [
        ("it is in range", {"position-lost": 1}),
        ("it had no position", {}),
        ("the log ends before it", {}),
        ("retention took it", {}),
        ("its topic was deleted", {}),
    ],
)
@judging(check)
def test_going_back_after_a_reset(story: Any, how: str, rules: dict[str, int]) -> Asks:
    """Which is lawful where its position was out of range, and only there."""
    story.final_log({v: v for v in range(2 if how == "the log ends before it" else 6)})
    if how == "retention took it":
        story.run["topics"] = {"t": {"configs": {"retention.ms": "1000"}}}
        story.rows["log_end"][0]["log_start_offset"] = 4
    if how == "its topic was deleted":
        for t, step in ((1, "requested"), (30, "gone")):
            story.add("topic_deletion", t, topic="t", step=step)
    if how != "it had no position":
        poll(story, 0, 0, 1, 2)
    story.add("fetch", 11, poll=1, process="c1", type="fail", error=1)
    poll(story, 2, 0, 1)
    found = yield story
    assert found.counts == rules
    assert bool(found.excused) == (how == "its topic was deleted")


@judging(check)
def test_a_skip_needs_a_record_to_be_skipped(story: Any) -> Asks:
    story.final_log({0: 0, 1: 1, 4: 4, 5: 5, 6: 6})  # 2 and 3 are no records
    poll(story, 0, 0, 1)
    poll(story, 1, 4)
    assert not (yield story).counts
    poll(story, 2, 6)
    assert (yield story).counts == {"poll-skipped": 1}


def asks(story: Any, from_t: float, to_t: float, process: str = "c1") -> None:
    """It asks a broker for two partitions all the while, twice a second."""
    for t in range(int(from_t), int(to_t), 500):
        for partition in (0, 1):
            at = {"partition": partition, "node": 1, "process": process}
            story.add("waiting", t + 500, from_t=t * MS, **at)


def healed(story: Any, t: float, polled_until: float, *, asked: bool = True) -> None:
    if asked:
        asks(story, t, polled_until)
    story.add("phase", t, name="heal", event="end")
    story.add("fetch", polled_until, poll=99, process="c1", topic=None, partition=None)


@pytest.mark.parametrize(
    ("why", "broken"),
    [
        ("stuck", 1),
        ("given", 0),
        ("not long enough", 0),
        ("slow", 0),
        ("on a busy machine", 0),
        ("on a busy machine, long enough", 1),
        ("after healing", 1),
        ("after healing, while it goes on", 0),
        ("a while before its last poll", 0),
        ("just before its last poll", 0),
        ("acks=1", 0),
    ],
)
@judging(check)
def test_what_was_acknowledged_is_delivered_in_the_end(story: Any, why: str, broken: int) -> Asks:
    poll(story, 0, 0, 1)
    for value in range(3):
        late = {"a while before its last poll": 6_000, "just before its last poll": 7_500}
        t = late.get(why, 2_000 if "after healing" in why else 15) if value == 2 else 15
        story.produce(t, value, value, acks=1 if why == "acks=1" and value == 2 else -1)
    if why == "given":
        poll(story, 1, 2)
    story.final_log({v: v for v in range(3)})
    polled_until = {"not long enough": 3_000, "on a busy machine, long enough": 11_100}
    healed(story, 1_000, polled_until.get(why, 8_000))
    if "busy machine" in why:
        story.add("phase", 3_000, name="quiesce", event="end")
        story.strain(1_000, 12, seconds=2)
    if why in ("slow", "after healing, while it goes on"):
        story.rows["fetch"][1]["t"] = 7_500 * 1_000_000
    found = yield story
    assert found.counts == ({"never-delivered": 1} if broken else {})
    untold = ("not long enough", "slow", "on a busy machine", "a while before its last poll")
    assert bool(found.unknowns) == (why in untold)


@pytest.mark.parametrize(
    ("partitions", "given", "acked_ms", "broken", "unknown"),
    [
        (2, 0, 6_000, 2, 0),
        (2, 1, 6_000, 0, 1),  # of one it has the last
        (1, 0, 6_000, 0, 1),
        (2, 0, 6_900, 0, 2),  # too short a while
        (2, 2, 6_000, 0, 0),
    ],
)
@judging(check)
def test_who_is_to_end_is_given_the_last_of_its_partitions(
    story: Any, partitions: int, given: int, acked_ms: int, broken: int, unknown: int
) -> Asks:
    for partition in range(partitions):
        at = {"partition": partition}
        story.produce(15, 2 * partition, 0, acks=-1, **at)
        story.produce(acked_ms, 2 * partition + 1, 1, acks=-1, **at)
        story.final_log({0: 2 * partition, 1: 2 * partition + 1}, **at)
        story.add("fetch", 20, poll=0, process="c1", offset=0, value=2 * partition, **at)
        if partition < given:
            value = 2 * partition + 1
            story.add("fetch", 6_100, poll=1, process="c1", offset=1, value=value, **at)
    healed(story, 1_000, 8_000)
    found = yield story
    assert found.counts == ({"never-delivered": broken} if broken else {})
    assert len(found.unknowns) == unknown


ASKED: dict[str, tuple[list[tuple[float, float, str]], bool]] = {
    "all the while": ([(1_000, 8_000, "c1")], True),
    "for half of it": ([(4_500, 8_000, "c1")], True),
    "for less": ([(5_000, 8_000, "c1")], False),
    "never": ([], False),
    "before it was owed anything": ([(0, 1_000, "c1")], False),
    "another did": ([(1_000, 8_000, "c2")], False),
}


@pytest.mark.parametrize("name", ASKED)
@judging(check)
def test_who_asks_no_broker_is_owed_nothing(story: Any, name: str) -> Asks:
    spans, broken = ASKED[name]
    poll(story, 0, 0, 1)
    for value in range(3):
        story.produce(15, value, value, acks=-1)
    story.final_log({v: v for v in range(3)})
    healed(story, 1_000, 8_000, asked=False)
    for span in spans:
        asks(story, *span)
    found = yield story
    assert found.counts == ({"never-delivered": 1} if broken else {})
    assert any("nobody tells that it asked" in why for why in found.unknowns) is not broken


@judging(check)
def test_a_consumer_that_was_given_nothing_is_unknown(story: Any) -> Asks:
    story.add("fetch", 10, poll=1, process="c1", topic=None, partition=None)
    assert (yield story).verdict([(story.arm, 0)])[0] is Verdict.UNKNOWN


# ---- where it begins -----------------------------------------------------------------------------


def begins(story: Any, where: str | None, process: str = "c1") -> None:
    workload = {"process": process, "role": "consumer", "begins": where}
    story.run["trials"] = [{"arm": story.arm, "trial": story.trial, "workloads": [workload]}]


@pytest.mark.parametrize(
    ("where", "first", "rules"),
    [
        ("start", 0, {}),
        ("start", 1, {"poll-began-late": 1}),
        ("end", 1, {"poll-began-early": 1}),
        ("end", 3, {"poll-began-early": 1}),  # 3 had been acknowledged
        ("end", 4, {}),
        ("end", 6, {}),  # nobody may say where the end was, but that it was not before
        (None, 2, {}),
    ],
)
@judging(check)
def test_where_a_consumer_begins(
    story: Any, where: str | None, first: int, rules: dict[str, int]
) -> Asks:
    begins(story, where)
    for value in range(4):
        story.produce(2 + value, value, value, acks=-1)
    story.produce(11, 4, 4, acks=-1)  # acknowledged after it asked
    story.produce(6, 5, 5)  # acks=1: nobody promised that it is committed
    story.final_log({v: v for v in range(10)})
    story.add("fetch", 9, topic=None, partition=None, offset=None, poll=0, process="c1", invoke_t=8)
    poll(story, 1, *range(first, 10))
    assert (yield story).counts == rules


@pytest.mark.parametrize("before", [True, False])
@judging(check)
def test_a_reset_begins_anew(story: Any, before: bool) -> Asks:
    begins(story, "start")
    story.final_log({v: v for v in range(10)})
    story.add("fetch", 9 if before else 20, poll=0 if before else 9, process="c1", type="fail",
              error=1)  # fmt: skip
    poll(story, 1, *range(4, 10))
    late = {"poll-began-late": 1, "position-lost": 1}
    assert (yield story).counts == ({} if before else late)


@judging(check)
def test_a_group_is_given_what_any_of_its_members_is(story: Any) -> Asks:
    for value in range(3):
        story.produce(15, value, value, acks=-1)
    story.final_log({v: v for v in range(3)})
    for number, member in enumerate(("a", "b")):
        story.add("assignment", 5, process=member, partition=number, group="g", event="assigned")
    poll(story, 0, 0, 1, process="a")
    healed(story, 1_000, 8_000)
    story.rows["fetch"][-1]["process"] = "b"
    found = yield story
    assert found.counts == {"never-delivered": 1}
    assert found.findings[0].says.startswith("group g polled")
    story.add("assignment", 30, process="b", group="g", event="assigned")
    poll(story, 40, 2, process="b")
    assert not (yield story).counts


def waiting(story: Any, late_ms: float) -> None:
    """Healed at 1 s, calm from 6 s on; offset 1 is acknowledged at 10 s, and given so late."""
    story.add("phase", 900, process="harness", name="heal", event="begin")
    story.add("phase", 1_000, process="harness", name="heal", event="end")
    story.add("phase", 1_500, process="harness", name="quiesce", event="end")
    story.commit(100, 1, 0)
    story.final_log({0: 0, 1: 1})
    story.produce(9_000, 0, 0, acks=-1)
    story.produce(10_000, 1, 1, acks=-1)
    given = 10_000 + late_ms
    story.add("fetch", 9_100, offset=0, value=0, poll=0, process="c1", invoke_t=8_900)
    for number in range(1, 50):
        t = 9_100 + 200 * number
        if t < given:
            story.add("fetch", t, topic=None, partition=None, poll=number, process="c1",
                      invoke_t=t - 199)  # fmt: skip
    story.add("fetch", given, offset=1, value=1, poll=90, process="c1", invoke_t=given - 100)


@pytest.mark.parametrize(
    ("late_ms", "how", "broken"),
    [
        (20, "", 0),
        (1_400, "", 0),
        (2_500, "", 1),
        (2_500, "it did not poll", 0),
        (2_500, "acks=1", 0),
        (2_500, "it had yet to be given what was before", 0),
        (2_500, "another leads", 0),
        (2_500, "another led long before", 1),
        (2_500, "a member of a group", 0),
        (2_500, "not calm yet", 0),
    ],
)
@judging(check)
def test_who_waits_is_given_what_is_committed(
    story: Any, late_ms: float, how: str, broken: int
) -> Asks:
    waiting(story, late_ms)
    rows = story.rows["fetch"]
    if how == "it did not poll":
        story.rows["fetch"] = [row for row in rows if row.get("offset") is not None]
    elif how == "acks=1":
        story.rows["produce"][1]["acks"] = 1
    elif how.startswith("it had yet"):
        rows[0] |= {"t": rows[-1]["t"] - 1_000_000}
    elif how == "another leads":
        story.commit(9_500, 2, 1)
    elif how == "another led long before":
        story.commit(3_000, 2, 1)
    elif how == "a member of a group":
        story.add("assignment", 8_000, process="c1", event="assigned", group="g")
    elif how == "not calm yet":
        for row in story.rows["phase"]:
            row["t"] += 4_500 * 1_000_000
    found = yield story
    assert found.counts.get("given-late", 0) == broken
    if not how:
        assert found.evidence[story.arm, 0, AWAITED] == 1


@pytest.mark.parametrize(
    ("how", "broken"),
    [
        ("", 1),
        ("it was given soon", 0),
        ("nothing is acknowledged behind it", 0),
        ("it was given nothing since before the calm", 0),
        ("it did not poll", 0),
        ("another leads", 0),
    ],
)
@judging(check)
def test_what_is_before_a_committed_record_is_committed(story: Any, how: str, broken: int) -> Asks:
    """Offset 1 was sent with acks=1; offset 2, with acks=all, is acknowledged at 10.1 s, and both
    are given at 12.5 s."""
    waiting(story, 2_500)
    story.rows["produce"][1]["acks"] = 1
    story.produce(10_100, 2, 2, acks=-1)
    story.add("fetch", 12_500, offset=2, value=2, poll=90, process="c1", invoke_t=12_400)
    rows = story.rows["fetch"]
    if how == "it was given soon":
        rows[-2] |= {"t": 11_000_000_000}
    elif how.startswith("nothing is"):
        story.rows["produce"][2]["acks"] = 1
    elif how.startswith("it was given nothing"):
        rows[0] |= {"t": 5_000_000_000, "invoke_t": 4_900_000_000}
    elif how == "it did not poll":
        story.rows["fetch"] = [row for row in rows if row.get("offset") is not None]
    elif how == "another leads":
        story.commit(9_500, 2, 1)
    found = yield story
    assert found.counts.get("given-late", 0) == broken
