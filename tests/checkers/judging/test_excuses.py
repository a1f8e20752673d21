"""What excuses a loss, and on whose word: each with its witness, and the same story without it.

What the suspect says of itself (its stops, "no leader", a torn log while others were in sync)
excuses nothing; what ZooKeeper, the forger or the harness says does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from checkers.judging.excuses import EXCUSES, excuses

MS = 1_000_000


def excuse(story: Any, spark: Any, t: float = 85, offset: int | None = 12) -> str | None:
    """For a record offered at ``t``, or first read then."""
    found = excuses(story.history(spark)).of(story.arm, 0, "t", 0, int(t * MS), offset)
    assert found is None or found in EXCUSES
    return found


# -- the topic was deleted ------------------------------------------------------------------------


def deleted(story: Any, *, gone: float | None = 96, topic: str = "t") -> None:
    story.commit(0, 1, 0)
    story.add("topic_deletion", 92, topic=topic, step="requested")
    if gone is not None:
        story.add("topic_deletion", gone, topic=topic, step="gone")


def test_a_deletion_that_zookeeper_has_excuses_what_came_before(story: Any, spark: Any) -> None:
    deleted(story)
    assert excuse(story, spark, 85) == "deleted"
    assert excuse(story, spark, 96) == "deleted"
    assert excuse(story, spark, 97) is None


def test_a_deletion_that_is_not_over_excuses_all_that_comes(story: Any, spark: Any) -> None:
    deleted(story, gone=None)
    assert excuse(story, spark, 5000) == "deleted"


def test_a_deletion_that_nobody_asked_for_excuses_nothing(story: Any, spark: Any) -> None:
    deleted(story)
    del story.rows["topic_deletion"][0]
    assert excuse(story, spark) is None


def test_another_topics_deletion_excuses_nothing(story: Any, spark: Any) -> None:
    deleted(story, topic="other")
    assert excuse(story, spark) is None


def test_a_brokers_own_word_for_a_deletion_excuses_nothing(story: Any, spark: Any) -> None:
    story.commit(0, 1, 0)
    story.add("replica_stop", 95, node=1, leader_epoch=-2, delete=True)
    story.add("metadata_update", 95, node=1, leader=-2)
    assert excuse(story, spark) is None


@pytest.mark.parametrize(("second", "found"), [("b", "deleted"), ("a", None)])
def test_a_topic_that_was_created_again_lost_its_records(
    story: Any, spark: Any, second: str, found: str | None
) -> None:
    """KRaft: nobody but the topic's id tells."""
    for process in ("node-1", "node-2"):
        more = {"source": "controller", "process": process}
        story.commit(0, 1, 3, incarnation="a", **more)
        story.commit(100, 1, 0, incarnation=second, **more, partition_epoch=9)
    assert excuse(story, spark, 85) == found
    assert excuse(story, spark, 101) is None


def test_where_nobody_says_whether_it_was_created_again(story: Any, spark: Any) -> None:
    story.commit(0, 1, 3)
    story.commit(100, 1, 0)
    assert excuse(story, spark) == "untold"


# -- unclean elections, compaction ----------------------------------------------------------------


def lax(story: Any, *, leader: int = 2, topic: str = "t") -> None:
    story.run["topics"] = {topic: {"configs": {"unclean.leader.election.enable": "true"}}}
    story.commit(0, 1, 0, isr=[1])
    story.commit(100, leader, 1, isr=[leader])


def test_an_unclean_election_excuses(story: Any, spark: Any) -> None:
    lax(story)
    assert excuse(story, spark) == "unclean"


def test_one_that_may_happen_and_did_not_excuses_nothing(story: Any, spark: Any) -> None:
    lax(story, leader=1)
    assert excuse(story, spark) is None


def test_it_excuses_only_the_topic_that_allows_it(story: Any, spark: Any) -> None:
    lax(story, topic="other")
    assert excuse(story, spark) is None


def test_compaction_excuses_where_it_is_configured(story: Any, spark: Any) -> None:
    story.commit(0, 1, 0)
    assert excuse(story, spark) is None
    story.run["topics"] = {"t": {"configs": {"cleanup.policy": "compact"}}}
    assert excuse(story, spark) == "compacted"


@pytest.mark.parametrize(
    ("keys", "deliveries", "found"),
    [
        ("unique", ("once", "once"), None),
        ("unique", ("once", "idempotent"), "compacted"),
        ("unique", ("once", "once-a-leader"), "compacted"),
        ("unique", ("once", None), "compacted"),
        ("unique", (), "compacted"),
        ("some", ("once",), "compacted"),
    ],
)
def test_compaction_takes_nothing_where_each_record_has_a_key_of_its_own_and_lands_once(
    story: Any, spark: Any, keys: str, deliveries: Sequence[str | None], found: str | None
) -> None:
    story.commit(0, 1, 0)
    story.run["topics"] = {"t": {"configs": {"cleanup.policy": "compact"}, "keys": keys}}
    elsewhere = {"process": "o", "role": "producer", "topics": {"o": [0]}, "acks": -1}
    reader = {"process": "c", "role": "consumer", "topics": {"t": [0]}}
    producers = [
        {**elsewhere, "process": f"p{n}", "topics": {"t": [0]}, "delivery": delivery}
        for n, delivery in enumerate(deliveries)
    ]
    clients = [*producers, elsewhere, reader]
    story.run["trials"] = [{"arm": story.arm, "trial": 0, "workloads": clients}]
    assert excuse(story, spark) == found


@pytest.mark.parametrize(
    ("configs", "brokers", "found"),
    [
        ({"delete.retention.ms": "100"}, {}, "compacted"),
        ({"delete.retention.ms": "a moment"}, {}, "compacted"),
        ({"delete.retention.ms": "86400000"}, {}, None),
        ({}, {"log.cleaner.delete.retention.ms": "100"}, "compacted"),
        ({"delete.retention.ms": "86400000"}, {"log.cleaner.delete.retention.ms": "100"}, None),
    ],
)
def test_compaction_takes_what_has_no_value_once_its_time_is_up(
    story: Any, spark: Any, configs: Any, brokers: Any, found: str | None
) -> None:
    story.commit(0, 1, 0)
    compacted = {"cleanup.policy": "compact", **configs}
    story.run["topics"] = {"t": {"configs": compacted, "keys": "unique"}}
    producer = {"process": "p", "role": "producer", "topics": {"t": [0]}, "acks": -1}
    clients = [{**producer, "delivery": "once"}]
    story.run["trials"] = [{"arm": story.arm, "trial": 0, "workloads": clients}]
    story.run["settings"] = {"overrides": brokers}
    assert excuse(story, spark) == found


# -- damaged logs ---------------------------------------------------------------------------------


def torn(story: Any, *nodes: int, mode: str = "cut", **more: Any) -> None:
    """[11, 14) of t-0 is cut off at 80; the nodes are back at 120."""
    where = {"partition": "t-0", "mode": mode, "from_offset": 11, "next_offset": 14, **more}
    for phase, at in (("inject", 80), ("injected", 85), ("heal", 110), ("healed", 120)):
        detail = json.dumps({} if phase == "inject" else where)
        fields = {"fault": "torn-tail", "id": "tear", "phase": phase, "detail": detail}
        story.add("fault", at, nodes=list(nodes), **fields)


def test_what_was_cut_off_the_only_replica_in_sync_is_lost(story: Any, spark: Any) -> None:
    story.commit(0, 1, 0, isr=[1])
    torn(story, 1)
    assert excuse(story, spark) == "damage"
    assert excuse(story, spark, offset=None) == "damage"
    assert excuse(story, spark, offset=10) is None
    assert excuse(story, spark, offset=14) is None


def test_two_torn_nodes_may_be_all_that_is_in_sync(story: Any, spark: Any) -> None:
    story.commit(0, 1, 0, isr=[1, 2])
    torn(story, 1)
    assert excuse(story, spark) is None
    del story.rows["fault"]
    torn(story, 1, 2)
    assert excuse(story, spark) == "damage"


def test_a_tear_that_only_adds_takes_nothing(story: Any, spark: Any) -> None:
    story.commit(0, 1, 0, isr=[1])
    torn(story, 1, mode="garbage", torn_offset=14)
    assert excuse(story, spark) is None


def test_another_partitions_log_is_another_log(story: Any, spark: Any) -> None:
    story.commit(0, 1, 0, isr=[1])
    torn(story, 1, partition="t-1")
    assert excuse(story, spark) is None


def test_alone_long_before_or_after_is_not_alone_while_torn(story: Any, spark: Any) -> None:
    story.commit(-9000, 1, 0, isr=[1], partition_epoch=0)
    story.commit(-8000, 1, 0, isr=[1, 2], partition_epoch=1)
    torn(story, 1)
    story.commit(9000, 1, 0, isr=[1], partition_epoch=2)
    assert excuse(story, spark) is None


def test_an_empty_set_stands_for_the_one_before_it(story: Any, spark: Any) -> None:
    story.commit(0, 1, 0, isr=[1])
    story.commit(10, -1, 1, isr=[])
    torn(story, 1)
    assert excuse(story, spark) == "damage"


# -- forged requests ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"error": 0, "partition_error": 0}, "forged"),
        ({"error": None, "type": "info"}, "forged"),  # nobody knows what became of it
        ({"error": 11}, None),
        ({"error": 0, "partition_error": 11}, None),
        ({"error": 0, "partition_error": 0, "lie": "stale_leader_epoch"}, None),
        ({"error": 0, "partition_error": 0, "api": "UPDATE_METADATA"}, None),
        ({"error": 0, "partition_error": 0, "partition": 1}, None),
    ],
)
def test_only_a_forgery_that_was_believed_excuses(
    story: Any, spark: Any, fields: dict[str, Any], found: str | None
) -> None:
    story.commit(0, 1, 0)
    told = {"api": "LEADER_AND_ISR", "lie": "future_leader_epoch", **fields}
    story.add("forged", 50, node=1, **told)
    assert excuse(story, spark) == found
