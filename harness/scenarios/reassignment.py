"""Partitions move to a broker that is flooded, and away from it, while they serve.

A reassignment is the controller's longest conversation: LeaderAndIsr with adding replicas, a wait
until these are in sync, an election if the leader is to leave, LeaderAndIsr and StopReplica with
deletion, UpdateMetadata after each. Without a control plane of its own the flooded broker keeps all
of it waiting. Here partitions of two replicas wander along the ring of three brokers, so that every
move adds a replica that has to fetch everything and deletes one, and the flooded broker is in two
of three. When the flood is over one is moved while a new controller is elected, which must go on
with what it finds in ZooKeeper; another one is called off on its way, and is not to go on. At last
a topic is deleted while it moves: its deletion waits for the end of the move, and goes on then. In
the end nothing is pending there, no log is left behind, and nothing is lost.

The oldest records of another topic are deleted all the while. Its leader stays what it is as a
follower is replaced: who has left is waited for no more. Of a third each leader in turn loses its
replica, while acks=all waits there for followers that have turned to the next one: who waits is to
be told, and to look for that.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from faults.plan import Plan
from faults.protocol import Capability, Entry
from harness.scenarios.base import (
    BEYOND_SMOKE,
    BOUNDED,
    LOG_APPEND_TIME,
    Role,
    Scenario,
    Stage,
    Topic,
    refused_asker,
    replicated_load,
    shortened,
    spread,
)
from harness.scenarios.request_flood import VICTIM_TOPIC, queue_flood
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "wandering"
SHORTENED = "shortened"
LEFT = "left"
"""By its leaders."""
PARTITIONS = 3
FIRST_MS = 1500
MOVE_MS = 1500
"""About what one move takes behind a full queue."""
SUCCEEDED_MS = 2500
"""So long before its end the flood is over, and the last move begins."""
CALLED_OFF_MS = 2500
"""When that one is over."""
CONTRARY_MS = 2000
REPLACED_MS = 2000
LEFT_MS = 1000
"""Alone: what is called off is asked for with all that moves then."""
DELETED_MS = 1000
GIVEN_UP_MS = 10_000
"""So long it is waited for that a topic is moved, or gone, which takes a second."""


def _topics(stage: Stage) -> Sequence[Topic]:
    return [
        Topic(name=VICTIM_TOPIC, assignment={0: [stage.victim]}),
        Topic(
            name=TOPIC,
            assignment=spread(PARTITIONS, stage.nodes, 2),
            configs={**LOG_APPEND_TIME, **BOUNDED},
        ),
        # Both move on along the ring, and the first comes where the second was.
        Topic(name=SHORTENED, assignment={0: [stage.nodes[0], stage.nodes[-1]]}),
        Topic(name=LEFT, assignment=spread(1, stage.nodes, 2)),
    ]


def _workloads(_stage: Stage) -> Sequence[Role]:
    return [
        *replicated_load(TOPIC, PARTITIONS, acks_all_per_s=100.0),
        refused_asker(TOPIC),
        *shortened({SHORTENED: 1}),
        Role(
            role="direct-producer",
            process="producer-left",
            params={
                "topic": LEFT,
                "acks": -1,
                "ack_timeout_ms": 5000,
                "rate_per_s": 100.0,
                "first_value": 15_000_000_000,
            },
        ),
    ]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    chaos_ms = int(profile.chaos_s * 1000)
    succeeded_ms = max(8000, chaos_ms - SUCCEEDED_MS)
    flood = queue_flood("flood", f"leader:{VICTIM_TOPIC}-0", 300, min(chaos_ms, succeeded_ms) - 600)
    first = rng.randrange(PARTITIONS)
    moves = [
        Entry(
            id=f"wander-{turn}",
            fault="reassign",
            at_ms=FIRST_MS + turn * MOVE_MS + rng.randint(0, 300),
            duration_ms=0,
            # Each partition waits for its own last move: they are told apart by their turn.
            params={"partitions": f"{TOPIC}-{(first + turn) % PARTITIONS}"},
        )
        for turn in range(min(PARTITIONS, max(2, (chaos_ms - FIRST_MS - 1000) // MOVE_MS)))
    ]
    if chaos_ms > FIRST_MS + 8000:
        rest = succeeded_ms - FIRST_MS - 8000
        moves.append(
            Entry(
                id="wander-on",
                fault="reassign",
                at_ms=FIRST_MS + 7000,
                duration_ms=0,
                after=moves[-1].id,  # what moves still is no other's to move
                params={"partitions": f"{TOPIC}-*", "times": max(1, rest // (PARTITIONS * 3000))},
            )
        )
    moves.append(
        Entry(
            id="succeeded",
            fault="reassign-succeeded",
            at_ms=succeeded_ms,
            duration_ms=0,
            after=moves[-1].id,
            params={"partitions": f"{TOPIC}-{first}"},
        )
    )
    moves.append(
        Entry(
            id="called-off",
            fault="reassign-called-off",
            at_ms=succeeded_ms + CALLED_OFF_MS,
            duration_ms=0,
            after="succeeded",  # what was flooded may move until then, and would be crossed
            params={"partition": f"{TOPIC}-{(first + 1) % PARTITIONS}"},
        )
    )
    contrary_ms = succeeded_ms + CALLED_OFF_MS + CONTRARY_MS
    moves.append(
        Entry(
            id="contrary",
            fault="contrary-orders",
            at_ms=contrary_ms,
            duration_ms=0,
            after="called-off",
            params={"partition": f"{TOPIC}-{(first + 2) % PARTITIONS}"},
        )
    )
    moves.append(
        Entry(
            id="replaced",
            fault="reassign",
            at_ms=contrary_ms + REPLACED_MS,
            duration_ms=0,
            after="contrary",
            params={"partitions": f"{SHORTENED}-0"},
        )
    )
    moves.append(
        Entry(
            id=LEFT,
            fault="reassign",
            at_ms=contrary_ms + REPLACED_MS + LEFT_MS,
            duration_ms=0,
            after="replaced",
            params={"partitions": f"{LEFT}-0", "times": 3},
        )
    )
    moves.append(
        Entry(
            id="deleted",
            fault="delete-topic-moving",
            at_ms=contrary_ms + REPLACED_MS + LEFT_MS + DELETED_MS,
            duration_ms=0,
            after=LEFT,
            params={"partitions": 1, "replicas": 2, "timeout_ms": GIVEN_UP_MS},
        )
    )
    return Plan.of(rng.getrandbits(31), [flood, *moves])


REASSIGNMENT = Scenario(
    name="reassignment",
    conjecture=(
        "Partitions that are moved to and from a flooded broker while they serve lose nothing, "
        "and in the end no move is pending and no log is left behind."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset({Capability.LINKS, Capability.ZOOKEEPER}),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=(
        "truncation-loss",
        "polls",
        "offsets",
        "log-starts",
        "stale-metadata",
        "controller-latency",
        "fencing",
    ),
    leader_changes=True,
    profiles=BEYOND_SMOKE,
)
