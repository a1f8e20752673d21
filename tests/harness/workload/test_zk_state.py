"""What probers read from ZooKeeper: one whole reading, fresh when something changed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import NoNodeError

from harness.workload import zk_state
from harness.workload.zk_state import ZkState

ZNODES: dict[str, bytes] = {
    "/controller": b'{"version":2,"brokerid":2,"timestamp":"1","kraftControllerEpoch":-1}',
    "/controller_epoch": b"9",
    "/brokers/ids/1": b'{"listener_security_protocol_map":{"C":"SSL"},"endpoints":["C://h:91"],'
    b'"rack":"a","version":5}',
    "/brokers/topics/t": b'{"partitions":{"1":[2,1],"0":[1,2]},'
    b'"topic_id":"AAAAAAAAAAAAAAAAAAAABQ"}',
    "/brokers/topics/t/partitions/0/state": b'{"controller_epoch":8,"leader":1,"version":1,'
    b'"leader_epoch":3,"isr":[1,2]}',
}  # partition 1 has no state yet; broker 2 went away between two reads


class Client:
    """As much of kazoo's client as is used. Every znode is at version 4, czxid 71."""

    def __init__(self, **_options: Any) -> None:
        self.watches: list[Any] = []

    def get(self, path: str, watch: Any = None) -> tuple[bytes, Any]:
        if path not in ZNODES:
            raise NoNodeError
        if watch is not None:
            self.watches.append(watch)
        return ZNODES[path], SimpleNamespace(version=4, czxid=71)

    def get_async(self, path: str) -> Any:
        return SimpleNamespace(get=lambda timeout: self.get(path))

    def get_children(self, _path: str, watch: Any) -> list[str]:
        self.watches.append(watch)
        return ["1", "2"]


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> ZkState:
    monkeypatch.setattr(zk_state, "KazooClient", Client)
    return ZkState("z:1", ("t", "not-made-yet"))


def test_one_reading_is_whole(state: ZkState) -> None:
    state._take_in(state._read())
    found = state.snapshot
    assert found is not None
    assert (found.version, found.controller, found.controller_epoch) == (1, 2, 9)
    assert list(found.brokers) == [1]
    broker = found.brokers[1]
    assert (broker.broker_epoch, broker.rack) == (71, "a")
    assert [(e.listener, e.port, e.security_protocol) for e in broker.endpoints] == [("C", 91, 1)]
    (partition,) = found.partitions
    assert (partition.topic, partition.partition, partition.replicas) == ("t", 0, (1, 2))
    assert (partition.leader_epoch, partition.partition_epoch) == (3, 4)
    assert found.topic_ids == {"t": "AAAAAAAAAAAAAAAAAAAABQ"}
    assert len(state._client.watches) == 3


def test_a_reading_that_says_nothing_new_is_no_new_version(
    state: ZkState, monkeypatch: pytest.MonkeyPatch
) -> None:
    state._take_in(state._read())
    first = state.snapshot
    state._take_in(state._read())
    assert state.snapshot is first
    monkeypatch.setitem(ZNODES, "/controller_epoch", b"10")
    state._take_in(state._read())
    assert state.snapshot is not None
    assert (state.snapshot.version, state.snapshot.controller_epoch) == (2, 10)


def test_without_a_controller_there_is_no_reading(
    state: ZkState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(ZNODES, "/controller")
    with pytest.raises(NoNodeError):
        state._read()
