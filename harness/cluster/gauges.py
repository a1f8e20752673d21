"""What a broker's metrics say of the cluster, beside what ZooKeeper holds.

Operators are woken by a handful of gauges (UnderReplicatedPartitions, OfflinePartitionsCount,
ActiveControllerCount, ...), and by no answer of any request. So each broker that serves them, as
MBeans or to Prometheus, is asked for them, past every proxy: in the end, and by faults that made
one of them rise.

Rows: ``described``, with `API` as ``api`` (`checkers.promises.descriptions` judges them).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families as families
from prometheus_client.samples import Sample

from faults.protocol import PartitionState
from harness.cluster.ask import NoAnswer
from harness.cluster.errors import StateUnreadable
from harness.cluster.final_read import PROCESS
from harness.cluster.state import Topic
from harness.cluster.view import ZookeeperView
from harness.sut.protocol import GaugesPage, ServesGauges

if TYPE_CHECKING:
    from harness.cluster.cluster import Cluster

API: Final = "MBeans"
SETTLED_S: Final = 3.0
"""So long a gauge may be that of before: who commits a state tells of it afterwards."""
_POLL_S: Final = 0.1
_TIMEOUT_S: Final = 10.0
_MIN_ISR: Final = "min.insync.replicas"
_OF_REPLICAS: Final = "kafka.server:type=ReplicaManager,name="
OF_REPLICAS: Final = frozenset(
    {"PartitionCount", "LeaderCount", "ReassigningPartitions", "UnderReplicatedPartitions"}
    | {"UnderMinIsrPartitionCount", "AtMinIsrPartitionCount"}
)
_OF_CONTROLLER: Final = "kafka.controller:type=KafkaController,name="

Gauges = Mapping[str, int | None]
"""By MBean name; None: it says that it does not know."""


def record_gauges(cluster: Cluster, node: int, occasion: str = "") -> None:
    """A row for each gauge of which ZooKeeper holds the truth; one with the ``error`` where the
    node serves some and does not answer; none where it serves none. ``occasion``: the id of
    the fault that asks, told as ``name``; "" in the end."""
    view, sut = cluster.view, cluster.sut
    if not isinstance(sut, ServesGauges) or not isinstance(view, ZookeeperView):
        return
    page = sut.gauges_page(cluster.layout(node))
    if page is None:
        return
    asked: dict[str, Any] = {"node": node, "api": API}
    if not occasion:
        asked["process"] = PROCESS
    try:
        min_isr = int(cluster.config(_MIN_ISR) or 1)
        rows = _settled(page, view, node, min_isr, moves_held=bool(occasion))
    except (NoAnswer, StateUnreadable) as error:
        cluster.record("described", **asked, error=str(error))
        return
    for row in rows:
        cluster.record("described", **asked, name=occasion, **row)


def _settled(
    page: GaugesPage, view: ZookeeperView, node: int, min_isr: int, *, moves_held: bool
) -> list[dict[str, Any]]:
    def true() -> dict[str, int]:
        return {
            name: value
            for name, value in truth(view, node, min_isr, moves_held=moves_held)
            if page.samples is None or _short(name) in page.samples
        }

    deadline = time.monotonic() + SETTLED_S
    while True:
        before = true()
        rows = list(compared(read(page), before, true()))
        if all(row["told"] == row["truth"] for row in rows) or time.monotonic() > deadline:
            return rows
        time.sleep(_POLL_S)


def compared(told: Gauges, before: Gauges, after: Gauges) -> Iterator[dict[str, Any]]:
    """As of `harness.cluster.descriptions.compared`; of gauges that have a truth."""
    for name in sorted(before.keys() & after.keys()):
        known = before[name] == after[name]
        said = told.get(name)
        yield {
            "key": _short(name),
            "told": None if said is None else str(said),
            "truth": str(before[name]) if known else None,
            "known": known,
        }


def truth(
    view: ZookeeperView, node: int, min_isr: int, *, moves_held: bool = False
) -> Iterator[tuple[str, int]]:
    """What the gauges of a broker that hears of everything say. ``min_isr``: where a topic has no
    setting of its own; ``moves_held``: what is being moved is kept from its end. Raises
    `StateUnreadable`, also of who hears of nothing."""
    live, controller = set(view.live_brokers()), view.controller()
    if node not in live or controller is None:
        raise StateUnreadable("it is not registered, or there is no controller to tell it of any")
    asked_for = {what for what, _ in view.pending()} & {"deletion", "reassignment"}
    topics, states = view.topics(), view.partitions()
    least = {t.name: int(view.settings(t.name).get(_MIN_ISR, min_isr)) for t in topics}
    yield _OF_CONTROLLER + "ActiveControllerCount", int(node == controller)
    if asked_for:
        # Who hosts what changes step by step.
        if moves_held and asked_for == {"reassignment"}:
            yield from _of_moves(topics, states, node)
        return
    for name, count in _of_replicas(states, node, least):
        yield _OF_REPLICAS + name, count
    for name, count in _of_cluster(states, live):
        yield _OF_CONTROLLER + name, count if node == controller else 0
    yield _OF_CONTROLLER + "GlobalTopicCount", len(topics) if node == controller else 0


def _of_replicas(
    states: Sequence[PartitionState], node: int, least: Mapping[str, int]
) -> Iterator[tuple[str, int]]:
    led = [s for s in states if s.leader == node]
    yield "PartitionCount", sum(node in s.replicas for s in states)
    yield "LeaderCount", len(led)
    yield "UnderReplicatedPartitions", sum(len(s.isr) < len(s.replicas) for s in led)
    few = [(len(s.isr), min(least[s.topic], len(s.replicas))) for s in led]
    yield "UnderMinIsrPartitionCount", sum(isr < enough for isr, enough in few)
    yield "AtMinIsrPartitionCount", sum(isr == enough for isr, enough in few)
    yield "ReassigningPartitions", 0


def _of_moves(
    topics: Sequence[Topic], states: Sequence[PartitionState], node: int
) -> Iterator[tuple[str, int]]:
    """A replica that is yet to come is not missed by anybody (KIP-352)."""
    adding = {(t.name, p): set(replicas) for t in topics for p, replicas in t.adding.items()}
    led = [s for s in states if s.leader == node]
    missed = [
        len(s.isr) < len(set(s.replicas) - adding.get((s.topic, s.partition), set())) for s in led
    ]
    yield _OF_REPLICAS + "UnderReplicatedPartitions", sum(missed)
    yield _OF_REPLICAS + "ReassigningPartitions", sum((s.topic, s.partition) in adding for s in led)


def _of_cluster(states: Sequence[PartitionState], live: set[int]) -> Iterator[tuple[str, int]]:
    yield "ActiveBrokerCount", len(live)
    yield "GlobalPartitionCount", len(states)
    yield "OfflinePartitionsCount", sum(s.leader not in live for s in states)
    yield "PreferredReplicaImbalanceCount", sum(s.leader != s.replicas[0] for s in states)
    yield "TopicsToDeleteCount", 0


def _short(name: str) -> str:
    return name.rpartition("=")[2]


def read(page: GaugesPage) -> Gauges:
    """Raises `NoAnswer`, also where a sample is not on the page."""
    if page.samples is None:
        told = read_mbeans(page.url)
        return {name: _whole(attributes.get("Value")) for name, attributes in told.items()}
    try:
        text = _body(page.url)
        samples = [sample for family in families(text) for sample in family.samples]
        return {
            (_OF_REPLICAS if name in OF_REPLICAS else _OF_CONTROLLER) + name: _sum(samples, wanted)
            for name, wanted in page.samples.items()
        }
    except (OSError, HTTPException, ValueError) as error:
        raise NoAnswer(f"{page.url}: {error}") from error


def read_mbeans(url: str) -> Mapping[str, Mapping[str, float | None]]:
    """MBean name -> attribute -> value, None where it is NaN. Raises `NoAnswer`."""
    try:
        told: Mapping[str, Mapping[str, float | None]] = json.loads(_body(url))
    except (OSError, HTTPException, ValueError) as error:
        raise NoAnswer(f"{url}: {error}") from error
    return told


def _body(url: str) -> str:
    with urlopen(url, timeout=_TIMEOUT_S) as answer:
        text: str = answer.read().decode()
    return text


def _sum(samples: Sequence[Sample], wanted: str) -> int | None:
    """Of all samples of that name which have those labels. Raises ValueError where none has."""
    ((asked,),) = (family.samples for family in families(f"{wanted} 0\n"))
    found = [
        sample.value
        for sample in samples
        if sample.name == asked.name and sample.labels.items() >= asked.labels.items()
    ]
    if not found:
        raise ValueError(f"there is no {wanted}")
    return _whole(sum(found))


def _whole(value: float | None) -> int | None:
    """NaN: it does not know."""
    return None if value is None or math.isnan(value) else int(value)
