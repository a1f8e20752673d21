"""Columns that some rows of a sort have and others lack; and what may be so or so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checkers.history.frames import History
from checkers.promises.evidence.alike import unlike
from tests.checkers.conftest import Story
from tests.checkers.together import said_of_each


def sound() -> Story:
    """Three of each, alike; and of each sort that differs from it one more."""
    story = Story()
    for n in range(3):
        story.produce(10 + n, n, n, error=0)
        story.add("fetch", 20 + n, offset=n, value=n, leader_epoch=0, poll=n)
        story.read(30 + n, 1, 0, error=0, isr=[1], replicas=[1])
        story.read(30 + n, 2, 0, error=0, isr=[1])  # another broker, of another release
        story.add("leader_change", 40 + n, node=1, role="leader", log_end_offset=n)
        write = {"what": "state", "step": "set", "leader": 1, "isr": [1]}
        story.add("zk_write", 50 + n, zxid=n, **write)
        story.add("node_event", 60 + n, node=1, event="ready", detail=str(n), boot=1, seq=n)
        story.add("fault", 70 + n, id=str(n), phase="injected", nodes=[1], took_hold=True, seq=n)
        story.add("phase", 80 + n, name="chaos", event="begin", seq=n)
        story.add("log_end", 90 + n, node=1, log_end_offset=n, log_start_offset=0)
        one = {"node": 1, "to": 2, "api": "UPDATE_METADATA", "partition_epochs": [n]}
        story.add("control_send", 94, enqueue_t=93, **one)
    story.add("control_send", 94, node=1, to=2, api="STOP_REPLICA", enqueue_t=93)
    story.add("log_end", 95, node=2, error="it is down")
    story.add("log_end", 96, node=2, error="it stalled", log_start_offset=0, log_end_offset=9)
    story.produce(15, 7, None, type="info", failure="timeout")
    story.produce(15, 8, None, type="fail", error=6)
    story.add("fetch", 29, topic=None, partition=None, poll=9)
    story.add("metadata", 35, node=1, error=3, partition=None)
    story.add("leader_change", 45, node=1, role="follower", leader=2)
    story.add("zk_write", 55, zxid=9, what="state", step="removed")
    return story


def of_brokers(seq: int | None, *ends: int | None) -> Callable[[Story], Any]:
    """Each told how long its log was, or not, as it took up a role."""

    def edit(story: Story) -> None:
        for node, end in enumerate(ends, 1):
            own = {"node": node, "process": f"node-{node}", "seq": seq}
            story.add("leader_change", 60, role="leader", log_end_offset=end, **own)

    return edit


def lose(kind: str, column: str, *numbers: int) -> Callable[[Story], Any]:
    """Null there."""

    def edit(story: Story) -> None:
        for number in numbers:
            story.rows[kind][number][column] = None

    return edit


LOST: dict[str, Callable[[Story], Any]] = {
    "produce: offset": lose("produce", "offset", 1),
    "produce: acks": lose("produce", "acks", 0, 1),
    "fetch: leader_epoch": lose("fetch", "leader_epoch", 0),
    "metadata: replicas": lose("metadata", "replicas", 2),
    "metadata: leader_epoch": lose("metadata", "leader_epoch", 1),
    "leader_change: log_end_offset": lose("leader_change", "log_end_offset", 2),
    "zk_write: isr": lose("zk_write", "isr", 0),
    "node_event: seq": lose("node_event", "seq", 1),
    "fault: id": lose("fault", "id", 0),
    "phase: name": lose("phase", "name", 0),
    "log_end: topic": lose("log_end", "topic", 0),
    "control_send: partition_epochs": lose("control_send", "partition_epochs", 1),
}
LAWFUL: dict[str, Callable[[Story], Any]] = {
    "as it was": lambda s: None,
    "brokers of old": of_brokers(None, 5, None),
    "brokers that all leave it out": of_brokers(4, None, None),
    "brokers that all tell it": of_brokers(4, 5, 6),
    "nobody tells it": lose("leader_change", "log_end_offset", 0, 1, 2),
    "a fault that has no hold to take": lose("fault", "took_hold", 1),
    "a start of which there is nothing to say": lose("node_event", "detail", 1),
    "a start that nobody counts": lose("node_event", "boot", 2),
    "a record of somebody else": lose("fetch", "value", 1),
    "of another writer": lambda s: s.produce(50, 60, None, acks=0, process="q", error=0),
}


def test_what_one_broker_leaves_out(spark: Any) -> None:
    edits = {"one": of_brokers(4, 5, None), "none": of_brokers(4, 5, 6)}
    told = said_of_each(edits, sound, lambda rows: unlike(History.of(spark, rows)))
    says = "brokers, leader_change: some rows have no log_end_offset, and others that tell of the"
    assert [one.startswith(says) for one in told.pop("one")] == [True]
    assert not told


def of_a_second_try(story: Story, how: str, took_ms: int) -> None:
    """One acknowledgement that names no offset."""
    workload = {"role": "producer", "process": "p", "acks": -1, "delivery": how}
    story.run["trials"] = [{"arm": story.arm, "trial": 0, "workloads": [workload]}]
    row = story.rows["produce"][1]
    row |= {"offset": None, "invoke_t": row["t"] - took_ms * 1_000_000}


def test_who_had_to_send_again_may_be_told_no_offset(spark: Any) -> None:
    """An idempotent producer alone, and not at once."""
    cases = {("idempotent", 60): 0, ("idempotent", 40): 1, ("once", 60): 1}
    for (how, took_ms), n in cases.items():
        story = sound()
        of_a_second_try(story, how, took_ms)
        assert len(unlike(story.history(spark))) == n, (how, took_ms)


def test_what_is_told_of_some(spark: Any) -> None:
    edits = {**LOST, **LAWFUL}
    told = said_of_each(edits, sound, lambda rows: unlike(History.of(spark, rows)))
    assert told.keys() == LOST.keys()
    for name, (says,) in told.items():
        kind, column = name.split(": ")
        assert says.startswith(f"p, {kind}: some rows have no {column}, and others")
