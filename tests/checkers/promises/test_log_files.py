"""Logs as they lie on disk, each defect as a history that is caught beside one that is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.promises.log_files import FOLDERS, LATE, check, misplaced
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging

TOPIC_ID = "Q3o-BIrrTv2gu74u48kt6g"


def runs(*of: tuple[int, int, int]) -> list[dict[str, int]]:
    return [{"leader_epoch": e, "first_offset": f, "last_offset": t} for e, f, t in of]


def begins(*of: tuple[int, int]) -> list[dict[str, int]]:
    return [{"leader_epoch": epoch, "offset": offset} for epoch, offset in of]


def served(story: Story, node: int, end: int = 40, **more: Any) -> None:
    bounds = {"log_start_offset": 0, "log_end_offset": end, "high_watermark": end}
    story.add("log_end", 90_000, node=node, **{"is_leader": node == 1, **bounds, **more})


def folder(story: Story, node: int, **more: Any) -> None:
    found = {
        "segments": 2, "batches": 40, "index_entries": 9, "snapshots": 1,
        "start_offset": 0, "end_offset": 40, "epochs": runs((2, 0, 19), (5, 20, 39)),
        "checkpoint": begins((2, 0), (5, 20)), "topic_id": TOPIC_ID, "damage": [],
    }  # fmt: skip
    story.add("log_folder", 91_000, node=node, **{**found, **more})


def kept(story: Story, **more: Any) -> Story:
    """Two replicas, of which the second's folder is as ``more`` says."""
    for node in (1, 2):
        served(story, node)
    folder(story, 1)
    folder(story, 2, **more)
    return story


def damaged(sort: str) -> dict[str, Any]:
    return {"damage": [{"sort": sort, "file": "00.log", "says": "it is not sound"}]}


@pytest.mark.parametrize("why", ["", "led by itself", "led by another", "killed", "paused"])
@judging(check)
def test_what_a_cut_left_in_an_index_misleads_nobody(story: Story, why: str) -> Asks:
    """Whether there can have been one others tell."""
    kept(story, **damaged("stale-index"))
    match why:
        case "led by itself" | "led by another":
            story.commit(1_000, 2, 0)
            story.commit(2_000, 1 if why == "led by another" else 2, 1)
        case "killed" | "paused":
            event = "kill" if why == "killed" else "pause"
            story.add("node_event", 3_000, node=2, event=event)
    found = yield story
    lawful = why in ("led by another", "killed")
    assert found.counts == ({} if lawful else {"index-misleads": 1})
    excused = {excuse: n for (_, _, _, excuse, _), n in found.excused.items()}
    assert excused == ({"cut-index": 1} if lawful else {})


BROKEN: dict[str, dict[str, Any]] = {
    "batch-damaged": damaged("batch"),
    "index-misleads": damaged("index"),
    "times-otherwise": damaged("times"),
    "producer-went-back": damaged("producer"),
    "producers-otherwise": damaged("snapshot"),
    "producer-forgotten": damaged("forgotten"),
    "epochs-otherwise": damaged("epochs"),
    "not-on-disk": {"end_offset": 39},
    "topic-id-otherwise": {"topic_id": "another"},
}


@judging(check)
def test_a_sound_history(story: Any) -> Asks:
    outcome = yield kept(story)
    assert not outcome.counts
    assert not outcome.unknowns
    assert outcome.evidence[story.arm, 0, FOLDERS] == 2


@pytest.mark.parametrize("rule", BROKEN)
@judging(check)
def test_each_rule(story: Any, rule: str) -> Asks:
    outcome = yield kept(story, **BROKEN[rule])
    assert dict(outcome.counts) == {rule: 1}
    (finding,) = outcome.findings
    assert "t-0 on node 2" in finding.says


LAWFUL: dict[str, dict[str, Any]] = {
    "more than was told": {"end_offset": 41},
    "a leader epoch without records": {"checkpoint": begins((2, 0), (5, 20), (7, 40))},
    "of a log that ends later now": {"checkpoint": begins((2, 0), (5, 20), (7, 99))},
}


@pytest.mark.parametrize("change", LAWFUL)
@judging(check)
def test_what_is_lawful(story: Any, change: str) -> Asks:
    outcome = yield kept(story, **LAWFUL[change])
    assert not outcome.counts
    assert not outcome.unknowns


@judging(check)
def test_a_checkpoint_that_is_missing(story: Any) -> Asks:
    outcome = yield kept(story, checkpoint=[])
    assert dict(outcome.counts) == {"epochs-otherwise": 1}
    assert (
        "offset 0 is of leader epoch 2, and by its checkpoint of None" in outcome.findings[0].says
    )


@pytest.mark.parametrize(
    "kept_of",
    [
        begins((2, 0), (5, 25)),  # one that has no record left
        begins((5, 20)),  # the one that the log begins in, where it once began
    ],
)
@judging(check)
def test_a_checkpoint_begins_no_leader_epoch_below_the_log_s_start(
    story: Any, kept_of: list[dict[str, int]]
) -> Asks:
    served(story, 1, log_start_offset=25)
    folder(story, 1, checkpoint=kept_of)
    outcome = yield story
    assert dict(outcome.counts) == {"epochs-of-the-past": 1}
    assert "and its log at 25" in outcome.findings[0].says


@judging(check)
def test_below_a_log_s_start_nothing_is_told(story: Any) -> Asks:
    """Its segment is there until all of it is to go."""
    served(story, 1, log_start_offset=25)
    folder(story, 1, checkpoint=begins((5, 25)))
    assert not (yield story).counts


@judging(check)
def test_a_topic_id_that_only_some_keep(story: Any) -> Asks:
    outcome = yield kept(story, topic_id=None)
    assert dict(outcome.counts) == {"topic-id-otherwise": 1}


@pytest.mark.parametrize(("topic_id", "counts"), [(None, {}), ("x", {"topic-id-otherwise": 1})])
@judging(check)
def test_where_topic_ids_come_late_some_have_none_yet(
    story: Any, topic_id: str | None, counts: dict[str, int]
) -> Asks:
    story.run["arms"][story.arm][LATE] = True
    outcome = yield kept(story, topic_id=topic_id)
    assert dict(outcome.counts) == counts


@judging(check)
def test_releases_without_topic_ids_and_other_topics(story: Any) -> Asks:
    for node in (1, 2):
        folder(story, node, topic_id=None)
        folder(story, node, topic="other")
    assert not (yield story).counts


@judging(check)
def test_a_folder_that_was_not_read(story: Any) -> Asks:
    served(story, 1)
    served(story, 2, error="the node does not run", log_end_offset=None)
    story.add("log_folder", 91_000, node=1, error="OSError: gone")
    outcome = yield story
    assert not outcome.counts
    assert outcome.unknowns == [
        f"{story.arm}, trial 0: the folder of t-0 on node 1 was not read: OSError: gone"
    ]


@judging(check)
def test_a_log_whose_folder_nobody_tells_of(story: Any) -> Asks:
    for node in (1, 2):
        served(story, node)
    folder(story, 1)
    outcome = yield story
    assert outcome.unknowns == [
        f"{story.arm}, trial 0: nobody tells of the folder of t-0 on node 2"
    ]


Case = tuple[list[dict[str, int]], list[dict[str, int]], int, tuple[int, int, int | None] | None]
CASES: dict[str, Callable[[], Case]] = {
    "as it is": lambda: (runs((2, 0, 19), (5, 20, 39)), begins((2, 0), (5, 20)), 0, None),
    "nothing": lambda: ([], [], 0, None),
    "begins too late": lambda: (runs((2, 0, 9)), begins((2, 1)), 0, (0, 2, None)),
    "begins too early": lambda: (
        runs((2, 0, 19), (5, 20, 39)), begins((2, 0), (5, 19)), 0, (19, 2, 5),
    ),
    "the next begins too late": lambda: (
        runs((2, 0, 19), (5, 20, 39)), begins((2, 0), (5, 21)), 0, (20, 5, 2),
    ),
    "one that was never": lambda: (
        runs((2, 0, 39)), begins((2, 0), (3, 10), (2, 12)), 0, (10, 2, 3),
    ),
    "the last one left out": lambda: (
        runs((2, 0, 19), (5, 20, 39)), begins((2, 0)), 0, (20, 5, 2),
    ),
    "within a run, from the log's start": lambda: (runs((2, 0, 39)), begins((2, 30)), 30, None),
    "a run below the log's start": lambda: (
        runs((2, 0, 19), (5, 20, 39)), begins((5, 25)), 25, None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_misplaced(case: str) -> None:
    epochs, checkpoint, start, wanted = CASES[case]()
    assert misplaced(epochs, checkpoint, start) == wanted


def batches(*of: tuple[int, int, int]) -> list[dict[str, int]]:
    names = ("producer_id", "producer_epoch", "last_sequence")
    return [dict(zip(names, one, strict=True)) for one in of]


KNOWN = batches((7, 0, 11), (8, 0, 3))
OTHERS: dict[str, list[dict[str, int]]] = {
    "none": [],
    "one of them": batches((7, 0, 11)),
    "another last batch": batches((7, 0, 10), (8, 0, 3)),
    "another epoch": batches((7, 1, 11), (8, 0, 3)),
}


@pytest.mark.parametrize("which", OTHERS)
@judging(check)
def test_a_replica_without_the_producers_of_its_leader(story: Any, which: str) -> Asks:
    kept(story, producers=OTHERS[which])
    story.rows["log_folder"][0]["producers"] = KNOWN
    assert (yield story).counts == {"producers-differ": 1}


ALIKE: dict[str, dict[str, Any]] = {
    "the same, told in another order": {"producers": KNOWN[::-1]},
    "a log that ends earlier": {"producers": [], "end_offset": 40, "epochs": runs((2, 0, 19))},
    "a log that begins later": {
        **{"producers": batches((8, 0, 3)), "start_offset": 20},
        "checkpoint": begins((5, 20)),
    },
    "of before it was told": {"producers": None},
}


@pytest.mark.parametrize("why", ALIKE)
@judging(check)
def test_producers_that_may_be_others(story: Any, why: str) -> Asks:
    kept(story, **ALIKE[why])
    story.rows["log_folder"][0]["producers"] = KNOWN
    assert not (yield story).counts


@pytest.mark.parametrize(
    ("producers", "epoch", "node", "broken"),
    [
        ([], 0, 2, True),
        ([], -1, 2, False),
        ([], 0, 1, False),
        (None, 0, 2, False),
        (KNOWN, 0, 2, False),
    ],
)
@judging(check)
def test_records_of_idempotent_producers_lie_in_batches_of_theirs(
    story: Any, producers: Any, epoch: int, node: int, broken: bool
) -> Asks:
    kept(story, producers=producers)
    story.rows["log_folder"][0]["producers"] = None
    story.add("log_read", 90_500, node=node, offset=5, value=5, producer_epoch=epoch)
    assert (yield story).counts == ({"not-on-disk": 1} if broken else {})


def timed(story: Story, *newest: int, start: int = 0, **more: Any) -> Story:
    """Two segments, of offsets 0 to 1 and 2 to 3; a record is of so many ms as its offset says."""
    bounds = {"log_start_offset": start, "log_end_offset": 4, "high_watermark": 4}
    story.add("log_end", 90_000, node=1, is_leader=True, **bounds)
    segments = [
        {"base_offset": base, "bytes": 1, "newest_ms": ms}
        for base, ms in zip((0, 2), newest, strict=True)
    ]
    own = {"epochs": runs((2, 0, 3)), "checkpoint": begins((2, start)), "end_offset": 4}
    folder(story, 1, kept=segments, **own)
    for offset in range(start, 4):
        told = {"append_time_ms": 1_000 + offset, "leader_epoch": 2, "value": offset, **more}
        story.add("log_read", 90_000, node=1, offset=offset, **told)
    return story


@pytest.mark.parametrize(
    ("newest", "more", "broken"),
    [
        ((1_001, 1_003), {}, False),
        ((1_001, 86_401_003), {}, True),  # a day later
        ((1_000, 1_003), {}, True),
        ((1_001, 1_003), {"append_time_ms": 1_000}, True),
        ((7_777, 1_003), {"start": 1}, False),  # what is deleted of it may be of that time
        ((1_001, 7_777), {"append_time_ms": None}, False),
        ((1_001, 7_777), {"append_time_ms": -1}, False),
    ],
)
@judging(check)
def test_a_segments_latest_record_is_as_old_as_it_was_served(
    story: Any, newest: tuple[int, int], more: dict[str, Any], broken: bool
) -> Asks:
    assert (yield timed(story, *newest, **more)).counts == (
        {"times-otherwise": 1} if broken else {}
    )
