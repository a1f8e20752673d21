"""A leader dies, and who was elected in its place dies as soon as it was elected.

The second leader may die before it has heard that it leads, or before its followers have fetched
from it; the third leads with what the first gave it, in an epoch that skips one nobody wrote in.
Both come back and must agree with it. Once the first goes by a controlled shutdown (its leadership
is moved away while it lives), once by a kill. And once the second lags behind the third, which
never hears from it, and takes records of its own until it dies: both have records of the past at
the same offsets then, of different leader epochs. The third, when it leads, knows nothing of the
second's epoch: asked where that ends it must answer of the one before (KIP-279). It is asked before
it has taken anything: of that topic all records are sent with acks=all, which it refuses while it
is alone. Its own leader epoch, in which nothing is written yet, must be known to it (KAFKA-7415).

Brokers date what they append by a default of their own: topics that have settings lay these over
it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from faults.plan import Plan
from faults.protocol import Capability, Entry
from harness.scenarios.base import (
    BEYOND_SMOKE,
    LOG_APPEND_TIME,
    Role,
    Scenario,
    Stage,
    Topic,
    in_turn,
    offset_reader,
    replicated_load,
    rested,
    rounds,
    tail_reader,
)
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "twice-lost"
PARTITIONS = 2
UNHEARD = "unheard"
SESSION_TIMEOUT_MS = 2000
ROUND_MS = 8000
AWAY_MS = 2 * SESSION_TIMEOUT_MS + 2500
"""Two sessions end one after the other, with an election after each."""
UNEVEN = "uneven-failover"
LAG_MS = 1200
"""Who lags is stopped for no longer: its session goes on."""
CONFIGS = {"min.insync.replicas": "2"}
DEFAULTS = {f"log.{name}": value for name, value in LOG_APPEND_TIME.items()}


def _topics(stage: Stage) -> Sequence[Topic]:
    # One order for all partitions: who leads next, and who after that, is the same for all.
    line = [stage.victim, *stage.others]
    assignments = dict.fromkeys(range(PARTITIONS), line)
    return [
        Topic(name=TOPIC, assignment=assignments, configs=CONFIGS),
        Topic(name=UNHEARD, assignment={0: line}, configs=CONFIGS),
    ]


def _workloads(stage: Stage) -> Sequence[Role]:
    load = replicated_load(TOPIC, PARTITIONS)
    (reader,) = (role for role in load if role.role == "metadata-reader")
    unheard = {"topics": {UNHEARD: 1}}
    return [
        *(role for role in load if role is not reader),
        replace(reader, params={"topics": [TOPIC, UNHEARD]}),
        tail_reader(TOPIC, PARTITIONS),
        Role(
            role="direct-producer",
            process="producer-unheard",
            params={
                "topic": UNHEARD,
                "target": stage.victim,
                "acks": -1,
                # Each waits on a connection of its own: while one lags the others go ahead.
                "rate_per_s": 100.0,
                "connections": 96,
                "first_value": 2_000_000_000,
            },
        ),
        Role(role="consumer", process="consumer-unheard", params=unheard),
        replace(offset_reader(UNHEARD, 1), process="offset-reader-unheard"),
    ]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    """The uneven one first, when neither of the two that die is the controller yet: a new one
    would first tell the second who lives, whose answers are held back, and it has one request under
    way at a time; without a control plane nobody could tell the second that it leads."""
    ways = [UNEVEN, *rng.sample(["kill", "stop"], 2)]
    entries = []
    for turn in rounds(profile, ROUND_MS, least=len(ways)):
        how = ways[turn % len(ways)]
        uneven, partition = how == UNEVEN, rng.randrange(PARTITIONS)
        entries.append(
            Entry(
                id=f"twice-{turn}",
                fault=UNEVEN if uneven else "double-failover",
                at_ms=turn * ROUND_MS + rng.randint(200, 500),
                duration_ms=AWAY_MS,
                params={
                    "partition": f"{UNHEARD}-0" if uneven else f"{TOPIC}-{partition}",
                    **({"lag_ms": LAG_MS} if uneven else {"how": how}),
                },
            )
        )
    begins_ms = [entry.at_ms for entry in entries]
    return Plan.of(rng.getrandbits(31), rested(in_turn(entries), rng, profile, begins_ms))


DOUBLE_FAILOVER = Scenario(
    name="double-failover",
    conjecture=(
        "When a leader dies and its successor dies right after its election, the third has every "
        "record that was acknowledged with acks=all, and the two that return agree with it."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    # Two of three are away at once: a quorum of brokers could elect nobody, nor notice it.
    needs=frozenset({Capability.KILL, Capability.CONTROLLED_STOP, Capability.ZOOKEEPER}),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=("truncation-loss", "polls", "offsets", "stale-metadata"),
    leader_changes=True,
    overrides=DEFAULTS,
    session_timeout_ms=SESSION_TIMEOUT_MS,
    quiesce_s=30.0,
    profiles=BEYOND_SMOKE,
)
