"""What was committed: epochs and their ends, lives of a topic, and epochs that went back."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.facts.leadership import Leadership, leadership


def known(story: Any, spark: Any) -> Leadership:
    (found,) = leadership(story.history(spark)).values()
    return found


def fall(story: Any, *, to: int = 0, **second: Any) -> None:
    """Leader epochs 0 to 3, and then ``to``, in the same znode unless ``second`` says otherwise."""
    for leader_epoch in range(4):
        story.commit(10 * leader_epoch, 1, leader_epoch, incarnation="77")
    fields = {"partition_epoch": 4, "incarnation": "77", **second}
    story.commit(100, 2, to, **fields)


def gone(story: Any, t: float = 50, topic: str = "t") -> None:
    story.add("topic_deletion", t, topic=topic, step="gone")


def test_a_leader_epoch_that_goes_back_is_no_new_topic(story: Any, spark: Any) -> None:
    fall(story)
    found = known(story, spark)
    assert found.incarnations == 1
    (regression,) = found.regressions
    assert (regression.before["leader_epoch"], regression.after["leader_epoch"]) == (3, 0)
    assert regression.sure
    assert (found.newest, found.last.leader_epoch, found.last.leader) == (3, 0, 2)
    assert found.last.committed_t == 100_000_000


def test_a_topic_that_was_deleted_begins_anew(story: Any, spark: Any) -> None:
    fall(story, partition_epoch=0, incarnation="99")
    gone(story)
    found = known(story, spark)
    assert found.incarnations == 2
    assert found.reborn_t == [100_000_000]
    assert not found.regressions


def test_a_znode_made_anew_is_no_deletion(story: Any, spark: Any) -> None:
    """Somebody removed and made the state znode; ZooKeeper's log knows of no deletion."""
    fall(story, partition_epoch=0, incarnation="99")
    gone(story, topic="another")
    found = known(story, spark)
    assert found.incarnations == 1
    assert [r.after["incarnation"] for r in found.regressions] == ["99"]


def test_one_deletion_is_worth_one_new_life(story: Any, spark: Any) -> None:
    fall(story, partition_epoch=0, incarnation="99")
    gone(story)
    story.commit(200, 1, 0, incarnation="120")
    found = known(story, spark)
    assert found.incarnations == 2
    assert [r.after["incarnation"] for r in found.regressions] == ["120"]


def test_another_topic_id_is_another_topic(story: Any, spark: Any) -> None:
    """Copies of a metadata log: no ZooKeeper tells of deletions."""
    for process in ("node-1", "node-2"):
        more = {"source": "controller", "process": process}
        story.commit(0, 1, 0, incarnation="a", **more)
        story.commit(10, 1, 1, incarnation="a", **more)
        story.commit(20, 2, 0, incarnation="b", **more)
    found = known(story, spark)
    assert found.incarnations == 2
    assert not found.regressions


@pytest.mark.parametrize("copies", [1, 2])
def test_the_end_of_one_copy_of_a_metadata_log_proves_nothing(
    story: Any, spark: Any, copies: int
) -> None:
    """What a deposed controller appended and nobody committed is lawful at the end of its copy."""
    more = {"source": "controller", "incarnation": "a"}
    for process in ("node-1", "node-2"):
        story.commit(0, 1, 0, process=process, **more)
        story.commit(30, 3, 1, process=process, **more, partition_epoch=3)
    for copy in range(copies):
        story.commit(10, 2, 2, process=f"node-{copy + 1}", **more, partition_epoch=2)
    assert len(known(story, spark).regressions) == copies - 1


def test_versions_order_states_whenever_they_were_seen(story: Any, spark: Any) -> None:
    """A state that only ZooKeeper's log told has the time of the one after it."""
    story.commit(0, 1, 0, incarnation="77")
    story.commit(20, 3, 2, incarnation="77")
    story.commit(21, 2, 1, incarnation="77")
    found = known(story, spark)
    assert not found.regressions
    assert found.last.leader_epoch == 2


def test_histories_that_do_not_name_lives_go_by_deletions(story: Any, spark: Any) -> None:
    fall(story, incarnation=None, partition_epoch=0)
    for row in story.rows["leadership"]:
        row["incarnation"] = None
    gone(story)
    assert known(story, spark).incarnations == 2
    story.rows["topic_deletion"][0]["topic"] = "another"
    found = known(story, spark)
    assert found.incarnations == 1
    assert [r.sure for r in found.regressions] == [True]


def test_where_nobody_tells_of_deletions_nobody_knows(story: Any, spark: Any) -> None:
    fall(story, incarnation=None, partition_epoch=0)
    for row in story.rows["leadership"]:
        row["incarnation"] = None
    found = known(story, spark)
    assert found.unsure
    assert [r.sure for r in found.regressions] == [False]
    assert found.incarnations == 2  # nobody is accused on that ground


def test_only_a_leader_from_outside_the_in_sync_set_is_unclean(story: Any, spark: Any) -> None:
    story.commit(0, 1, 0, isr=[1, 2])
    story.commit(10, 2, 1, isr=[2])
    story.commit(20, -1, 2, isr=[2])
    assert not known(story, spark).unclean
    story.commit(30, 3, 3, isr=[3])
    assert [row["leader_epoch"] for row in known(story, spark).unclean] == [3]


def test_the_stores_own_clock_tells_the_earliest_commit(story: Any, spark: Any) -> None:
    story.commit(500, 1, 0, commit_ms=490)
    story.commit(600, 2, 1)
    first, second = known(story, spark).epochs
    assert (first.earliest_t, first.committed_t) == (490_000_000 - 100_000, 500_000_000)
    assert second.earliest_t == 600_000_000 - 1_000_000_000


def test_the_writer_dates_what_the_watch_has_as_well(story: Any, spark: Any) -> None:
    """A watch is told later than the controller is answered; what only the writer tells of is not
    known to be committed."""
    story.commit(0, 1, 0, incarnation="77")
    story.commit(100, 2, 1, incarnation="77", commit_ms=90)
    story.commit(92, 2, 1, source="controller", process="node-3")
    story.commit(95, 3, 2, source="controller", process="node-3")
    story.commit(96, 1, 0, source="controller", process="node-3")
    found = known(story, spark)
    assert [e.leader_epoch for e in found.epochs] == [0, 1]
    assert found.epochs[1].committed_t == 92_000_000
    assert found.epochs[1].earliest_t == 90_000_000 - 100_000
    assert not found.regressions
