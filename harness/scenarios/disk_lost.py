"""A broker loses its disk: it comes back under its old id with nothing, and must not lead with it.

A broker is killed; when the in-sync sets have gone on without it, its log directory is emptied (all
but meta.properties) and it is started again. It has to fetch everything anew, and may join the
in-sync sets only then: were it taken for in sync before, or elected, all that acks=all promised
would be cut from the others' logs (in KRaft mode that is what KIP-903 is about). Every second time
the leader is killed as soon as the wiped broker is back, so that a set which it joined too early
shows.

A broker that is all of an in-sync set is never wiped (see faults/wiped_disk.py): Kafka would elect
it, empty as it is, and the loss would be lawful.
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
    tail_reader,
)
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "kept-by-others"
PARTITIONS = 3
SESSION_TIMEOUT_MS = 2000
ROUND_MS = 7700
AWAY_MS = SESSION_TIMEOUT_MS + 1500
BACK_MS = 1200
"""After its start begins: it registers, is told whom to follow, and begins to fetch."""
CONFIGS = {**LOG_APPEND_TIME, "min.insync.replicas": "2"}


def _topics(stage: Stage) -> Sequence[Topic]:
    return [Topic(name=TOPIC, assignment=spread(PARTITIONS, stage.nodes, 3), configs=CONFIGS)]


def _workloads(_stage: Stage) -> Sequence[Role]:
    return [*replicated_load(TOPIC, PARTITIONS), tail_reader(TOPIC, PARTITIONS)]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    entries: list[Entry] = []
    for turn in range(max(2, int(profile.chaos_s * 1000) // ROUND_MS)):
        partition = f"{TOPIC}-{rng.randrange(PARTITIONS)}"
        role = ("leader", "successor")[turn % 2]
        at_ms = turn * ROUND_MS + rng.randint(200, 500)
        entries.append(
            Entry(
                id=f"wipe-{turn}",
                fault="wipe-disk",
                at_ms=at_ms,
                duration_ms=AWAY_MS,
                params={"target": f"{role}:{partition}"},
            )
        )
        if turn % 2:
            entries.append(
                Entry(
                    id=f"gone-{turn}",
                    fault="kill",
                    at_ms=at_ms + AWAY_MS + BACK_MS,
                    duration_ms=SESSION_TIMEOUT_MS + 1000,
                    params={"target": f"leader:{partition}"},
                )
            )
    return Plan.of(rng.getrandbits(31), entries)


DISK_LOST = Scenario(
    name="disk-lost",
    conjecture=(
        "A broker that comes back with an empty log directory joins the in-sync sets only when it "
        "has caught up and leads nothing before: no acks=all record that others have is lost."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset({Capability.KILL, Capability.LOG_FILES}),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=("truncation-loss", "polls", "stale-metadata"),
    leader_changes=True,
    session_timeout_ms=SESSION_TIMEOUT_MS,
    quiesce_s=40.0,
    profiles=BEYOND_SMOKE,
)
