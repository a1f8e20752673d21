"""Offsets told by leaders, each defect as a history that is caught beside one that is not."""

from __future__ import annotations

import pytest

from checkers.promises.offsets import check
from tests.checkers.conftest import Story, judged_together

LATEST, EARLIEST = -1, -2


def told(
    story: Story, t: float, offset: int, asked_ms: int = LATEST, *, epoch: int = 1, **more: object
) -> None:
    fields = {"node": 1, "believed_epoch": -1, "found_ms": -1, "error": 0, **more}
    story.add("listed_offset", t, asked_ms=asked_ms, offset=offset, leader_epoch=epoch, **fields)


def tells_no_epochs(story: Story) -> None:
    for row in story.rows["listed_offset"]:
        row["leader_epoch"] = -1


def end_of(
    story: Story, t: float, asked: int, offset: int, *, believed: int = 3, told: int | None = None
) -> None:
    epoch = asked if told is None else told
    fields = {"asked_epoch": asked, "leader_epoch": epoch, "offset": offset, "error": 0}
    story.add("epoch_end", t, node=1, believed_epoch=believed, **fields)


def led(
    story: Story,
    t: float,
    epoch: int,
    *,
    node: int = 1,
    role: str = "leader",
    seq: int | None = 0,
) -> None:
    own = {"role": role, "leader": node, "leader_epoch": epoch, "seq": seq}
    story.add("leader_change", t, node=node, **own)


def leapt(story: Story) -> None:
    """Nothing was ever written in leader epoch 2."""
    for row in story.rows["log_read"]:
        row["leader_epoch"] = {1: 1, 2: 1, 3: 3}[row["leader_epoch"]]
    story.rows["epoch_end"] = story.rows["epoch_end"][1:]


def refused(story: Story, believed: int, error: int, **more: object) -> None:
    told(story, 3000, -1, epoch=-1, believed_epoch=believed, type="fail", error=error, **more)


def written() -> Story:
    """Ten records: 0 to 3 of leader epoch 1, 4 to 6 of 2, the rest of 3; one each 100 ms."""
    story = Story()
    for offset in range(10):
        story.add(
            "log_read",
            90_000,
            node=1,
            offset=offset,
            value=offset,
            leader_epoch=1 if offset < 4 else 2 if offset < 7 else 3,
            append_time_ms=1000 + 100 * offset,
        )
    story.add(
        "log_end",
        90_000,
        node=1,
        log_start_offset=0,
        log_end_offset=10,
        high_watermark=10,
        is_leader=True,
    )
    story.produce(1500, 3, 3, acks=-1)
    story.produce(1900, 8, 8, acks=-1)
    told(story, 1100, 0, EARLIEST)
    end_of(story, 2500, 1, 4)
    end_of(story, 2600, 3, 10)
    return story


def begins_anew(
    story: Story, log_end_offset: int, *, t: float = 1200, leader: int = 1, promised: bool = False
) -> None:
    """The leader of epoch 2 had so many records as it took up the lead."""
    leads = {"role": "leader", "leader": 1, "leader_epoch": 2, "log_end_offset": log_end_offset}
    story.add("leader_change", 1150, node=1, **leads)
    story.commit(1140, leader, 2)
    if promised:
        story.produce(1100, 0, 0, acks=-1)
    told(story, t, 0, EARLIEST, epoch=2)
    for _ in range(6):  # what is excused is a small share
        told(story, 1100, 0, EARLIEST)


STORIES = {
    # Each rule broken, then what looks alike and is lawful.
    "begins-otherwise": lambda s: told(s, 1200, 2, EARLIEST),
    "begins-in-another-epoch": lambda s: told(s, 1200, 0, EARLIEST, epoch=2),
    "begins-in-another-epoch:one that kept nothing": lambda s: told(s, 1200, 0, EARLIEST, epoch=0),
    "begins-in-another-epoch: with a record": lambda s: begins_anew(s, 1),
    "begins-in-another-epoch: as others led": lambda s: begins_anew(s, 0, leader=2),
    "begins-in-another-epoch: of what was promised": lambda s: begins_anew(s, 0, promised=True),
    "begins-in-another-epoch:an empty log": lambda s: begins_anew(s, 0),
    "begins-in-another-epoch:none": lambda s: told(s, 1200, 0, EARLIEST, epoch=-1),
    "end-too-early": lambda s: told(s, 2000, 8, epoch=3),
    "end-too-early:to one who asked before": lambda s: told(s, 1900, 8, epoch=3),
    "end-too-early:by a leader of the past": lambda s: told(s, 2000, 7, epoch=2),
    "end-never-committed": lambda s: told(s, 1600, 6, epoch=1),
    "end-never-committed: there is nothing": lambda s: told(s, 2000, 11, epoch=3),
    "end-never-committed: none": lambda s: told(s, 2000, -1, epoch=-1),
    "end-never-committed:none, being refused": lambda s: told(
        s, 2000, -1, epoch=-1, type="fail", error=6
    ),
    "end-never-committed: not appended yet": lambda s: told(s, 1500, 8, epoch=3),
    "end-never-committed:within the clocks' error": lambda s: told(s, 1690, 8, epoch=3),
    "end-never-committed:all of it is": lambda s: told(s, 1600, 4, epoch=1),
    "time-otherwise": lambda s: told(s, 2000, 5, 1350, found_ms=1500, epoch=2),
    "time-otherwise: before it": lambda s: told(s, 2000, 3, 1350, found_ms=1300),
    "time-otherwise: another time": lambda s: told(s, 2000, 4, 1350, found_ms=1401, epoch=2),
    "time-otherwise: another epoch": lambda s: told(s, 2000, 4, 1350, found_ms=1400, epoch=3),
    "time-otherwise: no epoch": lambda s: (
        told(s, 2000, 4, 1350, found_ms=1400, epoch=2),
        told(s, 2100, 4, 1350, found_ms=1400, epoch=-1),
    ),
    "time-otherwise:no epoch, as ever": lambda s: (
        told(s, 2000, 4, 1350, found_ms=1400),
        tells_no_epochs(s),
    ),
    "time-otherwise:the first": lambda s: told(s, 2000, 4, 1350, found_ms=1400, epoch=2),
    "time-otherwise:at it": lambda s: told(s, 2000, 4, 1400, found_ms=1400, epoch=2),
    "time-missed": lambda s: (told(s, 2000, 9, epoch=3), told(s, 2100, -1, 1800, epoch=-1)),
    "time-missed:none that it told of": lambda s: (
        told(s, 2000, 9, epoch=3),
        told(s, 2100, -1, 1801, epoch=-1),
    ),
    "time-missed:by another broker": lambda s: (
        told(s, 2000, 9, epoch=3),
        told(s, 2100, -1, 1800, epoch=-1, node=2),
    ),
    "time-missed: acknowledged since it told an end": lambda s: (
        told(s, 1800, 7, epoch=3),
        told(s, 2000, -1, 1800, epoch=-1),
    ),
    "time-missed:acknowledged since it was asked": lambda s: (
        told(s, 1800, 7, epoch=3),
        told(s, 1900, -1, 1800, epoch=-1),
    ),
    "time-missed:acknowledged by its successor": lambda s: (
        told(s, 1600, 5, epoch=2),
        told(s, 2000, -1, 1800, epoch=-1),
    ),
    "time-missed:by one that never told an end": lambda s: told(s, 2000, -1, 1800, epoch=-1),
    # KIP-207: a leader that does not know yet what is committed of the epochs before says so.
    "time-missed:refused by one that has just been elected": lambda s: (
        told(s, 2000, 9, epoch=3),
        told(s, 2100, -1, 1800, epoch=-1, type="fail", error=78),
    ),
    "time-missed: by one that has been elected anew": lambda s: (
        told(s, 1800, 7, epoch=2),
        told(s, 1900, -1, 1600, epoch=-1, node=1),
        told(s, 2000, 10, epoch=3, node=1),
    ),
    "time-missed: found at a later time": lambda s: (
        told(s, 2000, 10, epoch=3),
        told(s, 2100, -1, 1450, epoch=-1),
        told(s, 2200, 7, 1650, epoch=3, found_ms=1700),
    ),
    "epoch-ends-otherwise": lambda s: end_of(s, 3000, 1, 5),
    "epoch-ends-otherwise: unknown": lambda s: end_of(s, 3000, 2, -1),
    "epoch-ends-otherwise: of none before": lambda s: end_of(s, 3000, 0, 1),
    "epoch-ends-otherwise: of a later epoch": lambda s: end_of(s, 3000, 1, 4, told=2),
    "epoch-ends-otherwise: of an older epoch": lambda s: end_of(s, 3000, 2, 7, told=1),
    "epoch-ends-otherwise:of one that kept nothing": lambda s: end_of(s, 3000, 0, 0, told=0),
    "epoch-ends-otherwise: of one of which it has nothing": lambda s: (
        leapt(s),
        end_of(s, 3000, 2, 7),
    ),
    "epoch-ends-otherwise:of the one before": lambda s: (leapt(s), end_of(s, 3000, 2, 7, told=1)),
    "epoch-ends-otherwise:of none before": lambda s: end_of(s, 3000, 0, 0),
    "epoch-ends-otherwise:a leader that wrote nothing": lambda s: end_of(s, 3000, 2, 6, believed=4),
    "own-epoch-ends-otherwise": lambda s: end_of(s, 3000, 3, -1, told=-1),
    "own-epoch-ends-otherwise: in an older epoch": lambda s: end_of(s, 3000, 3, 7, told=2),
    "own-epoch-ends-otherwise: before what was promised": lambda s: end_of(s, 3000, 3, 8),
    "own-epoch-ends-otherwise:promised since": lambda s: end_of(s, 1900, 3, 8),
    "own-epoch-ends-otherwise:by a leader of the past": lambda s: end_of(s, 3000, 2, 7, believed=2),
    "own-epoch-ends-otherwise:a leader that wrote nothing": lambda s: end_of(
        s, 3000, 4, 10, believed=4
    ),
    "own-epoch-ends-otherwise: behind what came later": lambda s: end_of(s, 1650, 3, 10),
    "own-epoch-ends-otherwise:within the clocks' error": lambda s: end_of(s, 1890, 3, 10),
    "own-epoch-ends-otherwise:what another took in later": lambda s: end_of(
        s, 1350, 1, 5, believed=1
    ),
    "fence-ignored": lambda s: told(s, 3000, 10, epoch=3, believed_epoch=2),
    "end-in-another-epoch": lambda s: (led(s, 2900, 3), told(s, 3000, 7, epoch=2)),
    "end-in-another-epoch: none": lambda s: (
        told(s, 2800, 10, epoch=3),
        led(s, 2900, 3),
        told(s, 3000, 10, epoch=-1),
    ),
    "end-in-another-epoch:none, as ever": lambda s: (
        led(s, 2900, 3),
        told(s, 3000, 10),
        tells_no_epochs(s),
    ),
    "end-in-another-epoch:its own": lambda s: (led(s, 2900, 3), told(s, 3000, 10, epoch=3)),
    "end-in-another-epoch:asked before": lambda s: (led(s, 3000, 3), told(s, 3000, 7, epoch=2)),
    "end-in-another-epoch:another led": lambda s: (
        led(s, 2900, 3, node=2),
        told(s, 3000, 7, epoch=2),
    ),
    "end-in-another-epoch:it follows": lambda s: (
        led(s, 2900, 3, role="follower"),
        told(s, 3000, 7, epoch=2),
    ),
    "end-in-another-epoch:of a topic that was deleted": lambda s: (
        led(s, 2900, 3),
        s.add("topic_deletion", 2950, step="requested"),
        told(s, 3000, 7, epoch=2),
    ),
    "unheard-epoch-served": lambda s: told(s, 3000, 10, epoch=3, believed_epoch=4),
    "unheard-epoch-served:refused": lambda s: told(
        s, 3000, -1, epoch=-1, believed_epoch=4, type="fail", error=75
    ),
    "fenced-for-nothing": lambda s: (s.commit(1000, 1, 3), refused(s, 3, 74)),
    "fenced-for-nothing: as to where an epoch ends": lambda s: (
        s.commit(1000, 1, 3),
        s.add("epoch_end", 3000, node=1, believed_epoch=3, asked_epoch=2, type="fail", error=74),
    ),
    "fenced-for-nothing:a later one is seen soon": lambda s: (
        s.commit(1000, 1, 3),
        s.commit(3900, 2, 4),
        refused(s, 3, 74),
    ),
    "fenced-for-nothing: a later one is committed long after": lambda s: (
        s.commit(1000, 1, 3),
        s.commit(4100, 2, 4),
        refused(s, 3, 74),
    ),
    "fenced-for-nothing:nobody could read what was committed": lambda s: (
        s.commit(1000, 1, 3, source="shown"),
        refused(s, 3, 74),
    ),
    "fenced-for-nothing: who told none": lambda s: (s.commit(1000, 1, 3), refused(s, -1, 74)),
    "fenced-for-nothing: who reads": lambda s: (
        s.commit(1000, 1, 3),
        s.add("read_at", 3000, node=1, believed_epoch=3, offset=10, type="fail", error=74),
    ),
    "fenced-for-nothing:who reads as another leads": lambda s: (
        s.commit(1000, 1, 3),
        s.commit(1500, 2, 4),
        s.add("read_at", 3000, node=1, believed_epoch=3, offset=10, type="fail", error=74),
    ),
    "called-unknown: who told none": lambda s: (s.commit(1000, 1, 3), refused(s, -1, 75)),
    "called-unknown": lambda s: (s.commit(1000, 1, 3), led(s, 2900, 3), refused(s, 2, 75)),
    "called-unknown:its log says so before it does": lambda s: (
        s.commit(1000, 1, 3),
        led(s, 2900, 3, seq=None),
        refused(s, 2, 75),
    ),
    "called-unknown: it followed": lambda s: (
        s.commit(1000, 2, 3),
        led(s, 2900, 3, role="follower"),
        refused(s, 3, 75),
    ),
    "called-unknown:it has begun anew since": lambda s: (
        s.commit(1000, 1, 3),
        led(s, 2500, 3),
        s.add("node_event", 2800, node=1, event="kill"),
        refused(s, 3, 75),
    ),
    "called-unknown: it had begun anew before": lambda s: (
        s.commit(1000, 1, 3),
        s.add("node_event", 2400, node=1, event="start"),
        led(s, 2500, 3),
        refused(s, 3, 75),
    ),
    "called-unknown:its replica was put aside": lambda s: (
        s.commit(1000, 1, 3),
        led(s, 2500, 3),
        s.add("replica_stop", 2800, node=1, leader_epoch=3, delete=True),
        refused(s, 3, 75),
    ),
    "called-unknown:another had taken it up": lambda s: (
        s.commit(1000, 2, 3),
        led(s, 2900, 3, node=2),
        refused(s, 3, 75),
    ),
    "called-unknown:it took it up later": lambda s: (
        s.commit(1000, 1, 3),
        led(s, 3100, 3),
        refused(s, 3, 75),
    ),
    "called-unknown:a later one": lambda s: (
        s.commit(1000, 1, 3),
        led(s, 2900, 3),
        refused(s, 4, 75),
    ),
    "called-unknown:of a topic that was deleted": lambda s: (
        s.commit(1000, 1, 3),
        led(s, 2900, 3),
        s.add("topic_deletion", 2950, step="requested"),
        refused(s, 2, 75),
    ),
    "fence-ignored: a beginning, by who had taken up a later one": lambda s: (
        led(s, 2900, 2, role="follower"),
        told(s, 3000, 0, EARLIEST, believed_epoch=1),
    ),
    "fence-ignored: the end of an epoch, by who had taken up a later one": lambda s: (
        led(s, 2900, 4),
        end_of(s, 3000, 1, 4),
    ),
    "fence-ignored:a beginning, by who took up that one": lambda s: (
        led(s, 2900, 1),
        told(s, 3000, 0, EARLIEST, believed_epoch=1),
    ),
    "fence-ignored:a beginning, by who took up a later one then": lambda s: (
        led(s, 3000, 2),
        told(s, 3000, 0, EARLIEST, believed_epoch=1),
    ),
    "fence-ignored:a beginning, of a topic that was deleted": lambda s: (
        led(s, 2900, 2),
        s.add("topic_deletion", 2950, step="requested"),
        told(s, 3000, 0, EARLIEST, believed_epoch=1),
    ),
    "fence-ignored:the newest": lambda s: told(s, 3000, 10, epoch=3, believed_epoch=3),
    "fence-ignored:refused": lambda s: told(
        s, 3000, -1, epoch=-1, believed_epoch=2, type="fail", error=74
    ),
}


@pytest.fixture(scope="module")
def judged(spark):
    stories = {}
    for name, break_it in STORIES.items():
        stories[name] = written()
        break_it(stories[name])
    return judged_together(spark, check, stories)


@pytest.mark.parametrize("name", STORIES)
def test_each_rule_is_broken_by_what_breaks_it_and_by_nothing_else(judged, name):
    rule, lawful, _ = name.partition(":") if ": " not in name else (name.split(":")[0], "", "")
    assert judged[name] == ({} if lawful else {rule: 1}, [])


def test_without_an_answer_there_is_nothing_to_judge(spark):
    story = written()
    for kind in ("listed_offset", "epoch_end"):
        story.rows.pop(kind)
    _, reasons = check(story.history(spark)).verdict([("bp-single", 0)])
    assert reasons == ["there was nothing to judge in the history"]


def test_what_is_compacted_is_excused(spark):
    story = written()
    told(story, 1200, 2, EARLIEST)
    story.run["topics"] = {"t": {"configs": {"cleanup.policy": "compact"}}}
    outcome = check(story.history(spark))
    assert not outcome.findings
    assert {key[2:4] for key in outcome.excused} == {("begins-otherwise", "compacted")}
