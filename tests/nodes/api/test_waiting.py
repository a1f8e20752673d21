"""What an administrative request waits for: that this broker's own metadata shows what was asked
(DelayedCreatePartitions, DelayedDeleteTopics, DelayedElectLeader). Nothing less will do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from nodes.coordination.admin import TopicResult
from nodes.wire.apis import ApiKey
from tests.nodes.api.conftest import BROKER_ID

Row = tuple[int, int, int]
"""Partition, leader, leader epoch, as UpdateMetadata tells them."""
LONG_MS = 600_000
ME, OTHER, NOBODY, DELETED = BROKER_ID, 2, -1, -2


def create(node: Any) -> Any:
    node.admin.propagates = False
    topic = {"name": "t", "num_partitions": 2, "replication_factor": 1}
    return node.send(ApiKey.CREATE_TOPICS, 5, topics=[topic], timeout=LONG_MS)


def grow(node: Any) -> Any:
    node.lead("t", 1)
    made = TopicResult(assignment={0: (1,), 1: (1,), 2: (1,)})
    node.admin.create_partitions = lambda *_, **__: made
    topic = {"name": "t", "count": 3, "assignments": None}
    return node.send(ApiKey.CREATE_PARTITIONS, 3, topics=[topic], timeout=LONG_MS)


def delete(node: Any) -> Any:
    node.lead("t", 2)
    node.admin.propagates = False
    return node.send(ApiKey.DELETE_TOPICS, 4, topic_names=["t"], timeout=LONG_MS)


def elect(node: Any) -> Any:
    """The stand-in of a controller elects this broker."""
    node.lead("t", leader=OTHER)
    topics = [{"topic": "t", "partitions": [0]}]
    return node.send(
        ApiKey.ELECT_LEADERS, 2, election_type=0, topic_partitions=topics, timeout=LONG_MS
    )


@pytest.mark.parametrize(
    ("ask", "not_enough", "enough"),
    [
        (create, [[], [(0, ME, 0)], [(1, NOBODY, 0)]], [(1, OTHER, 1)]),
        (grow, [[], [(1, ME, 0)], [(2, NOBODY, 0)]], [(2, 0, 1)]),
        (delete, [[], [(0, NOBODY, 1)], [(0, DELETED, 0)]], [(1, DELETED, 0)]),
        (elect, [[], [(0, NOBODY, 1)], [(0, OTHER, 2)]], [(0, ME, 3)]),
    ],
)
def test_it_is_answered_when_all_of_it_can_be_seen(
    node: Any,
    topic_state: Callable[..., Any],
    ask: Callable[[Any], Any],
    not_enough: Sequence[Sequence[Row]],
    enough: Sequence[Row],
) -> None:
    reply = ask(node)
    assert not reply.is_done
    for rows in not_enough:
        node.update_metadata([topic_state("t", rows)] if rows else [])
        assert not reply.is_done, rows
    node.update_metadata([topic_state("t", enough)])
    assert reply.wait()


@pytest.mark.parametrize("ask", [create, grow, delete, elect])
def test_other_topics_do_not_count(
    node: Any, topic_state: Callable[..., Any], ask: Callable[[Any], Any]
) -> None:
    reply = ask(node)
    for rows in ([(0, ME, 9), (1, ME, 9), (2, ME, 9)], [(0, DELETED, 0)]):
        node.update_metadata([topic_state("u", rows)])
    assert not reply.is_done


@pytest.mark.parametrize("ask", [create, grow, delete, elect])
def test_at_the_brokers_end_nobody_is_left_waiting(node: Any, ask: Callable[[Any], Any]) -> None:
    """Whoever still waits is told what there is by then; the handlers end behind that."""
    reply = ask(node)
    assert not reply.is_done
    node.apis.shutdown()
    assert reply.wait()


def test_who_tells_of_it_reads_nothing_of_zookeeper(
    node: Any, topic_state: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an UpdateMetadata's handler, with dual planes the control plane's only one: what an
    answer says of brokers' configs was read when it was asked for."""
    read, reads = node.admin.broker_configs, []
    monkeypatch.setattr(
        node.admin, "broker_configs", lambda entity: reads.append(entity) or read(entity)
    )
    reply = create(node)
    assert not reply.is_done
    before = list(reads)
    assert before, "or there would be nothing to it"
    node.update_metadata([topic_state("t", [(0, ME, 0), (1, ME, 0)])])
    assert reply.wait()
    assert reads == before
