"""What a broker believes after any row of UpdateMetadata requests, against a model of a few dicts
(ZkMetadataCache.updateMetadata)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.core.types import TopicPartition
from nodes.replication.metadata_cache import MetadataCache
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.build import build

DELETED = -2
Row = tuple[int, int, int]
"""Partition, leader, leader epoch."""
Told = tuple[str, int, list[Row]]
"""Topic, number of its id (0: none), rows."""


def update(
    topics: list[Told], brokers: dict[int, int], controller_id: int = 1, version: int = 8
) -> Any:
    """`brokers`: id -> port."""
    return build(
        request_class(ApiKey.UPDATE_METADATA, version),
        controller_id=controller_id,
        controller_epoch=1,
        broker_epoch=-1,
        topic_states=[
            {
                "topic_name": name,
                **({"topic_id": UUID(int=number)} if version >= 7 else {}),
                "partition_states": [
                    {
                        "partition_index": partition,
                        "controller_epoch": 7,
                        "leader": leader,
                        "leader_epoch": leader_epoch,
                        "isr": [leader],
                        "zk_version": leader_epoch + 3,
                        "replicas": [leader, 9],
                        "offline_replicas": [9],
                    }
                    for partition, leader, leader_epoch in rows
                ],
            }
            for name, number, rows in topics
        ],
        live_brokers=[
            {
                "id_": broker_id,
                "endpoints": [
                    {"port": port, "host": "h", "listener": "L", "security_protocol": 0},
                    {"port": port + 1, "host": "i", "listener": "M", "security_protocol": 0},
                ],
                "rack": f"r{broker_id}",
            }
            for broker_id, port in brokers.items()
        ],
    )


rows = st.dictionaries(
    st.integers(0, 3),
    st.tuples(st.sampled_from([DELETED, -1, 1, 2]), st.integers(0, 5)),
    max_size=4,
)
topics = st.dictionaries(
    st.sampled_from("tuv"), st.tuples(st.sampled_from([0, 1, 2]), rows), max_size=3
)
updates = st.lists(
    st.tuples(topics, st.dictionaries(st.integers(1, 4), st.integers(1, 9)), st.integers(-2, 3)),
    max_size=6,
)


@settings(max_examples=60)
@given(said=updates)
def test_any_row_of_updates(said: list[Any]) -> None:
    cache = MetadataCache(1)
    states: dict[TopicPartition, tuple[int, int]] = {}
    ids: dict[str, int] = {}
    for drawn, brokers, controller_id in said:
        told = {n: (i and ord(n) * 10 + i, r) for n, (i, r) in drawn.items()}  # one topic's alone
        gone = set()
        for name, (number, of) in told.items():
            ids.pop(name, None)
            if number:
                ids[name] = number
            for partition, (leader, leader_epoch) in of.items():
                tp = TopicPartition(name, partition)
                if leader == DELETED:
                    had = any(tp.topic == name for tp in states)
                    states.pop(tp, None)
                    gone.add(tp)
                    if had and not any(tp.topic == name for tp in states):
                        ids.pop(name, None)
                else:
                    gone.discard(tp)
                    states[tp] = (leader, leader_epoch)
        before = cache.snapshot
        request = update(
            [(n, i, [(p, *r) for p, r in of.items()]) for n, (i, of) in told.items()],
            brokers,
            controller_id,
        )
        assert set(cache.update(request)) == gone
        assert cache.snapshot.version == before.version + 1
        assert cache.controller_id == (controller_id if controller_id >= 0 else -1)
        assert {
            TopicPartition(t, p): (s.leader, s.leader_epoch)
            for t, of in cache.topics().items()
            for p, s in of.items()
        } == states
        assert set(cache.topics()) == {tp.topic for tp in states}
        assert {t: i.int for t, i in cache.snapshot.topic_ids.items()} == ids
        for name, number in ids.items():
            assert cache.topic_name(UUID(int=number)) == name
        assert len(cache.snapshot.topic_names) == len(ids)
        assert {
            i: (cache.broker_endpoint(i, "L"), cache.broker_endpoint(i, "M"))
            for i in cache.alive_brokers()
        } == {i: (("h", port), ("i", port + 1)) for i, port in brokers.items()}
        for i in range(6):
            assert cache.is_alive(i) == (i in brokers)
            assert cache.broker_endpoint(i, "N") is None


def test_all_that_is_told_of_a_partition_is_kept() -> None:
    cache = MetadataCache(1)
    assert cache.update(update([("t", 1, [(0, 2, 4)])], {2: 5})) == []
    state = cache.partition_state("t", 0)
    assert state is not None
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (2, 4, 7)
    assert (state.isr, state.replicas, state.offline_replicas) == ((2,), (2, 9), (9,))
    assert state.controller_epoch == 7
    assert (len(cache.snapshot.topics["t"]), cache.contains("u")) == (1, False)
    assert (cache.contains("t"), cache.contains("u")) == (True, False)
    assert cache.alive_brokers()[2].rack == "r2"


def test_who_reads_has_what_there_was_when_it_began() -> None:
    cache = MetadataCache(1)
    cache.update(update([("t", 1, [(0, 2, 4), (1, 2, 4)]), ("u", 2, [(0, 1, 0)])], {2: 5}))
    seen = cache.snapshot
    of_t, of_u = seen.topics["t"], seen.topics["u"]
    cache.update(update([("t", 1, [(0, DELETED, 0), (1, 3, 5)])], {3: 6}))
    assert (seen.topics["t"], seen.topics["u"]) == (of_t, of_u)
    assert (len(of_t), of_t[1].leader, set(seen.brokers)) == (2, 2, {2})
    assert cache.topics()["u"] is of_u, "shared"
    assert cache.partition_state("t", 0) is None


@pytest.mark.parametrize("version", [5, 6])
def test_a_request_of_a_version_without_ids_takes_them_away(version: int) -> None:
    """Of the topics that it names."""
    cache = MetadataCache(1)
    cache.update(update([("t", 1, [(0, 1, 0)]), ("u", 2, [(0, 1, 0)])], {}))
    cache.update(update([("t", 0, [(0, 1, 1)])], {}, version=version))
    assert (cache.topic_id("t"), cache.topic_id("u")) == (None, UUID(int=2))
    assert cache.topic_name(UUID(int=1)) is None
