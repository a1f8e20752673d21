"""A broker alone has what it acknowledged, whatever way it goes, when it is back.

The least that can be asked of a broker: no peers, no replicas, one partition leader that is killed,
stopped and paused in turn, while producers (one of them idempotent), a consumer, a group and
readers of metadata go on. What it acknowledged had reached its operating system, which outlives it:
so each record is there afterwards, at its offset, and was given to every consumer once. Before it
ends nobody is answered for a moment: what idempotent producers send again when it is back it must
know, from its log, or after a stop in order from what it wrote down of them (the snapshot). Of a
topic that is seldom written to the last record was acknowledged long before that, and nobody sends
it again. It needs nothing of a system but to be started and ended, and is where an adapter begins.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from faults.plan import Plan
from faults.protocol import Capability, Entry
from harness.scenarios.base import (
    BEYOND_SMOKE,
    SHORT_SEGMENTS,
    Role,
    Scenario,
    Stage,
    Topic,
    idempotent_load,
    in_turn,
    rested,
    rounds,
)
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "alone"
SELDOM = "seldom"
PARTITIONS = 3
SELDOM_PER_S = 3.0
"""One a second to each partition, in short segments: most of what is recovered ends where it was
meant to end, with a record that its producer knows to be kept."""
SESSION_TIMEOUT_MS = 2000
STEP_MS = 5000
HELD_MS = 700
"""So long nobody is answered before it ends, one way or the other: longer than a producer gathers
what it sends, so that each has a batch on its way, of several records where it gathers."""
ONE_BY_ONE = {"max.in.flight.requests.per.connection": "1"}
"""A broker that reads its log anew may know of each producer the last batch alone, as Kafka does
from a snapshot, and refuse those before it as out of order, although it has them."""


def _topics(stage: Stage) -> Sequence[Topic]:
    alone = {p: [stage.victim] for p in range(PARTITIONS)}
    return [
        Topic(name=TOPIC, assignment=alone),
        Topic(name=SELDOM, assignment=alone, configs=SHORT_SEGMENTS),
    ]


def _workloads(_stage: Stage) -> Sequence[Role]:
    topics = {TOPIC: PARTITIONS}
    load = {"topics": topics, "rate_per_s": 150.0}
    return [
        Role(role="producer", process="producer-all", params={**load, "acks": -1}),
        Role(
            role="producer",
            process="producer-one",
            params={**load, "acks": 1, "first_value": 4_000_000_000},
        ),
        Role(
            role="producer",
            process="producer-seldom",
            params={
                "topics": {SELDOM: PARTITIONS},
                "acks": -1,
                "rate_per_s": SELDOM_PER_S,
                "first_value": 6_000_000_000,
            },
        ),
        *(
            replace(
                role,
                params={**role.params, "client": {**role.params.get("client", {}), **ONE_BY_ONE}},
            )
            for role in idempotent_load(TOPIC, PARTITIONS)
        ),
        Role(
            role="consumer", process="consumer", params={"topics": {**topics, SELDOM: PARTITIONS}}
        ),
        Role(
            role="group-consumer",
            process="member",
            params={"group": "loners", "topics": topics, "rejoin_ms": 4000},
        ),
        Role(role="metadata-reader", process="metadata-reader", params={"topics": [TOPIC]}),
    ]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    ways = ["kill", "stop", "pause"]
    rng.shuffle(ways)
    entries = []
    for step in rounds(profile, STEP_MS, least=len(ways)):  # each, whatever the seed
        way = ways[step % len(ways)]
        entries.append(
            Entry(
                id=f"{way}-{step}",
                fault=way,
                at_ms=step * STEP_MS + rng.randint(800, 1500),
                duration_ms=rng.randint(400, 900),
                params={
                    "target": f"leader:{TOPIC}-0",
                    **({"held_ms": HELD_MS} if way != "pause" else {}),
                },
            )
        )
    begins_ms = [entry.at_ms for entry in entries]
    return Plan.of(rng.getrandbits(31), rested(in_turn(entries), rng, profile, begins_ms))


LONE_BROKER = Scenario(
    name="lone-broker",
    conjecture=(
        "A broker that is killed, stopped or paused has every record that it acknowledged when it "
        "is back, and its consumers and groups go on where they were."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset({Capability.KILL, Capability.PAUSE}),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=("truncation-loss", "polls", "groups", "stale-metadata"),
    leader_changes=False,
    # 3 s by default: the load might end while the member that has just come back has nothing.
    overrides={"group.initial.rebalance.delay.ms": "300"},
    session_timeout_ms=SESSION_TIMEOUT_MS,
    nodes=1,
    replicated=False,
    profiles=BEYOND_SMOKE,
)
