"""A follower that returns is out of sync until it has caught up, and must not lead before.

A follower dies and is away until the in-sync set has shrunk and more was acknowledged with acks=all
by the others. When it comes back its leader's answers no longer leave by the inter-broker link: the
leader hears from it and sees how far behind it is, and it gets nothing. Then the leader is killed.
The follower that returned is next in the order of the assignment; if the leader took it for one
that is in sync, it leads now, and what was acknowledged while it was away is gone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from faults.plan import Plan
from faults.protocol import Capability, Entry
from harness.scenarios.base import (
    BEYOND_SMOKE,
    LOG_APPEND_TIME,
    SHORT_SEGMENTS,
    Role,
    Scenario,
    Stage,
    Topic,
    replicated_load,
    rounds,
)
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "returned-to"
PARTITIONS = 3
SESSION_TIMEOUT_MS = 2000
ROUND_MS = 16_000
AWAY_MS = SESSION_TIMEOUT_MS + 4500
"""Longer than its session, so that the others go on without it for a while: acks=all as well."""
RETURN_MS = 2500
"""It has been started, has been told whom to follow, and has asked its leader."""
BUSY_MS = 1500
"""What a broker's start may take longer where others want the machine, too: a leader that dies
before anybody has returned shows nothing."""
CONFIGS = {**LOG_APPEND_TIME, **SHORT_SEGMENTS, "min.insync.replicas": "2"}


def _topics(stage: Stage) -> Sequence[Topic]:
    # One order for all partitions: who returns, and who leads after that, is the same for all.
    assignments = {p: [stage.victim, *stage.others] for p in range(PARTITIONS)}
    return [Topic(name=TOPIC, assignment=assignments, configs=CONFIGS)]


def _workloads(_stage: Stage) -> Sequence[Role]:
    return replicated_load(TOPIC, PARTITIONS)


def _plan(rng: random.Random, profile: Profile) -> Plan:
    entries: list[Entry] = []
    for turn in rounds(profile, ROUND_MS):
        entries += _round(turn, turn * ROUND_MS + rng.randint(200, 500))
    return Plan.of(rng.getrandbits(31), entries)


def _round(turn: int, at_ms: int) -> list[Entry]:
    away = Entry(
        id=f"away-{turn}",
        fault="kill",
        at_ms=at_ms,
        duration_ms=AWAY_MS,
        params={"target": f"successor:{TOPIC}-0", "until_replaced": True},
    )
    leader = f"leader:{TOPIC}-0"
    return [away, *silent_death(turn, at_ms + AWAY_MS, leader, return_ms=RETURN_MS + BUSY_MS)]


def silent_death(
    turn: int, back_ms: int, leader: str, *, return_ms: int = RETURN_MS
) -> list[Entry]:
    """Who returns at ``back_ms`` is heard by the leader, gets nothing from it, and sees it die,
    ``return_ms`` after it was started."""
    return [
        Entry(
            id=f"silent-{turn}",
            fault="toxic",
            at_ms=back_ms - 300,
            duration_ms=return_ms + SESSION_TIMEOUT_MS + 1000,
            params={
                "target": leader,
                "link": "inter-broker",
                "kind": "timeout",
                "attributes": {"timeout": 0},
            },
        ),
        Entry(
            id=f"gone-{turn}",
            fault="kill",
            at_ms=back_ms + return_ms,
            duration_ms=SESSION_TIMEOUT_MS + 1200,
            params={"target": leader},
        ),
    ]


RETURNING_FOLLOWER = Scenario(
    name="returning-follower",
    conjecture=(
        "A follower that comes back joins the in-sync set only when it has caught up: a leader "
        "that dies before that is not succeeded by it, and nothing acknowledged is lost."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset({Capability.KILL, Capability.LINKS}),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=("truncation-loss", "polls", "offsets", "stale-metadata"),
    leader_changes=True,
    session_timeout_ms=SESSION_TIMEOUT_MS,
    profiles=BEYOND_SMOKE,
)
