"""A controller that lost its office must be refused by everybody who heard of its successor.

The real kind: the controller is cut from ZooKeeper past its session while its control connections
live on (or paused past it). What it still had to send arrives after its successor's: the fault
makes sure of that order (faults/zombie_controller.py), so that every run shows refusals of a real
zombie and not only of forgers.
The forged kind: requests with an old controller epoch, broker epoch or leader epoch, on both
planes. Each must be answered with Kafka's error and change nothing.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from faults.plan import Plan
from faults.protocol import Capability, Entry
from harness.scenarios.base import LOG_APPEND_TIME, Role, Scenario, Stage, Topic, spread
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "fenced"
PARTITIONS = 6


def _topics(stage: Stage) -> Sequence[Topic]:
    configs = {**LOG_APPEND_TIME, "min.insync.replicas": "2"}
    return [Topic(name=TOPIC, assignment=spread(PARTITIONS, stage.nodes, 3), configs=configs)]


def _workloads(_stage: Stage) -> Sequence[Role]:
    topics = {TOPIC: PARTITIONS}
    return [
        Role(
            role="producer",
            process="producer-all",
            params={"topics": topics, "acks": -1, "rate_per_s": 200.0},
        ),
        Role(role="consumer", process="consumer", params={"topics": topics}),
        Role(
            role="metadata-reader",
            process="metadata-reader",
            params={"topics": [TOPIC]},
        ),
    ]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    chaos_ms = int(profile.chaos_s * 1000)
    forged_ms = chaos_ms - 2000
    entries = [
        Entry(
            id="zombie",
            fault="zombie-controller",
            at_ms=300,
            duration_ms=4000,
            params={"how": rng.choice(["zookeeper-cut", "pause"]), "backlog": True},
        ),
        Entry(
            id="forged",
            fault="forged-requests",
            at_ms=forged_ms,
            duration_ms=1500,
            params={
                "target": "all",
                "partitions": f"{TOPIC}-*",
                "link": ["control", "client"],
                "interval_ms": 300,
            },
        ),
    ]
    return Plan.of(rng.getrandbits(31), entries)


ZOMBIE_CONTROLLER = Scenario(
    name="zombie-controller",
    conjecture=(
        "Requests of a controller that was succeeded, real or forged, are refused with "
        "STALE_CONTROLLER_EPOCH by every broker that heard of the successor, and change nothing."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset({Capability.LINKS, Capability.ZOOKEEPER, Capability.CONTROL_REQUESTS}),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=("fencing", "stale-metadata", "truncation-loss", "polls", "controller-latency"),
    leader_changes=False,
    session_timeout_ms=2000,
)
