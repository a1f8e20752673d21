"""The active controller is paused or cut off past its time, and comes back to find a successor.

With ZooKeeper it is the broker that holds ``/controller``; without, the leader of the controllers'
quorum. Both ways to lose the office, in an order drawn from the seed: SIGSTOP (it stops in the
middle of whatever it did, and wakes up with it), and cut from what makes it controller while its
own connections to the brokers live on (it goes on deciding until it notices). Meanwhile a successor
is elected and moves the old one's leaderships; afterwards nothing that the old one still does may
count. Producers with acks=all, a consumer and metadata readers see what clients see.
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
    spread,
)
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "governed"
PARTITIONS = 6
SESSION_TIMEOUT_MS = 1500
HOLD_MS = 4900
"""A successor without ZooKeeper gives every broker a whole session before it fences one: two
seconds until it is elected, the session, and as much again as a busy machine takes."""
STEP_MS = 6300
"""Longer than it takes to find a successor and to come back: of three voters one may be away."""
JITTER_MS = 300


def _topics(stage: Stage) -> Sequence[Topic]:
    configs = {**LOG_APPEND_TIME, "min.insync.replicas": "2"}
    return [Topic(name=TOPIC, assignment=spread(PARTITIONS, stage.nodes, 3), configs=configs)]


def _workloads(_stage: Stage) -> Sequence[Role]:
    return replicated_load(TOPIC, PARTITIONS, acks_all_per_s=200.0)


def _plan(rng: random.Random, profile: Profile) -> Plan:
    """As many turns as fit, and both ways at least once."""
    ways = ["pause", "cut"]
    rng.shuffle(ways)
    turns = max(len(ways), int(profile.chaos_s * 1000 - 300) // STEP_MS)
    entries = [
        Entry(
            id=f"{ways[turn % len(ways)]}-{turn}",
            fault="depose-controller",
            at_ms=300 + turn * STEP_MS + rng.randint(0, JITTER_MS),
            duration_ms=HOLD_MS,
            params={"how": ways[turn % len(ways)]},
        )
        for turn in range(turns)
    ]
    return Plan.of(rng.getrandbits(31), entries)


CONTROLLER_PAUSE = Scenario(
    name="controller-pause",
    conjecture=(
        "When the active controller is paused or cut off, a successor is elected; once the old one "
        "is back its decisions have no effect, clients' metadata never goes back, and acks=all "
        "loses nothing."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset({Capability.LINKS, Capability.PAUSE}),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=("succession", "stale-metadata", "truncation-loss", "log", "availability", "fencing"),
    leader_changes=True,
    session_timeout_ms=SESSION_TIMEOUT_MS,
    profiles=BEYOND_SMOKE,
)
