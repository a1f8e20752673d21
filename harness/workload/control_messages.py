"""Control requests that change nothing: they tell brokers what they have been told already.

- LeaderAndIsr with each partition's current leader epoch: a broker that has it answers 0 at the
  top, 11 for each partition (an equal epoch is not newer), and leaves everything as it is.
- UpdateMetadata with the registered brokers, and by default no partition: answered 0. It is *not*
  fenced by leader epochs, so one that named a partition, was built before a move and handled after
  the controller's own would put a broker's metadata back, and the harness would find what it had
  done itself. For the same reason it has no place in a run in which brokers come and go: it
  replaces the list of live brokers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from harness.workload.zk_state import Partition, Snapshot
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.codec import build, encode_request

VERSIONS: Final = {ApiKey.LEADER_AND_ISR: 7, ApiKey.UPDATE_METADATA: 8}
_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


def _by_topic(partitions: Sequence[Partition], states: Sequence[dict[str, Any]]) -> list[Any]:
    topics: dict[str, dict[str, Any]] = {}
    for partition, state in zip(partitions, states, strict=True):
        topic = topics.setdefault(
            partition.topic,
            {
                "topic_name": partition.topic,
                "topic_id": partition.topic_id,
                "partition_states": [],
            },
        )
        topic["partition_states"].append(state)
    return list(topics.values())


def leader_and_isr(snapshot: Snapshot, node: int, client_id: str) -> bytes | None:
    """The frame for ``node``, with those partitions that it hosts; None when not registered."""
    if node not in snapshot.brokers:
        return None
    own = [p for p in snapshot.partitions if node in p.replicas]
    states = [
        {
            "partition_index": p.partition,
            "controller_epoch": p.controller_epoch,
            "leader": p.leader,
            "leader_epoch": p.leader_epoch,
            "isr": list(p.isr),
            "partition_epoch": p.partition_epoch,
            "replicas": list(p.replicas),
        }
        for p in own
    ]
    leaders = sorted({p.leader for p in own} & snapshot.brokers.keys())
    request = build(
        request_class(ApiKey.LEADER_AND_ISR, VERSIONS[ApiKey.LEADER_AND_ISR]),
        controller_id=snapshot.controller,
        controller_epoch=snapshot.controller_epoch,
        broker_epoch=snapshot.brokers[node].broker_epoch,
        type_=0,
        topic_states=_by_topic(own, states),
        live_leaders=[
            {
                "broker_id": leader,
                "host_name": snapshot.brokers[leader].endpoints[0][2],
                "port": snapshot.brokers[leader].endpoints[0][3],
            }
            for leader in leaders
        ],
    )
    return encode_request(request, 0, client_id)


def update_metadata(
    snapshot: Snapshot, node: int, client_id: str, topics: Collection[str] = ()
) -> bytes | None:
    """The frame for ``node``, with the partitions of ``topics``; None when it is not registered."""
    if node not in snapshot.brokers:
        return None
    partitions = [p for p in snapshot.partitions if p.topic in topics]
    states = [
        {
            "partition_index": p.partition,
            "controller_epoch": p.controller_epoch,
            "leader": p.leader,
            "leader_epoch": p.leader_epoch,
            "isr": list(p.isr),
            "zk_version": p.partition_epoch,
            "replicas": list(p.replicas),
            "offline_replicas": [r for r in p.replicas if r not in snapshot.brokers],
        }
        for p in partitions
    ]
    request = build(
        request_class(ApiKey.UPDATE_METADATA, VERSIONS[ApiKey.UPDATE_METADATA]),
        controller_id=snapshot.controller,
        controller_epoch=snapshot.controller_epoch,
        broker_epoch=snapshot.brokers[node].broker_epoch,
        topic_states=_by_topic(partitions, states),
        live_brokers=[
            {
                "id_": broker_id,
                "endpoints": [
                    {
                        "port": port,
                        "host": host,
                        "listener": listener,
                        "security_protocol": _PROTOCOLS[protocol],
                    }
                    for listener, protocol, host, port in broker.endpoints
                ],
                "rack": broker.rack,
            }
            for broker_id, broker in sorted(snapshot.brokers.items())
        ],
    )
    return encode_request(request, 0, client_id)
