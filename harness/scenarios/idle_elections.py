"""Elections while nobody writes, then load: leader epochs without a record to tell them by.

The producers write for a while and pause for a while. In the pauses leaders move again and again,
and in one of them the leader is killed, so that some replicas know of epochs that others never
heard of, and no log has a record of any (KAFKA-10706's ground: a follower with such an epoch may
truncate for ever). Then the load is back: every replica must be in sync again, with the same log.
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
    replicated_load,
    rested,
    rounds,
    spread,
)
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "idle"
PARTITIONS = 3
BUSY_MS = 1500
IDLE_MS = 7000
"""Long enough to see that it is idle, to move leaders, to wait for a session's end and an election,
and to see that it still is."""
SESSION_TIMEOUT_MS = 2000
AWAY_MS = SESSION_TIMEOUT_MS + 3500
CONFIGS = {**LOG_APPEND_TIME, "min.insync.replicas": "2"}


def _topics(stage: Stage) -> Sequence[Topic]:
    return [Topic(name=TOPIC, assignment=spread(PARTITIONS, stage.nodes, 3), configs=CONFIGS)]


def _workloads(_stage: Stage) -> Sequence[Role]:
    """Both producers pause at the same moments: by the clock of the machine, not by their start."""
    return [
        replace(role, params={**role.params, "busy_ms": BUSY_MS, "idle_ms": IDLE_MS})
        if role.role == "producer"
        else role
        for role in replicated_load(TOPIC, PARTITIONS)
    ]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    """Elections wait for an idle moment by themselves; a kill in every second pause."""
    cycle_ms = BUSY_MS + IDLE_MS
    entries: list[Entry] = []
    for turn in rounds(profile, cycle_ms, least=2):
        at_ms = turn * cycle_ms + rng.randint(100, 400)
        kill = turn % 2 == 0
        entries.append(
            Entry(
                id=f"idle-{turn}",
                fault="idle-elections",
                at_ms=at_ms,
                duration_ms=AWAY_MS,
                params={
                    "partitions": f"{TOPIC}-*",
                    "times": 1 if kill else rng.randint(2, 3),
                    "kill": kill,
                },
            )
        )
    begins_ms = [entry.at_ms for entry in entries]
    return Plan.of(rng.getrandbits(31), rested(entries, rng, profile, begins_ms))


IDLE_ELECTIONS = Scenario(
    name="idle-elections",
    conjecture=(
        "After elections in which nobody wrote a record, whoever leads, all replicas come to be in "
        "sync with the same log, and what is written then is kept (KAFKA-10706)."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset({Capability.KILL, Capability.ELECT_LEADERS, Capability.LOG_FILES}),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=("truncation-loss", "polls", "offsets", "stale-metadata"),
    leader_changes=True,
    session_timeout_ms=SESSION_TIMEOUT_MS,
    quiesce_s=30.0,
    profiles=BEYOND_SMOKE,
)
