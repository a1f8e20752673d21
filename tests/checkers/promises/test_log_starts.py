"""Deletions of records, each defect as a history that is caught beside one that is not."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.promises.log_starts import TOLD, check
from checkers.promises.log_starts.deleted_alone import STOOD
from checkers.promises.truncation_loss import check as check_losses
from tests.checkers.conftest import ARM, Story, judged_together

LATEST, EARLIEST = -1, -2
HEALED, LOOKED = 60_000, 80_000


def deleted(story: Story, t: float, offset: int, low: int | None = None, **more: object) -> None:
    low = offset if low is None else low
    story.add("records_deleted", t, **{"node": 1, "offset": offset, "low_watermark": low, **more})


def timed_out(story: Story, t: float, offset: int, **more: object) -> None:
    deleted(story, t, offset, 0, type="info", error=7, **more)


def told(story: Story, t: float, offset: int, asked_ms: int = EARLIEST, **more: object) -> None:
    fields = {"node": 1, "believed_epoch": -1, "found_ms": -1, "error": 0, "leader_epoch": 1}
    story.add("listed_offset", t, asked_ms=asked_ms, offset=offset, **{**fields, **more})


def read(story: Story, t: float, offset: int, error: int = 0, **more: object) -> None:
    fields = {"node": 1, "offset": offset, "error": error, "type": "fail" if error else "ok"}
    story.add("read_below", t, **{**fields, **more})


def led(story: Story, t: float, node: int, role: str = "leader", end: int = 50) -> None:
    who = {"node": node, "role": role, "leader": node, "leader_epoch": 1}
    story.add("leader_change", t, log_end_offset=end, **who)


def lived(story: Story, t: float, node: int, *events: str) -> None:
    for number, event in enumerate(events):
        story.add("node_event", t + number * 100, node=node, event=event)


def ends(story: Story, node: int, start: int, *, end: int = 50, leader: bool = False) -> None:
    bounds = {"log_start_offset": start, "log_end_offset": end, "high_watermark": end}
    story.add("log_end", 90_000, node=node, is_leader=leader, **bounds)


def shortened(start_of_follower: int = 30, isr: tuple[int, ...] = (1, 2)) -> Story:
    """Deleted up to 30 of 50, answered at 20 s; nodes 1 (who leads) and 2 have it."""
    story = Story()
    for node in (1, 2):
        lived(story, 0, node, "start")
        story.add("final_state", LOOKED, node=node, what="node", running=True, registered=True)
    story.commit(100, 1, 1, isr=list(isr))
    led(story, 200, 1)
    led(story, 200, 2, "follower")
    deleted(story, 20_000, 30)
    told(story, 21_000, 30)
    story.add("phase", HEALED, name="heal", event="end")
    story.add("phase", LOOKED, name="settle", event="end")
    story.add(
        "final_state",
        LOOKED,
        what="partition",
        leader=1,
        leader_epoch=1,
        isr=list(isr),
        replicas=[1, 2],
    )
    ends(story, 1, 30, leader=True)
    ends(story, 2, start_of_follower)
    return story


def moved(
    story: Story, *, away: str = "kill", followed: float | None = 22_000, end: int = 50
) -> None:
    """Node 2, which was away from 15 s to 16 s, leads at 25 s, and tells of an earlier beginning;
    its log ended at 40 when it followed again."""
    lived(story, 15_000, 2, away)
    lived(story, 16_000, 2, "resume" if away == "pause" else "start")
    if followed is not None:
        led(story, followed, 2, "follower", end=40)
    led(story, 25_000, 2, end=end)
    told(story, 26_000, 10, node=2)


def anew(story: Story, offset: int = 20) -> None:
    """Node 2 was away, was given nothing since, leads from 25 s on, and deletes at 27 s."""
    moved(story, followed=None)
    deleted(story, 27_000, offset, node=2)


def alone(*ways: str) -> Story:
    """Node 1 has no followers, was away, and tells of an earlier beginning when it leads again."""
    story = shortened()
    for kind in ("leader_change", "log_end"):
        story.rows[kind] = [row for row in story.rows[kind] if row["node"] == 1]
    lived(story, 22_000, 1, *ways)
    led(story, 23_000, 1)
    told(story, 24_000, 10)
    return story


def untold(story: Story) -> Story:
    """No broker tells of what it leads."""
    del story.rows["leader_change"]
    return story


def often(story: Story) -> None:
    """Told so often that one answer is a small share."""
    for number in range(4):
        told(story, 20_500 + number, 30)


def refused(story: Story, error: int) -> None:
    for number in range(3):
        at_t, low = HEALED + 5_000 + 2_000 * number, {"type": "fail", "error": error}
        deleted(story, at_t, 40, 0, invoke_t=at_t - 5, node=1 + number, **low)


def in_vain(
    story: Story, offset: int, error: int = 1, *, node: int = 1, later: int | None = 1
) -> None:
    """Node 1 tells an end of 40 and, after a deletion that was refused, another one."""
    told(story, 22_000, 40, LATEST)
    deleted(story, 23_000, offset, -1, type="fail", error=error, node=node)
    if later is not None:
        told(story, 24_000, 45, LATEST, leader_epoch=later)


def tried(story: Story, times: int = 3) -> None:
    for number in range(times):
        timed_out(story, HEALED + 5_000 + 2_000 * number, 40, invoke_t=HEALED + 4_000)


GONE, BACK = 30_000, 45_000


def without(*, unregistered: float = GONE, back: float = BACK) -> Story:
    """Node 3 has no registration for a while, and is out of the in-sync set as that is seen."""
    story = shortened()
    story.commit(50, 1, 1, partition_epoch=0)
    lived(story, unregistered, 3, "unregistered")
    story.commit(GONE + 50, 1, 1, partition_epoch=2, isr=[1, 2])
    lived(story, back, 3, "registered")
    story.commit(BACK + 500, 1, 1, partition_epoch=3, isr=[1, 2])
    return story


def waited(story: Story, times: int = 3) -> None:
    for number in range(times):
        at_t = GONE + 4_000 + 2_000 * number
        timed_out(story, at_t, 40, invoke_t=at_t - 1_000)


def at_once(story: Story, t: float) -> None:
    for number in range(3):
        timed_out(story, t + 1_000 + 300 * number, 40, invoke_t=t + 300 * number)


def done(story: Story, t: float) -> None:
    deleted(story, t, 41, invoke_t=t - 100)
    for row in story.rows["log_end"]:
        row["log_start_offset"] = 41


def disturbed(story: Story, fault: str, nodes: list[int]) -> None:
    waited(story)
    faulted(story, fault, nodes)


def faulted(story: Story, fault: str, nodes: list[int]) -> None:
    for phase, t in (("inject", GONE - 500), ("injected", GONE), ("healed", GONE + 5_000)):
        story.add("fault", t, fault=fault, phase=phase, id="one", nodes=nodes)


STORIES = {
    # Each rule broken, then what looks alike and is lawful.
    "deleted-too-little": (shortened, lambda s: deleted(s, 70_000, 35, 31)),
    "deleted-too-little:more": (shortened, lambda s: deleted(s, 70_000, 35, 36)),
    "deleted-too-little:timed out": (shortened, lambda s: timed_out(s, 22_000, 35)),
    "deletion-refused": (shortened, lambda s: in_vain(s, 35)),
    "deletion-refused: all that it told": (shortened, lambda s: in_vain(s, 40)),
    "deletion-refused:it had told less": (shortened, lambda s: in_vain(s, 41)),
    "deletion-refused:it led anew": (shortened, lambda s: in_vain(s, 35, later=2)),
    "deletion-refused:it led no more": (shortened, lambda s: in_vain(s, 35, later=None)),
    "deletion-refused:another had told": (shortened, lambda s: in_vain(s, 35, node=2)),
    "deletion-refused:as it led no more": (shortened, lambda s: in_vain(s, 35, error=6)),
    "deleted-uncommitted": (shortened, lambda s: deleted(s, 70_000, 51)),
    "deleted-uncommitted:all there is": (shortened, lambda s: deleted(s, 70_000, 50)),
    "deleted-uncommitted: not yet": (shortened, lambda s: told(s, 20_500, 29, LATEST)),
    "deleted-uncommitted:told before": (shortened, lambda s: told(s, 19_000, 29, LATEST)),
    "deleted-uncommitted:asked before": (
        shortened,
        lambda s: told(s, 20_500, 29, LATEST, invoke_t=19_500),
    ),
    "deleted-uncommitted:by another": (shortened, lambda s: told(s, 22_000, 29, LATEST, node=2)),
    "served-below-start": (shortened, lambda s: read(s, 22_000, 29)),
    "served-below-start: by another": (shortened, lambda s: read(s, 22_000, 29, node=2)),
    "served-below-start:refused": (shortened, lambda s: read(s, 22_000, 29, 1)),
    "served-below-start:who does not lead": (shortened, lambda s: read(s, 22_000, 29, 6)),
    "served-below-start:from the beginning": (shortened, lambda s: read(s, 22_000, 30)),
    "served-below-start:asked before": (
        shortened,
        lambda s: read(s, 20_500, 29, invoke_t=19_500),
    ),
    "served-below-start:who was away": (
        shortened,
        lambda s: (moved(s, followed=None), read(s, 26_500, 29, node=2)),
    ),
    "served-below-start: who was away, and deleted anew": (
        shortened,
        lambda s: (anew(s), read(s, 28_000, 19, node=2)),
    ),
    "served-below-start: by another, what was deleted anew": (
        shortened,
        lambda s: (anew(s), led(s, 27_500, 1), read(s, 28_000, 19)),
    ),
    "served-below-start:who deleted anew, what is there": (
        shortened,
        lambda s: (anew(s), read(s, 28_000, 20, node=2)),
    ),
    "served-below-start:asked before it was deleted anew": (
        shortened,
        lambda s: (anew(s), read(s, 27_100, 19, node=2, invoke_t=26_900)),
    ),
    "served-below-start:another who was away": (
        shortened,
        lambda s: (
            anew(s),
            lived(s, 27_200, 1, "kill", "start"),
            led(s, 27_500, 1),
            read(s, 28_000, 19),
        ),
    ),
    "begins-beyond-end": (
        shortened,
        lambda s: (told(s, 22_000, 33), told(s, 23_000, 32, LATEST)),
    ),
    "begins-beyond-end: a deletion that timed out": (
        shortened,
        lambda s: (timed_out(s, 22_000, 33), told(s, 23_000, 33), told(s, 24_000, 32, LATEST)),
    ),
    "begins-beyond-end:all there is": (
        shortened,
        lambda s: (told(s, 22_000, 33), told(s, 23_000, 33, LATEST)),
    ),
    "begins-beyond-end:asked before": (
        shortened,
        lambda s: (told(s, 22_000, 33), told(s, 23_000, 32, LATEST, invoke_t=21_500)),
    ),
    "begins-beyond-end:by another": (
        shortened,
        lambda s: (told(s, 22_000, 33), told(s, 23_000, 32, LATEST, node=2)),
    ),
    "begins-beyond-end:led by who followed nobody since": (
        shortened,
        lambda s: (
            told(s, 21_500, 33, node=2),
            lived(s, 15_000, 2, "kill", "start"),
            led(s, 22_000, 2, end=40),
            told(s, 23_000, 32, LATEST, node=2),
        ),
    ),
    "start-went-back": (shortened, lambda s: told(s, 22_000, 29)),
    "start-went-back: by another": (shortened, lambda s: told(s, 22_000, 29, node=2)),
    "start-went-back:who had led, and did not know that it does no more": (
        shortened,
        lambda s: (often(s), s.commit(50, 2, 0), told(s, 22_000, 29, node=2)),
    ),
    "start-went-back:who heard later than it was asked": (
        shortened,
        lambda s: (often(s), s.commit(21_900, 2, 2), told(s, 22_000, 29, invoke_t=21_800)),
    ),
    "start-went-back: who leads again": (
        shortened,
        lambda s: (s.commit(50, 2, 0), s.commit(21_500, 2, 2), told(s, 22_000, 29, node=2)),
    ),
    "start-went-back: who is succeeded later": (
        shortened,
        lambda s: (told(s, 22_000, 29), s.commit(24_000, 2, 2)),
    ),
    "start-went-back:asked before": (shortened, lambda s: told(s, 20_500, 0, invoke_t=19_500)),
    "start-went-back:nothing was answered": (
        shortened,
        lambda s: (timed_out(s, 22_000, 40), told(s, 23_000, 30)),
    ),
    "start-went-back: who was given records since": (shortened, moved),
    "start-went-back: who was never away": (
        shortened,
        lambda s: (led(s, 25_000, 2), told(s, 26_000, 10, node=2)),
    ),
    "start-went-back: who was paused, and given records since": (
        shortened,
        lambda s: moved(s, away="pause"),
    ),
    "start-went-back:who was given nothing since": (shortened, lambda s: moved(s, end=40)),
    "start-went-back:who followed nobody since": (shortened, lambda s: moved(s, followed=None)),
    "start-went-back:who followed before": (shortened, lambda s: moved(s, followed=14_000)),
    "start-went-back:who was paused, and followed nobody since": (
        shortened,
        lambda s: moved(s, away="pause", followed=None),
    ),
    "start-went-back: who was away, and deleted anew": (
        shortened,
        lambda s: (anew(s), told(s, 28_000, 19, node=2)),
    ),
    "start-went-back:who deleted anew, and told no more than that": (
        shortened,
        lambda s: (anew(s), told(s, 28_000, 20, node=2)),
    ),
    "start-went-back: who is alone, and stopped in order": (
        lambda: alone("stop", "stopped", "start"),
        lambda s: None,
    ),
    "start-went-back: who is alone, and was paused": (
        lambda: alone("pause", "resume"),
        lambda s: None,
    ),
    "start-went-back:who is alone, and was killed": (
        lambda: alone("kill", "start"),
        lambda s: None,
    ),
    "start-went-back:a black box that was killed": (
        lambda: untold(alone("kill", "start", "ready")),
        lambda s: None,
    ),
    "start-went-back: a black box before anybody was away": (
        lambda: untold(shortened()),
        lambda s: (told(s, 22_000, 29), lived(s, 23_000, 2, "kill", "start", "ready")),
    ),
    "start-went-back:who is alone, and was killed before": (
        lambda: alone("kill", "start", "stop", "stopped", "start"),
        lambda s: None,
    ),
    "start-left-behind": (lambda: shortened(29), lambda s: None),
    "start-left-behind:out of sync": (lambda: shortened(0, (1,)), lambda s: None),
    "start-left-behind:answered at the end": (
        shortened,
        lambda s: deleted(s, HEALED + 100, 40),
    ),
    "start-left-behind:led by who followed nobody": (
        lambda: shortened(10),
        lambda s: (lived(s, 15_000, 2, "kill", "start"), led(s, 25_000, 2)),
    ),
    "start-left-behind: deleted anew by who followed nobody": (
        lambda: shortened(10),
        lambda s: anew(s, 30),
    ),
    "start-left-behind:deleted anew up to there": (lambda: shortened(10), lambda s: anew(s, 10)),
    "never-deleted": (shortened, tried),
    "never-deleted:too seldom tried": (shortened, lambda s: tried(s, 2)),
    "never-deleted:one was done": (
        shortened,
        lambda s: (tried(s), deleted(s, HEALED + 9_000, 41, invoke_t=HEALED + 8_900)),
    ),
    "never-deleted: told so to who asked again": (
        shortened,
        lambda s: (tried(s), deleted(s, HEALED + 12_000, 40, invoke_t=HEALED + 11_900)),
    ),
    "never-deleted:told so to who asked again, of a black box": (
        shortened,
        lambda s: (
            tried(s),
            deleted(s, HEALED + 12_000, 40, invoke_t=HEALED + 11_900),
            s.rows["leadership"][-1].update(source="shown"),
        ),
    ),
    "never-deleted:somebody had yet to come into sync": (
        shortened,
        lambda s: (tried(s), s.commit(HEALED + 8_000, 1, 1, partition_epoch=2, isr=[1, 2])),
    ),
    "never-deleted:nobody was waited for": (
        shortened,
        lambda s: [
            timed_out(s, HEALED + 5_000 + 100 * number, 40, invoke_t=HEALED + 4_990 + 100 * number)
            for number in range(4)
        ],
    ),
    "never-deleted: as if it were not there": (shortened, lambda s: refused(s, 3)),
    "never-deleted: by a policy that there is none of": (shortened, lambda s: refused(s, 44)),
    "never-deleted:by who does not lead": (shortened, lambda s: refused(s, 6)),
    "never-deleted:beyond the end": (shortened, lambda s: refused(s, 1)),
    "never-deleted:not there, to one who knew no better": (
        shortened,
        lambda s: (refused(s, 3), deleted(s, HEALED + 9_000, 40, invoke_t=HEALED + 8_900)),
    ),
    "never-deleted:a replica is out of sync": (lambda: shortened(30, (1,)), tried),
    "waits-for-the-gone": (without, waited),
    "waits-for-the-gone:too seldom tried": (without, lambda s: waited(s, 2)),
    "waits-for-the-gone:one was done": (
        without,
        lambda s: (waited(s), done(s, GONE + 9_000)),
    ),
    "waits-for-the-gone: one was done when it was back": (
        without,
        lambda s: (waited(s), done(s, BACK + 9_000)),
    ),
    "waits-for-the-gone:it was back": (lambda: without(back=GONE + 3_500), waited),
    "waits-for-the-gone:it is registered, and lags": (
        lambda: without(unregistered=BACK - 500),
        waited,
    ),
    "waits-for-the-gone:another is out of sync, and lives": (
        without,
        lambda s: (waited(s), s.commit(GONE + 60, 1, 1, partition_epoch=2, isr=[1])),
    ),
    "waits-for-the-gone:its leader is not among them": (
        without,
        lambda s: (waited(s), s.commit(GONE + 60, -1, 2, partition_epoch=2, isr=[1, 2])),
    ),
    "waits-for-the-gone:who follows is hurt": (without, lambda s: disturbed(s, "toxic", [2])),
    "waits-for-the-gone: who is gone is hurt": (without, lambda s: disturbed(s, "toxic", [3])),
    "waits-for-the-gone:nobody can have heard of it yet": (
        without,
        lambda s: at_once(s, GONE + 200),
    ),
    "waits-for-the-gone:who follows was hurt just now": (
        without,
        lambda s: (faulted(s, "toxic", [2]), at_once(s, GONE + 5_200)),
    ),
    "waits-for-the-gone: who follows was hurt long ago": (
        without,
        lambda s: (faulted(s, "toxic", [2]), at_once(s, GONE + 7_200)),
    ),
    "waits-for-the-gone:a forger says that all live": (
        without,
        lambda s: (
            waited(s),
            s.add("forged", GONE + 100, node=1, api="UPDATE_METADATA", lie="x", error=0),
        ),
    ),
    "waits-for-the-gone: it is told to lead": (
        without,
        lambda s: disturbed(s, "move-leadership", [1, 2]),
    ),
    "waits-for-the-gone:who leads goes on after a pause": (
        without,
        lambda s: (waited(s), lived(s, GONE + 3_900, 1, "resume")),
    ),
}


@pytest.fixture(scope="module")
def judged(spark):
    stories = {}
    for name, (make, break_it) in STORIES.items():
        stories[name] = make()
        break_it(stories[name])
    return judged_together(spark, check, stories)


@pytest.mark.parametrize("name", STORIES)
def test_each_rule_is_broken_by_what_breaks_it_and_by_nothing_else(judged, name):
    rule, _, lawful = name.partition(":")
    broken, why = judged[name]
    assert broken == ({} if lawful and not lawful.startswith(" ") else {rule: 1})
    assert why == []


def test_what_former_leaders_tell_is_counted(spark):
    story = shortened()
    often(story)
    story.commit(50, 2, 0)
    told(story, 22_000, 29, node=2)
    excused = check(story.history(spark)).excused
    assert excused == {(story.arm, 0, "start-went-back", "succeeded", TOLD): 1}
    told(story, 22_100, 29, node=2)
    told(story, 22_200, 30, node=2)  # as it should
    _, reasons = check(story.history(spark)).verdict([(story.arm, 0)])
    assert [why for why in reasons if "had to be excused (succeeded)" in why] == []
    told(story, 22_300, 29, node=2)
    _, reasons = check(story.history(spark)).verdict([(story.arm, 0)])
    assert any("3 of 9 beginnings of logs told had to be excused (succeeded)" in r for r in reasons)


def logged(*, asked: int | None, kind: str = "ok") -> Story:
    """A log that begins at 3; record 1, acknowledged with acks=all, lay below."""
    story = Story()
    story.final_log({offset: offset for offset in range(3, 6)}, log_start_offset=3)
    story.produce(1_000, 1, 1, acks=-1)
    story.produce(1_100, 4, 4, acks=-1)
    if asked is not None:
        deleted(story, 2_000, asked, type=kind, error=0 if kind == "ok" else 7)
    return story


LOSSES = {
    "nobody deleted": (logged(asked=None), {"acked-all-lost", "log-start-moved"}),
    "less was asked for": (logged(asked=1), {"acked-all-lost", "log-start-moved"}),
    "refused": (logged(asked=3, kind="fail"), {"acked-all-lost", "log-start-moved"}),
    "asked for": (logged(asked=3), set()),
    "not answered": (logged(asked=3, kind="info"), set()),
}


@pytest.fixture(scope="module")
def losses(spark):
    return judged_together(
        spark, check_losses, {name: story for name, (story, _) in LOSSES.items()}
    )


@pytest.mark.parametrize("name", LOSSES)
def test_a_log_begins_later_only_where_somebody_had_it_shortened(losses, name):
    assert set(losses[name][0]) == LOSSES[name][1]


def _stopped(
    *,
    node: int = 2,
    ends: str = "resume",
    asked: float = 15_100,
    answered: float = 15_900,
    before: int | None = None,
    node_asked: int = 1,
    isr: tuple[int, ...] = (1, 2),
    configs: dict[str, str] | None = None,
) -> Story:
    """``node`` stands still from 15 s to 16 s, and a deletion up to 30 is answered meanwhile."""
    story = Story()
    story.run["topics"] = {"t": {"configs": configs or {}}}
    for number in (1, 2):
        lived(story, 0, number, "start")
    story.commit(100, 1, 1, isr=list(isr))
    if before is not None:
        timed_out(story, 14_000, before, invoke_t=13_000)
    lived(story, 15_000, node, "pause")
    lived(story, 16_000, node, ends)
    deleted(story, answered, 30, node=node_asked, invoke_t=asked)
    return story


ALONE: dict[str, tuple[Story, bool]] = {
    "a replica stands still": (_stopped(), True),
    "that had been asked for less": (_stopped(before=29), True),
    "that had been asked for as much": (_stopped(before=30), False),
    "asked for before it stood still": (_stopped(asked=14_900), False),
    "answered when it went on": (_stopped(answered=16_001), False),
    "it lost its registration": (_stopped(ends="unregistered"), False),
    "it lost its registration after that": (_stopped(ends="unregistered", answered=15_400), True),
    "it was not in sync": (_stopped(isr=(1,)), False),
    "it is no replica": (_stopped(node=3), False),
    "it answered itself, late": (_stopped(node_asked=2), False),
    "its records go by age as well": (_stopped(configs={"retention.ms": "1"}), False),
}


def test_a_deletion_waits_for_a_replica_that_stands_still(spark: Any) -> None:
    found = judged_together(spark, check, {name: story for name, (story, _) in ALONE.items()})
    assert {name: rules.get("deleted-alone", 0) for name, (rules, _) in found.items()} == {
        name: int(is_found) for name, (_, is_found) in ALONE.items()
    }
    for name, n in (("a replica stands still", 1), ("it is no replica", 0)):
        assert check(ALONE[name][0].history(spark)).evidence[ARM, 0, STOOD] == n
