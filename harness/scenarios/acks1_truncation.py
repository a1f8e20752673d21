"""acks=1 loss by truncation, and how much of it a control plane of its own would avoid.

Only the demoted leader is flooded (were all flooded, the new leader would be late as well and hide
the loss). Producers with acks=1 write to the old leader directly, open loop, until it answers
NOT_LEADER_OR_FOLLOWER. While its LeaderAndIsr waits behind the flood it goes on appending and
acknowledging; then it truncates. What it appended after the LeaderAndIsr was sent to it is loss
that a control plane of its own would have avoided.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from faults.plan import Plan
from faults.protocol import Capability
from harness.scenarios.base import (
    LOG_APPEND_TIME,
    Role,
    Scenario,
    Stage,
    Topic,
    led_by,
    move_leader,
)
from harness.scenarios.request_flood import VICTIM_TOPIC, probes, queue_flood
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "acks1"
PARTITIONS = 3


def _topics(stage: Stage) -> Sequence[Topic]:
    return [
        Topic(name=VICTIM_TOPIC, assignment={0: [stage.victim]}),
        Topic(
            name=TOPIC,
            assignment=led_by(stage.victim, stage.others, PARTITIONS),
            configs=LOG_APPEND_TIME,
        ),
    ]


def _workloads(stage: Stage) -> Sequence[Role]:
    producers = [
        Role(
            role="direct-producer",
            process=f"direct-producer-{partition}",
            params={
                "topic": TOPIC,
                "partition": partition,
                "target": stage.victim,
                "acks": 1,
                "rate_per_s": 100.0,
                "connections": 128,
                "first_value": partition * 1_000_000_000,
            },
        )
        for partition in range(PARTITIONS)
    ]
    return [
        *producers,
        Role(role="prober", process="prober", params=probes(stage)),
        Role(role="metadata-reader", process="metadata-reader", params={"topics": [TOPIC]}),
    ]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    chaos_ms = int(profile.chaos_s * 1000)
    entries = [queue_flood("flood", f"leader:{VICTIM_TOPIC}-0", 300, chaos_ms - 600)]
    step = (chaos_ms - 3000) // PARTITIONS
    for partition in range(PARTITIONS):
        at_ms = 2000 + partition * step + rng.randint(0, step // 2)
        entries.append(move_leader(f"move-{partition}", at_ms, f"{TOPIC}-{partition}"))
    return Plan.of(rng.getrandbits(31), entries)


ACKS1_TRUNCATION = Scenario(
    name="acks1-truncation",
    conjecture=(
        "A flooded leader that is demoted loses fewer acknowledged acks=1 records when its "
        "LeaderAndIsr does not wait behind the flood."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset({Capability.LINKS, Capability.ELECT_LEADERS}),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=("truncation-loss", "stale-metadata", "controller-latency", "fencing"),
    leader_changes=True,
)
