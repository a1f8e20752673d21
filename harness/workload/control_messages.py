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

from collections.abc import Collection

from harness.cluster import control_requests
from harness.cluster.control_requests import Sender
from harness.workload.zk_state import Snapshot
from nodes.wire.codec import encode_request


def leader_and_isr(snapshot: Snapshot, node: int, client_id: str) -> bytes | None:
    """The frame for ``node``, with those partitions that it hosts; None when not registered."""
    sender = _sender(snapshot, node)
    if sender is None:
        return None
    own = [p for p in snapshot.partitions if node in p.replicas]
    request = control_requests.leader_and_isr(sender, own, snapshot.topic_ids, snapshot.brokers)
    return encode_request(request, 0, client_id)


def update_metadata(
    snapshot: Snapshot, node: int, client_id: str, topics: Collection[str] = ()
) -> bytes | None:
    """The frame for ``node``, with the partitions of ``topics``; None when it is not registered."""
    sender = _sender(snapshot, node)
    if sender is None:
        return None
    told = [p for p in snapshot.partitions if p.topic in topics]
    request = control_requests.update_metadata(sender, told, snapshot.topic_ids, snapshot.brokers)
    return encode_request(request, 0, client_id)


def _sender(snapshot: Snapshot, node: int) -> Sender | None:
    """The true controller, to the true life of ``node``."""
    broker = snapshot.brokers.get(node)
    if broker is None:
        return None
    return Sender(
        controller_id=snapshot.controller,
        controller_epoch=snapshot.controller_epoch,
        broker_epoch=broker.broker_epoch,
    )
