"""A leader that is gone before its followers have fetched from it: what was acknowledged stays.

Followers hold records for a while before they hear that these are committed: here for as long as
the answers of their leader are late on its inter-broker link. In that state the leadership moves,
and the new leader's answers do not arrive at all: its followers know that they follow it, and know
nothing else of it, when it is killed. One of them leads next, with what it has.

It must have every record that was acknowledged with acks=all, because each in-sync replica had
them before the acknowledgement: a follower that cuts its log at its own high watermark when it is
told of a new leader (as Kafka did before KIP-101) has thrown them away. And nothing that a consumer
was given may go, because only what every in-sync replica had was there to be given.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from faults.plan import Plan
from faults.protocol import Capability, Entry
from harness.scenarios.base import (
    BEYOND_SMOKE,
    LOG_APPEND_TIME,
    Role,
    Scenario,
    Stage,
    Topic,
    replicated_load,
    rested,
    rounds,
)
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "handed-over"
PARTITIONS = 2
SESSION_TIMEOUT_MS = 2000
ROUND_MS = 7000
BEHIND_MS = 700
"""How late followers hear of what is committed."""
FETCHERS = 7
"""So many that a follower has a thread to itself for these partitions: one that already waits for
an answer about others would come to know of the new leader only with that answer."""
CONFIGS = {**LOG_APPEND_TIME, "min.insync.replicas": "2"}


def _topics(stage: Stage) -> Sequence[Topic]:
    # One order for all partitions: who leads next, and who after that, is the same for all.
    assignments = {p: [stage.victim, *stage.others] for p in range(PARTITIONS)}
    return [Topic(name=TOPIC, assignment=assignments, configs=CONFIGS)]


def _workloads(stage: Stage) -> Sequence[Role]:
    return [*replicated_load(TOPIC, PARTITIONS), *(_steady(stage, p) for p in range(PARTITIONS))]


def _steady(stage: Stage, partition: int) -> Role:
    """acks=all without a pause. Each record has a connection to itself while it waits: a broker
    takes one request of a connection at a time, and a client that has few would be acknowledged
    little here, which proves little."""
    return Role(
        role="direct-producer",
        process=f"direct-producer-{partition}",
        params={
            "topic": TOPIC,
            "partition": partition,
            "target": stage.victim,
            "acks": -1,
            "rate_per_s": 50.0,
            "connections": 96,
            "first_value": (partition + 2) * 1_000_000_000,
        },
    )


def _plan(rng: random.Random, profile: Profile) -> Plan:
    entries: list[Entry] = []
    for turn in rounds(profile, ROUND_MS):
        entries += _round(turn, turn * ROUND_MS + 200, rng)
    begins_ms = [turn * ROUND_MS for turn in rounds(profile, ROUND_MS)]
    return Plan.of(rng.getrandbits(31), rested(entries, rng, profile, begins_ms))


def _round(turn: int, at_ms: int, rng: random.Random) -> list[Entry]:
    leader = f"leader:{TOPIC}-0"
    move_ms = at_ms + 2 * BEHIND_MS + rng.randint(0, 300)
    return [
        _answers(f"behind-{turn}", at_ms, 5200, leader, "latency", {"latency": BEHIND_MS}),
        _answers(
            f"silent-{turn}", move_ms - 300, 4200, f"successor:{TOPIC}-0", "timeout", {"timeout": 0}
        ),
        Entry(
            id=f"move-{turn}",
            fault="move-leadership",
            at_ms=move_ms,
            duration_ms=0,
            params={"partitions": f"{TOPIC}-*", "order": "rotate"},
        ),
        Entry(
            id=f"kill-{turn}",
            fault="kill",
            at_ms=move_ms + 700,
            duration_ms=SESSION_TIMEOUT_MS + 1000,
            params={"target": leader},
        ),
    ]


def _answers(
    name: str, at_ms: int, duration_ms: int, target: str, kind: str, attributes: dict[str, int]
) -> Entry:
    """Requests of others reach the target at once; its answers are late, or do not leave."""
    return Entry(
        id=name,
        fault="toxic",
        at_ms=at_ms,
        duration_ms=duration_ms,
        params={
            "target": target,
            "link": "inter-broker",
            "kind": kind,
            "attributes": attributes,
        },
    )


LEADER_HANDOVER = Scenario(
    name="leader-handover",
    conjecture=(
        "When a new leader dies before its followers have fetched from it, the next one has every "
        "record that was acknowledged with acks=all or given to a consumer (KIP-101)."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset({Capability.KILL, Capability.LINKS, Capability.ELECT_LEADERS}),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=("truncation-loss", "polls", "offsets", "stale-metadata"),
    leader_changes=True,
    overrides={"num.replica.fetchers": str(FETCHERS)},
    session_timeout_ms=SESSION_TIMEOUT_MS,
    profiles=BEYOND_SMOKE,
)
