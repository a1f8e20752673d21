"""The state-change log: what a controller sent and was answered, and what a broker did about it,
in Kafka's words. The reader that the harness has for Apache Kafka's file reads this broker's lines,
and finds what the broker's own trace says."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.sut.kafka_evidence.lines import Tally
from harness.sut.kafka_evidence.stamps import Stamps
from harness.sut.kafka_evidence.state_change import read_state_changes
from harness.sut.kafka_evidence.values import parse_data
from harness.sut.protocol import ClockTie
from nodes.state_change_log import TRACE
from tests.jsonl import whole_rows
from tests.kip291.control_listener import ControlListener
from tests.kip291.parts import RunningBroker, eventually
from tests.kip291.registry import Registry
from tests.kip291.requests import Sender, leader_and_isr, stop_replica, update_metadata

LEVELS = {"WARNING": "WARN"}


class Lines(logging.Handler):
    """A log4j file as the harness asks Kafka for it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(record.created))
        level = LEVELS.get(record.levelname, record.levelname)
        with self.path.open("a") as file:
            file.write(
                f"[{at},{int(record.msecs):03}] {level} [{record.threadName}] "
                f"{record.getMessage()} ({record.name})\n"
            )

    def texts(self, level: str | None = None) -> list[str]:
        return [r.getMessage() for r in list(self.records) if level in (None, r.levelname)]


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[Lines]:
    logger = logging.getLogger("state.change.logger")
    handler, level = Lines(tmp_path / "state-change.log"), logger.level
    logger.addHandler(handler)
    logger.setLevel(TRACE)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.fixture
def registry(zookeeper: str, zookeeper_chroot: str) -> Iterator[Registry]:
    made = Registry(zookeeper + zookeeper_chroot)
    yield made
    made.close()


def _life_of_a_topic(broker: RunningBroker, registry: Registry, peer: ControlListener) -> None:
    """Created, led by broker 1, then by broker 2, which goes; and deleted."""
    registry.register(2, [(name, peer.port) for name in broker.ports])
    registry.create_topic("t", [[1, 2]])
    eventually(lambda: (registry.state("t") or {}).get("leader") == 1)
    eventually(lambda: any(r.entity.topic_states for r in peer.received))
    registry.unregister(2)
    eventually(lambda: (registry.state("t") or {}).get("isr") == [1])
    registry.register(2, [(name, peer.port) for name in broker.ports])
    registry.delete_topic("t")
    eventually(lambda: registry.state("t") is None)


def test_kafkas_reader_finds_what_the_trace_says(
    start: Callable[..., RunningBroker],
    listener: Callable[[], ControlListener],
    registry: Registry,
    lines: Lines,
) -> None:
    broker = start("dual")
    _life_of_a_topic(broker, registry, listener())
    broker.stop()
    tie = ClockTie(monotonic_minus_wall_ns=0, error_ns=0)
    tally = Tally()
    found = list(read_state_changes(lines.path, Stamps(1, tie, (0,)), tally))
    assert tally.counts[lines.path.name]["unknown"] == 0, tally.to_dict()
    traced = whole_rows(broker.folder / "trace.jsonl")
    for kind, fields in (
        ("leader_change", ("role", "leader", "leader_epoch", "log_end_offset", "high_watermark")),
        ("metadata_update", ("leader",)),
        ("replica_stop", ("leader_epoch", "delete")),
    ):
        keys = ("topic", "partition", "controller_epoch", "correlation_id", *fields)
        said = [tuple(row.get(k) for k in keys) for row in found if row["f"] == kind]
        did = [tuple(row.get(k) for k in keys) for row in traced if row["f"] == kind]
        if kind == "leader_change":
            # The trace has a row for each change of the in-sync set as well, the log a line only
            # for a new leader epoch, as Kafka.
            did = list(dict.fromkeys(did))
        assert said, kind
        assert set(said) <= set(did)
        assert len(said) == len(did) or kind == "leader_change"


def test_what_a_controller_sends_and_is_answered(
    start: Callable[..., RunningBroker],
    listener: Callable[[], ControlListener],
    registry: Registry,
    lines: Lines,
) -> None:
    """INFO: one line for each request. TRACE: each partition, and each answer."""
    broker = start("dual")
    peer = listener()
    _life_of_a_topic(broker, registry, peer)
    epoch = registry.controller_epoch()
    prefix = f"[Controller id=1 epoch={epoch}] "
    info = [t.removeprefix(prefix) for t in lines.texts("INFO") if t.startswith(prefix)]
    trace = [t.removeprefix(prefix) for t in lines.texts("TRACE") if t.startswith(prefix)]
    assert (
        "Sending LeaderAndIsr request to broker 2 with 0 become-leader and 1 become-follower "
        "partitions" in info
    )
    assert (
        "Sending LeaderAndIsr request to broker 1 with 1 become-leader and 0 become-follower "
        "partitions" in info
    )
    assert any(
        re.fullmatch(r"Sending UpdateMetadata request to brokers Set\(1, 2\) .*", t) for t in info
    )
    assert "Sending StopReplica request for 1 replicas to broker 1" in info
    sent = [
        re.fullmatch(r"Sending (become-\w+) LeaderAndIsr request (.*) to broker 2 for .* t-0", t)
        for t in trace
    ]
    states = [(m[1], parse_data(m[2])) for m in sent if m]
    kind, state = states[0]
    assert kind == "become-follower"
    assert (state["topicName"], state["leader"], state["isr"]) == ("t", 1, [1, 2])
    assert state["isNew"] is True
    assert any(
        t.startswith("Sending StopReplica request StopReplicaPartitionState(") for t in trace
    )
    cached = [t for t in lines.texts("TRACE") if "Cached leader info" in t]
    deleted = [t for t in lines.texts("TRACE") if "Deleted partition t-0 from metadata" in t]
    assert cached
    assert deleted
    assert not any("leader=-2," in t for t in cached), "a deletion is no leader"
    answered = [t for t in trace if t.startswith("Received response")]
    of_two = [t for t in answered if f"sent to broker 127.0.0.1:{peer.port} (id: 2)" in t]
    numbers = [int(m[1]) for t in of_two if (m := re.search(r"with correlation id (\d+) ", t))]
    assert numbers, answered
    lar = next(t for t in of_two if "for request LEADER_AND_ISR" in t)
    body = parse_data(lar.removeprefix("Received response ").split(" for request ")[0])
    assert body["errorCode"] == 0
    assert body["topics"][0]["partitionErrors"] == [{"partitionIndex": 0, "errorCode": 0}]


def test_what_a_broker_refuses(
    start: Callable[..., RunningBroker], listener: Callable[[], ControlListener], lines: Lines
) -> None:
    """WARN for what is old, INFO for what is known already."""
    broker = start("dual")
    follower, client = listener(), broker.controller()
    brokers = {1: list(broker.ports.items()), 2: [(n, follower.port) for n in broker.ports]}
    client.ask(update_metadata(brokers, "t", leader=1))
    for leader_epoch in (5, 5, 4):
        client.ask(leader_and_isr("t", leader=1, leader_epoch=leader_epoch))
    client.ask(stop_replica("t", leader_epoch=3))
    old = Sender(controller_epoch=0)
    client.ask(leader_and_isr("t", leader=1, leader_epoch=6, sender=old))
    client.ask(stop_replica("t", sender=old))
    client.ask(update_metadata({}, sender=old))
    warnings = lines.texts("WARNING")
    expected = [
        r"Ignoring LeaderAndIsr request from controller 1 with correlation id 4 epoch 1 for "
        r"partition t-0 since its associated leader epoch 4 is smaller than the current leader "
        r"epoch 5",
        r"Ignoring StopReplica request \(delete=true\) from controller 1 with correlation id 5 "
        r"epoch 1 for partition t-0 since its associated leader epoch 3 is smaller than the "
        r"current leader epoch 5",
        *(
            rf"Ignoring {api} request from controller 1 with correlation id {number} since its "
            r"controller epoch 0 is old. Latest known controller epoch is 1"
            for number, api in ((6, "LeaderAndIsr"), (7, "StopReplica"), (8, "UpdateMetadata"))
        ),
    ]
    assert len(warnings) == len(expected), warnings
    for said, wanted in zip(warnings, expected, strict=True):
        assert re.fullmatch(r"\[Broker id=1\] " + wanted, said)
    assert any("leader epoch 5 matches the current leader epoch" in t for t in lines.texts("INFO"))


def test_traces_cost_nothing_when_nobody_wants_them(
    start: Callable[..., RunningBroker], lines: Lines
) -> None:
    """At INFO, Kafka's default, there is one line a request and none a partition."""
    logging.getLogger("state.change.logger").setLevel(logging.INFO)
    broker = start("dual")
    client = broker.controller()
    client.ask(update_metadata({1: list(broker.ports.items())}, "t", leader=1))
    lines.records.clear()
    client.ask(leader_and_isr("t", leader=1, leader_epoch=0, partitions=5))
    texts = [_without_numbers(t) for t in lines.texts()]
    assert texts.count("[Broker id=1] Handling LeaderAndIsr request correlationId _ from") == 1
    assert texts.count("[Broker id=1] Finished LeaderAndIsr request in _ms correlationId _") == 1
    assert len([t for t in texts if t.startswith("[Broker id=1] Leader t-")]) == 5
    assert len(texts) == 7


def _without_numbers(text: Any) -> str:
    text = re.sub(r"(correlationId|in) \d+", r"\1 _", text)
    return (
        re.sub(r"( from| from) controller.*", r"\1", text)
        if "Handling" in text
        else (text.split(" from ")[0])
    )
