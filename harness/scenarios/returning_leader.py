"""A leader that died ahead of its followers returns: what only it has does not count.

Its followers are not answered any more, and it dies with records that they never got. Another leads
and takes records of its own, acknowledged with acks=all, and fewer. When the first one is back its
log is the longer one, and parts from its leader's; its leader hears from it, and it hears nothing
(`returning_follower`), and then that one dies, too. Who fetches from an end that it wrote itself
proves nothing about what it holds (KAFKA-13141): were that taken for a position it would be in sync
at once, lead next, and all that was acknowledged meanwhile would be cut from the others' logs.

Before it dies its clients lose their connections, and one that is promised each record once sends
again what was not answered. It has that already, and nobody else has: it must not say so.

It is the preferred leader. An administrator who asks for that one as soon as it lives is refused:
it is not in sync.
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
    idempotent_load,
    replicated_load,
    rounds,
)
from harness.scenarios.returning_follower import SESSION_TIMEOUT_MS, silent_death
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "parted-from"
PARTITIONS = 1
AHEAD = 480
"""By so many records it dies ahead: more than its successor takes until it is back."""
ROUND_MS = 14_000
RESEND_MS = 800
"""What a client takes to come back and send again."""
AWAY_MS = SESSION_TIMEOUT_MS + RESEND_MS + 2800
"""Its followers lag, it is missed for a session, is succeeded, and a little is acknowledged."""
CONFIGS = {**LOG_APPEND_TIME, **SHORT_SEGMENTS, "min.insync.replicas": "2"}
PATIENCE_MS = 9000
"""For so long who writes ahead waits for its broker: until the successor is dead, which it would
else bring ahead of it."""


def _topics(stage: Stage) -> Sequence[Topic]:
    # One order for all partitions: who leads first would lead again after the second.
    assignments = {p: [stage.victim, *stage.others] for p in range(PARTITIONS)}
    return [Topic(name=TOPIC, assignment=assignments, configs=CONFIGS)]


def _workloads(stage: Stage) -> Sequence[Role]:
    ahead = {
        "topic": TOPIC,
        "partition": 0,
        "target": stage.victim,
        "patience_ms": PATIENCE_MS,
        "acks": 1,
        "rate_per_s": float(AHEAD),
        "first_value": 2_000_000_000,
    }
    return [
        *replicated_load(TOPIC, PARTITIONS, acks_all_per_s=40.0),
        Role(role="direct-producer", process="direct-producer", params=ahead),
        # Of one partition, so that what it sends first again is what its broker has: that takes up
        # one request of a connection at a time.
        idempotent_load(TOPIC, PARTITIONS, per_s=8.0, first_value=7_000_000_000)[0],
    ]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    entries: list[Entry] = []
    for turn in rounds(profile, ROUND_MS):
        at_ms = turn * ROUND_MS + rng.randint(200, 500)
        entries.append(
            Entry(
                id=f"ahead-{turn}",
                fault="lagged-kill",
                at_ms=at_ms,
                duration_ms=AWAY_MS,
                params={
                    "partition": f"{TOPIC}-0",
                    "records": AHEAD,
                    "resend": True,
                    "longer_ms": RESEND_MS,
                },
            )
        )
        back_ms = at_ms + AWAY_MS
        entries.append(
            Entry(
                id=f"unready-{turn}",
                fault="unready-preferred",
                at_ms=back_ms + 1,
                duration_ms=0,
                params={"partition": f"{TOPIC}-0"},
            )
        )
        entries += silent_death(turn, back_ms, f"leader:{TOPIC}-0")
    return Plan.of(rng.getrandbits(31), entries)


RETURNING_LEADER = Scenario(
    name="returning-leader",
    conjecture=(
        "A leader that died with records of its own and comes back joins the in-sync set only when "
        "it has cut them and caught up: nothing that its successor acknowledged is lost."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset(
        {Capability.KILL, Capability.LINKS, Capability.LOG_FILES, Capability.ELECT_LEADERS}
    ),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=("truncation-loss", "polls", "offsets", "stale-metadata"),
    leader_changes=True,
    session_timeout_ms=SESSION_TIMEOUT_MS,
    quiesce_s=30.0,
    profiles=BEYOND_SMOKE,
)
