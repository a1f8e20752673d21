"""The controller dies, and another broker a moment before it, of whose death nobody is told.

A controller hears of a death by ZooKeeper's watch. Who takes office later hears of none: it reads
who is registered, and has to hold that against all leaders and in-sync sets that it finds
(KafkaController.onControllerFailover). Of three brokers one is left: it must lead everything, alone
in sync, and go on with min.insync.replicas=1.

Meanwhile brokers are asked for what cannot be done, also together with what can: to a topic of its
own sound records are sent without a wish for an answer, beside damaged ones of another.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

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
    rounds,
    spread,
)
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "bequeathed"
PARTITIONS = 3
ASIDE = "aside"
"""Who asks for what cannot be done writes to it, and nobody else does."""
SESSION_TIMEOUT_MS = 2000
ROUND_MS = 15_000
AWAY_MS = 2 * SESSION_TIMEOUT_MS + 8000
"""Two sessions end, a successor is elected, and has five seconds for what it owes."""
CONFIGS = {**LOG_APPEND_TIME, **BOUNDED, "min.insync.replicas": "1"}


def _topics(stage: Stage) -> Sequence[Topic]:
    """Of one partition each of the three is preferred: some are without a leader, one only has two
    in sync who are gone. The first is the one whose leader dies before the controller."""
    order = [stage.victim, *stage.others]
    assignment = {p: [*order[p:], *order[:p]] for p in range(PARTITIONS)}
    return [
        Topic(name=TOPIC, assignment=assignment, configs=CONFIGS),
        Topic(name=ASIDE, assignment=spread(PARTITIONS, stage.nodes, 3)),
    ]


def _workloads(_stage: Stage) -> Sequence[Role]:
    *load, offsets = replicated_load(TOPIC, PARTITIONS, acks_all_per_s=200.0)
    return [
        *load,
        # Of the second next to nothing comes, and nobody who waits for both is to wait for it.
        replace(offsets, params={"topics": {TOPIC: PARTITIONS, ASIDE: PARTITIONS}}),
        refused_asker(TOPIC, {ASIDE: PARTITIONS}),
    ]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    entries = [
        Entry(
            id=f"both-{turn}",
            fault="joint-death",
            at_ms=turn * ROUND_MS + rng.randint(200, 500),
            duration_ms=AWAY_MS,
            params={"partition": f"{TOPIC}-0"},
        )
        for turn in rounds(profile, ROUND_MS)
    ]
    return Plan.of(rng.getrandbits(31), entries)


CONTROLLER_DEATH = Scenario(
    name="controller-death",
    conjecture=(
        "When the controller dies right after another broker, its successor finds both gone: whom "
        "they led is led by others, they are in sync nowhere, and no acks=all record is lost."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    # Two of three are away at once: a quorum of brokers could elect nobody, nor notice it.
    needs=frozenset({Capability.KILL, Capability.ZOOKEEPER}),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=("truncation-loss", "polls", "offsets", "stale-metadata"),
    leader_changes=True,
    session_timeout_ms=SESSION_TIMEOUT_MS,
    quiesce_s=30.0,
    aims_at_controller=True,
    profiles=BEYOND_SMOKE,
)
