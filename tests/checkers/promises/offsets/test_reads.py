"""Reads at the end of a log by those who say what they believe, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.promises.offsets import check
from checkers.promises.offsets.reads import READS
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging


def end(story: Story, t: float, epoch: int, offset: int, **more: Any) -> None:
    """A broker (1) tells an end, in its leader epoch."""
    asked = {"asked_ms": -1, "believed_epoch": -1, "found_ms": -1, "invoke_t": t - 1}
    story.add("listed_offset", t, **{"node": 1, "error": 0, **asked, **more},
              leader_epoch=epoch, offset=offset)  # fmt: skip


def took_up(story: Story, t: float, epoch: int, *, node: int = 1, role: str = "follower") -> None:
    story.add("leader_change", t, node=node, seq=0, role=role, leader=3, leader_epoch=epoch)


def read(story: Story, t: float, believed: int, given: int = -1, **more: Any) -> None:
    told = {"high_watermark": None, "log_start_offset": 0, "leader_epoch": -1, "error": 0}
    told |= {"node": 1, "offset": 5, "invoke_t": t - 1, **more}
    story.add("read_at", t, believed_epoch=believed, found_end=given, **told)


REFUSED = {"type": "fail", "error": 74}
PAST, LATER, BEYOND = "fetch-fence-ignored", "fetch-unheard-served", "given-beyond-end"
MARK = "watermark-told-otherwise"
CASES: dict[str, tuple[Any, str | None]] = {
    "as it should": (lambda s: (end(s, 100, 2, 5), read(s, 200, 2, 7), end(s, 300, 2, 7)), None),
    "who believes in the past": (lambda s: (end(s, 100, 2, 5), read(s, 200, 1)), PAST),
    "of whom it knew by its role": (lambda s: (took_up(s, 100, 2), read(s, 200, 1)), PAST),
    "by its role, and what it told": (
        lambda s: (took_up(s, 90, 2), end(s, 100, 2, 5), read(s, 200, 1)),
        PAST,
    ),
    "by a role that it took up meanwhile": (
        lambda s: (took_up(s, 199.5, 2), read(s, 200, 1)),
        None,
    ),
    "by a role in that one": (lambda s: (took_up(s, 100, 1), read(s, 200, 1)), None),
    "by another's role": (lambda s: (took_up(s, 100, 2, node=2), read(s, 200, 1)), None),
    "by a role before it began anew": (
        lambda s: (
            took_up(s, 100, 2),
            s.add("node_event", 150, node=1, event="start"),
            read(s, 200, 1),
        ),
        None,
    ),
    "and is refused": (lambda s: (end(s, 100, 2, 5), read(s, 200, 1, **REFUSED)), None),
    "before that was the past": (lambda s: (read(s, 200, 1), end(s, 300, 2, 5)), None),
    "as that became the past": (
        lambda s: (end(s, 199.5, 2, 5, invoke_t=198), read(s, 200, 1)),
        None,
    ),
    "at another broker": (lambda s: (end(s, 100, 2, 5), read(s, 200, 1, node=2)), None),
    "who knows of a later one": (lambda s: (read(s, 200, 3), end(s, 300, 2, 5)), LATER),
    "of which it hears as well": (lambda s: (read(s, 200, 3), end(s, 300, 3, 5)), None),
    "asked before it was served": (
        lambda s: (read(s, 200, 3), end(s, 300, 2, 5, invoke_t=199)),
        None,
    ),
    "more than there is": (lambda s: (read(s, 200, 2, 9), end(s, 300, 2, 7)), BEYOND),
    "more than there was": (lambda s: (end(s, 100, 2, 7), read(s, 200, 2, 9)), None),
    "of another epoch": (lambda s: (read(s, 200, 2, 9), end(s, 300, 3, 7)), None),
    "a watermark that goes back": (
        lambda s: (end(s, 100, 2, 7), read(s, 200, 2, high_watermark=6)),
        MARK,
    ),
    "below the highest told before": (
        lambda s: (end(s, 90, 2, 7), end(s, 100, 2, 5), read(s, 200, 2, high_watermark=6)),
        MARK,
    ),
    "a watermark that stays": (
        lambda s: (end(s, 100, 2, 7), read(s, 200, 2, high_watermark=7), end(s, 300, 2, 7)),
        None,
    ),
    "the one of a later leader": (
        lambda s: (end(s, 100, 1, 7), read(s, 200, 2, high_watermark=6)),
        None,
    ),
    "a watermark ahead": (
        lambda s: (read(s, 200, 2, high_watermark=9), end(s, 300, 2, 7)),
        MARK,
    ),
    "while that grew": (
        lambda s: (end(s, 201, 2, 7, invoke_t=199), read(s, 200, 2, high_watermark=9)),
        None,
    ),
    "of another epoch than the log has": (
        lambda s: read(s, 200, 2, 7, leader_epoch=1),
        "given-in-another-epoch",
    ),
    "of the epoch that the log has": (lambda s: read(s, 200, 2, 7, leader_epoch=2), None),
    "of no epoch": (lambda s: read(s, 200, 2, 7, leader_epoch=-1), None),
    "nothing": (lambda s: read(s, 200, 2, -1, leader_epoch=1), None),
    "a beginning": (lambda s: read(s, 200, 2, log_start_offset=3), "start-told-otherwise"),
    "of a topic that is deleted": (
        lambda s: (
            end(s, 100, 2, 5),
            s.add("topic_deletion", 150, step="requested"),
            read(s, 200, 1),
        ),
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_who_reads_is_served_by_the_leader_that_he_believes_in(name: str) -> Asks:
    tell, rule = CASES[name]
    story = Story()
    story.commit(10, 1, 2)
    story.final_log({offset: offset for offset in range(20)}, leader_epoch=2)
    tell(story)
    found = yield story
    assert {r: n for r, n in found.counts.items() if r in (PAST, LATER, BEYOND, MARK)} == (
        {rule: 1} if rule in (PAST, LATER, BEYOND, MARK) else {}
    )
    for other in ("start-told-otherwise", "given-in-another-epoch"):
        assert found.counts.get(other, 0) == (rule == other)
    unjudged = name in ("and is refused", "of a topic that is deleted")
    assert found.evidence[story.arm, 0, READS] == (0 if unjudged else 1)


def acked(story: Story, offset: int, t: float = 100, *, took: float = 10, **more: Any) -> None:
    story.produce(
        t, more.pop("value", offset), offset, **{"acks": -1, "invoke_t": t - took, **more}
    )


def sends(story: Story, delivery: str) -> None:
    workload = {"process": "p", "role": "producer", "delivery": delivery}
    story.run["trials"] = [{"arm": story.arm, "trial": 0, "workloads": [workload]}]


FALLEN: dict[str, tuple[Any, bool]] = {
    "below what was acknowledged": (lambda s: (acked(s, 7), marked(s, 200, 2, 7)), True),
    "behind it": (lambda s: (acked(s, 7), marked(s, 200, 2, 8)), False),
    "acknowledged meanwhile": (lambda s: (acked(s, 7, 199.5), marked(s, 200, 2, 7)), False),
    "maybe by the next leader": (
        lambda s: (acked(s, 7, 100, took=60), marked(s, 200, 2, 7)),
        False,
    ),
    "maybe so, by who is idempotent": (
        lambda s: (sends(s, "idempotent"), acked(s, 7, 100, took=60), marked(s, 200, 2, 7)),
        False,
    ),
    "late, to who is told where it was appended": (
        lambda s: (sends(s, "once-a-leader"), acked(s, 7, 100, took=60), marked(s, 200, 2, 7)),
        True,
    ),
    "acknowledged with acks=1": (lambda s: (acked(s, 7, acks=1), marked(s, 200, 2, 7)), False),
    "of a later leader's records": (
        lambda s: (of_before(s, 7), acked(s, 7), marked(s, 200, 1, 7)),
        False,
    ),
    "of which it had not heard yet": (lambda s: (acked(s, 7), marked(s, 200, 3, 7)), False),
    "of another record": (lambda s: (acked(s, 7, value=70), marked(s, 200, 2, 7)), False),
    "below what was told before": (
        lambda s: (marked(s, 100, 2, 9), marked(s, 200, 2, 7)),
        True,
    ),
    "below what was given before": (
        lambda s: (marked(s, 100, 2, 5, given=9), marked(s, 200, 2, 7)),
        True,
    ),
    "given with it, as it was committed": (lambda s: marked(s, 200, 2, 5, given=9), False),
    "in an earlier epoch": (
        lambda s: (of_before(s, 9), marked(s, 100, 1, 9), marked(s, 200, 2, 7)),
        False,
    ),
    "at the same time": (lambda s: (marked(s, 199.5, 2, 9), marked(s, 200, 2, 7)), False),
}


def of_before(story: Story, end: int) -> None:
    """What lies below that is of leader epoch 1."""
    for row in story.rows["log_read"][:end]:
        row["leader_epoch"] = 1


def marked(story: Story, t: float, believed: int, mark: int, given: int = -1) -> None:
    read(story, t, believed, given, high_watermark=mark)


@pytest.mark.parametrize("name", FALLEN)
@judging(check)
def test_a_leaders_high_watermark_never_falls(name: str) -> Asks:
    tell, wrong = FALLEN[name]
    story = Story()
    story.commit(10, 1, 2)
    story.final_log({offset: offset for offset in range(20)}, leader_epoch=2)
    tell(story)
    found = yield story
    assert found.counts == ({MARK: 1} if wrong else {})


AHEAD: dict[str, tuple[Any, bool]] = {
    "at the log's end": (lambda s: marked(s, 2900, 2, 20), False),
    "beyond it": (lambda s: marked(s, 2900, 2, 21), True),
    "behind what was appended": (lambda s: marked(s, 1600, 2, 6), False),
    "behind what was appended later": (lambda s: marked(s, 1500, 2, 9), True),
    "within the clocks' error": (lambda s: marked(s, 1790, 2, 9), False),
    "behind a later leader's record": (lambda s: marked(s, 2900, 1, 20), True),
    "of a log that was emptied": (
        lambda s: (
            s.add("records_deleted", 2500, node=1, offset=20, low_watermark=20),
            marked(s, 2900, 2, 20),
        ),
        False,
    ),
    "of a topic that is deleted": (
        lambda s: (
            s.add("topic_deletion", 5000, topic="t", step="requested"),
            marked(s, 2900, 2, 21),
        ),
        False,
    ),
}


@pytest.mark.parametrize("name", AHEAD)
@judging(check)
def test_a_high_watermark_is_never_ahead_of_the_log(name: str) -> Asks:
    """One record each 100 ms, from 1000 on."""
    tell, wrong = AHEAD[name]
    story = Story()
    story.run["clock"] = {"monotonic_minus_wall_ns": 0, "error_ns": 0}
    story.commit(10, 1, 2)
    story.final_log({offset: offset for offset in range(20)}, leader_epoch=2)
    for offset, row in enumerate(story.rows["log_read"]):
        row["append_time_ms"] = 1000 + 100 * offset
    tell(story)
    found = yield story
    assert found.counts == ({MARK: 1} if wrong else {})


DENIED: dict[str, tuple[Any, bool]] = {
    "at an end told in that epoch": (lambda s: (end(s, 100, 2, 5), out(s, 200, 2)), True),
    "by another broker": (lambda s: (end(s, 100, 2, 5, node=3), out(s, 200, 2)), True),
    "at one told to who read": (lambda s: (marked(s, 100, 2, 5), out(s, 200, 2)), True),
    "below what was given": (lambda s: (marked(s, 100, 2, 4, given=7), out(s, 200, 2)), True),
    "beyond it": (lambda s: (end(s, 100, 2, 4), out(s, 200, 2)), False),
    "told in a later epoch": (lambda s: (end(s, 100, 3, 5), out(s, 200, 2)), False),
    "told in an earlier one": (lambda s: (end(s, 100, 1, 5), out(s, 200, 2)), False),
    "told while it was asked": (lambda s: (end(s, 199.5, 2, 5), out(s, 200, 2)), False),
    "where the log begins later": (
        lambda s: (
            s.add("records_deleted", 150, node=1, offset=3, low_watermark=3),
            end(s, 100, 2, 2),
            out(s, 200, 2, offset=2),
        ),
        False,
    ),
    "refused as of the past": (lambda s: (end(s, 100, 2, 5), read(s, 200, 2, **REFUSED)), False),
    "forged": (
        lambda s: (
            s.add("forged", 50, node=1, api="LEADER_AND_ISR", error=0, lie="future_leader_epoch",
                  partition_error=0, leader=3, leader_epoch=2),
            end(s, 100, 2, 5),
            out(s, 200, 2),
        ),
        False,
    ),
}  # fmt: skip


def out(story: Story, t: float, believed: int, **more: Any) -> None:
    read(story, t, believed, **{"type": "fail", "error": 1, **more})


@pytest.mark.parametrize("name", DENIED)
@judging(check)
def test_what_was_told_of_is_in_range(name: str) -> Asks:
    tell, wrong = DENIED[name]
    story = Story()
    story.commit(10, 1, 2)
    story.final_log({o: o for o in range(3, 20)}, leader_epoch=2, log_start_offset=3)
    tell(story)
    found = yield story
    assert found.counts.get("read-refused", 0) == wrong
