"""Single requests of a real cluster are held, refused and lost on their way."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from faults import build
from faults.protocol import Capability, Entry, Link
from harness.cluster.ask import NoAnswer, ask, request
from harness.cluster.cluster import Cluster
from harness.runtime.select import get_runtime
from harness.sut.protocol import Planes
from harness.sut.registry import get as get_sut
from nodes.wire.apis import ApiKey

pytestmark = pytest.mark.cluster

PATIENCE_S = 30.0
TOPIC = "held"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder: Path = tmp_path_factory.mktemp("frames")
    runtime = get_runtime("process")
    made = Cluster(
        runtime,
        get_sut("dualplane"),
        Planes.DUAL,
        dir=folder,
        record=lambda _kind, /, **_fields: None,
        rng=random.Random(1),
        overrides={"replica.lag.time.max.ms": "1500", "replica.fetch.wait.max.ms": "200"},
        session_timeout_ms=10_000,
        frames=True,
    )
    try:
        made.start()
        made.admin.create_topic(TOPIC, {0: [1, 2, 3]}, {})
        assert made.wait_full_isr([TOPIC], PATIENCE_S)
        yield made
    finally:
        made.stop()
        runtime.close()


@pytest.fixture
def fault(cluster: Cluster, tmp_path: Path) -> Callable[..., Any]:
    ctx = cluster.context(store=tmp_path, stopping=lambda: False)

    def place(**params: Any) -> tuple[Any, Any]:
        made = build(Entry(id="f", fault="frames", at_ms=0, duration_ms=0, params=params))
        made.inject(ctx)
        return made, ctx

    return place


def until(met: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not met():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def isr(cluster: Cluster) -> set[int]:
    (state,) = cluster.view.partitions(TOPIC)
    return set(state.isr)


def write_one(cluster: Cluster) -> None:
    """A record that its leader alone need have: who holds all that there is does not lag."""
    servers = ",".join(map(str, cluster.bootstrap(Link.CLIENT)))
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "acks": 1})
    producer.produce(TOPIC, b"one")
    assert producer.flush(PATIENCE_S) == 0


def test_a_held_answer_comes_when_it_is_let_go(cluster: Cluster, fault: Any) -> None:
    assert Capability.FRAMES in cluster.capabilities
    address = cluster.address(2, Link.CLIENT)
    answers: list[Any] = []
    held, ctx = fault(
        api="METADATA", action="hold", target="2", link="client", direction="response", times=1
    )
    question = request(ApiKey.METADATA, 9, topics=[])
    asking = threading.Thread(target=lambda: answers.append(ask(address, question, PATIENCE_S)))
    asking.start()
    until(lambda: ctx.frames.count("f-2").applied, "the answer is met")
    assert not answers
    assert ask(cluster.address(1, Link.CLIENT), question, PATIENCE_S).brokers, "another broker's"
    held.heal(ctx)
    asking.join(PATIENCE_S)
    assert len(answers[0].brokers) == 3
    assert held.took_hold


def test_a_dropped_request_is_never_answered(cluster: Cluster, fault: Any) -> None:
    dropped, ctx = fault(api="METADATA", action="drop", target="2", link="client", times=1)
    question = request(ApiKey.METADATA, 9, topics=[])
    with pytest.raises(NoAnswer):
        ask(cluster.address(2, Link.CLIENT), question, 0.5)
    assert ask(cluster.address(2, Link.CLIENT), question, PATIENCE_S).brokers
    dropped.heal(ctx)


def test_a_follower_whose_fetches_wait_leaves_the_set_and_a_refused_expansion_is_tried_again(
    cluster: Cluster, fault: Any
) -> None:
    """Fetches of one follower held at its leader; then the leader's first request to take it back
    answered with an error that the controller never gave."""
    held, ctx = fault(
        api="FETCH", action="hold", target="leader:held-0", sender="3", link="inter-broker"
    )
    write_one(cluster)
    until(lambda: isr(cluster) == {1, 2}, "broker 3 leaves the set")
    ctx.frames.add(
        "refuse", api="ALTER_PARTITION", action="error", error="NOT_CONTROLLER", times=1, client="1"
    )
    held.heal(ctx)
    assert held.detail["applied"] >= 1
    until(lambda: isr(cluster) == {1, 2, 3}, "broker 3 is in the set again")
    count = ctx.frames.remove("refuse")
    assert count.applied == 1
    assert count.matched >= 2, "it was asked for again"
