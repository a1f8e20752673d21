"""A run that goes on and on: rounds of a flood, a kill, a new leader, and ordinary traffic. What
happens in a round is lawful; ``planted`` rounds each lose, show and accept what they may not."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any, Final

import pytest

NODES = (1, 2, 3)
PARTITIONS = (0, 1)
ROUND_MS = 6_000
PLANTED = {
    "truncation-loss": {"acked-all-lost": 2, "read-then-gone": 1},
    "stale-metadata": {"metadata-went-back": 1},
    "records": {"duplicate-append": 1},
    "fencing": {"stale-controller-epoch-accepted": 1},
}
"""By check and rule: how many violations of one planted round."""
BROUGHT: Final = 400
"""So many rows does no place in the checkers bring to the driver at once."""


def soak(story: Any, rounds: int, load: int = 1, *, planted: bool = False) -> None:
    """``load``: how many times the traffic of one."""
    logs: dict[int, dict[int, int]] = {p: {} for p in PARTITIONS}
    story.run["trials"] = [
        {
            "arm": story.arm,
            "trial": story.trial,
            "workloads": [
                {"process": f"p{p}", "role": "producer", "delivery": "once", "topics": {"t": [p]}}
                for p in PARTITIONS
            ],
        }
    ]
    for event in ("start", "ready"):
        for node in NODES:
            story.add("node_event", 1, node=node, event=event)
    story.add("controller", 2, node=3, event="elected", controller_epoch=1)
    story.add("phase", 3, name="chaos", event="begin")
    for number in range(rounds):
        at = 10 + number * ROUND_MS
        _leaders(story, number, at)
        _faults(story, number, at)
        for partition in PARTITIONS:
            _records(story, logs[partition], at, partition, load, number, planted=planted)
        _reads(story, number, at, load, planted=planted)
        if planted:
            # Of a past controller, straight after one of the present.
            story.handled(at + 4_000, 3, controller_epoch=number + 2, correlation_id=4 * number + 1)
            story.handled(at + 4_100, 3, controller_epoch=number + 1, correlation_id=4 * number + 2)
    end = 10 + rounds * ROUND_MS
    for name, event in (("chaos", "end"), ("heal", "end"), ("quiesce", "end")):
        story.add("phase", end, name=name, event=event)
    for partition, log in logs.items():
        for node in NODES:
            leader = rounds % 3 + 1 if rounds else 1
            story.final_log(log, node, leader=node == leader, partition=partition)


def _leaders(story: Any, number: int, at: float) -> None:
    leader = (number + 1) % 3 + 1
    for partition in PARTITIONS:
        place = {"partition": partition}
        story.commit(at, leader, number, **place)
        for node in NODES:
            role = "leader" if node == leader else "follower"
            epochs = {"leader_epoch": number, "controller_epoch": 1, "correlation_id": number}
            story.add("leader_change", at + 5, node=node, role=role, leader=leader, **place,
                      **epochs)  # fmt: skip
            story.add("metadata_update", at + 6 + node, node=node, leader=leader, **place, **epochs)
    for node in NODES:
        story.add("control_send", at + 1, node=3, to=node, api="LEADER_AND_ISR", attempt=1,
                  correlation_id=number, controller_epoch=1, broker_epoch=50, enqueue_t=at,
                  partitions=[])  # fmt: skip
        story.add("control_response", at + 8, node=3, to=node, api="LEADER_AND_ISR",
                  correlation_id=number, send_t=at + 1, error=0)  # fmt: skip


def _faults(story: Any, number: int, at: float) -> None:
    flooded, killed = number % 3 + 1, (number + 1) % 3 + 1
    detail = f'{{"connections": {{"{flooded}": 9}}}}'
    for t, phase in ((100, "inject"), (200, "injected"), (1_800, "heal"), (1_900, "healed")):
        held = phase == "injected" or None
        story.add("fault", at + t, fault="flood", id=f"flood-{number}", phase=phase,
                  nodes=[flooded], took_hold=held, detail=detail)  # fmt: skip
    done = {"interval_ns": 250_000_000, "connections": 9, "sent": 9, "completed": 9, "errors": 0}
    for t in range(450, 1_900, 250):
        story.add("flood", at + t, node=flooded, id=f"flood-{number}", process="worker", **done)
    for t, event in ((2_000, "kill"), (2_500, "start"), (2_600, "ready")):
        story.add("node_event", at + t, node=killed, event=event)


def _records(
    story: Any,
    log: dict[int, int],
    at: float,
    partition: int,
    load: int,
    number: int,
    *,
    planted: bool,
) -> None:
    leader = (number + 1) % 3 + 1
    for one in range(4 * load):
        offset = len(log)
        value = 10 * (partition + 10 * offset)
        log[offset] = value
        t = at + 50 + 2_900 * one / (4 * load)
        more = {"partition": partition, "process": f"p{partition}", "node": leader}
        story.produce(t, value, offset, acks=1 if one % 2 else -1, **more)
        story.add("fetch", t + 20, offset=offset, value=value, poll=offset, process="c",
                  node=leader, partition=partition)  # fmt: skip
    if planted and partition == 0:
        offset, value = len(log), 10 * (10 * len(log))
        log[offset] = value + 1  # not what was acknowledged there
        log[offset + 1] = log[offset - 1]  # a second time
        for lost in (2, 3):
            more = {"process": "q", "node": leader, "invoke_t": at + 3_400}
            story.produce(at + 3_500, value + lost, offset + 1_000_000, acks=-1, **more)
        story.add("fetch", at + 3_600, offset=offset + 1_000_000, value=value + 2,
                  poll=offset, process=f"d{number}")  # fmt: skip


def _reads(story: Any, number: int, at: float, load: int, *, planted: bool) -> None:
    leader = (number + 1) % 3 + 1
    for node in NODES:
        for partition in PARTITIONS:
            for one in range(load):
                story.read(at + 300 + one, node, number, leader=leader, partition=partition,
                           isr=[1, 2, 3], process=f"r{node}", read=number * load + one)  # fmt: skip
    if planted and number:
        story.read(at + 1_000, 3, number - 1, leader=number % 3 + 1, isr=[1, 2, 3], read=10**6,
                   process="r9")  # fmt: skip


def grouped(story: Any, rounds: int) -> None:
    """What clients of groups do, once in a round, and all of it lawful. Node 1 coordinates."""
    story.run["trials"] = [
        {
            "arm": story.arm,
            "trial": story.trial,
            "workloads": [{"process": "absent", "role": "group-absent", "topics": {}}],
        }
    ]
    story.run["settings"] = {"overrides": {"offsets.retention.check.interval.ms": "500"}}
    story.commit(10, 1, 0, topic="__consumer_offsets", partition=0)
    for name, event in (("chaos", "begin"), ("chaos", "end"), ("heal", "end"), ("quiesce", "end")):
        story.add("phase", 11, name=name, event=event)
    for number in range(rounds):
        at = 20_000 + number * ROUND_MS
        kept, left = f"kept-{number:05}", f"left-{number:05}"
        told = (
            (100, kept, "commit", {"offset": number, "keep_ms": 10 * ROUND_MS}),
            (200, kept, "ask", {"offset": number}),
            (300, kept, "join", {"error": 79, "type": "fail", "keep_ms": 1}),
            (400, left, "leave", {}),
            (500, left, "beat", {"error": 25, "type": "fail"}),
            (600, "raised", "raise", {"offset": number}),
            (700, "raised", "see", {"offset": number}),
            (800, "silent", "sync", {"process": "absent"}),
            (
                5_200,
                "silent",
                "enter",
                {"process": "absent", "keep_ms": 4_000, "invoke_t": at + 900},
            ),
            (5_300, "pair", "live", {"node": 1 + number % 2}),
            (5_400, "pair", "keep", {}),
            (5_500, "anew", "enter", {"generation": number}),
            (5_600, "anew", "sync", {}),
            (5_700, "anew", "live", {"error": 27, "type": "fail"}),
        )
        for t, group, step, more in told:
            fields = {"node": 1, "type": "ok", "error": 0, "invoke_t": at + t - 10, **more}
            story.add("group_step", at + t, group=group, step=step, **fields)
        story.add("group_step", at + 60_000, group=kept, step="look", node=1, error=0,
                  state="Dead")  # fmt: skip


@pytest.fixture
def brought(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """By module of the checkers, the most rows that it brought to the driver at once."""
    from pyspark.sql.classic.dataframe import DataFrame
    from pyspark.sql.connect.dataframe import DataFrame as OfConnect

    found: Counter[str] = Counter()

    def watched(frames: Any, name: str, sized: Any) -> None:
        real = getattr(frames, name)

        def counting(self: Any, *args: Any, **kwargs: Any) -> Any:
            rows = real(self, *args, **kwargs)
            where = _module()
            found[where] = max(found[where], sized(rows))
            return rows

        monkeypatch.setattr(frames, name, counting)

    for frames in (DataFrame, OfConnect):
        watched(frames, "collect", len)
        watched(frames, "toArrow", lambda table: table.num_rows)
        for name in ("toPandas", "toLocalIterator"):
            monkeypatch.setattr(frames, name, _never)
    return found


def _never(*_args: Any, **_kwargs: Any) -> Any:
    raise AssertionError("rows without a bound")


def _module() -> str:
    """The nearest caller in the checkers."""
    frame = sys._getframe(2)
    while frame.f_back is not None:
        name = str(frame.f_globals.get("__name__"))
        if name.startswith("checkers.") and name != "checkers.judging.tally":
            return name
        frame = frame.f_back
    return "elsewhere"
