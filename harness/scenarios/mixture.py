"""Whatever comes, in whatever order: faults of every kind, drawn from the seed.

The other scenarios each bring about one situation on purpose. Here nobody has thought of the
situation before: floods, moves, restarts, zombies, forgeries, bad links and churn overlap as the
seed has it (`faults.mixture` keeps a majority of brokers alive). The conjecture is all of the
guarantees at once; a seed that breaks one is worth a scenario of its own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from faults.mixture import mixture
from faults.plan import Plan
from faults.protocol import Capability
from harness.scenarios.base import (
    BEYOND_SMOKE,
    LOG_APPEND_TIME,
    Role,
    Scenario,
    Stage,
    Topic,
    idempotent_load,
    replicated_load,
    spread,
)
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "mixed"
PARTITIONS = 6
CONFIGS = {**LOG_APPEND_TIME, "min.insync.replicas": "2"}
NEEDS = frozenset(
    {
        Capability.KILL,
        Capability.PAUSE,
        Capability.CONTROLLED_STOP,
        Capability.LINKS,
        Capability.ZOOKEEPER,
        Capability.CONTROL_REQUESTS,
        Capability.LOG_FILES,
        Capability.ELECT_LEADERS,
    }
)
ON_TOPIC = {"partitions": f"{TOPIC}-*"}
FIXED = {"move-leadership": ON_TOPIC, "forged-requests": ON_TOPIC}


def _topics(stage: Stage) -> Sequence[Topic]:
    return [Topic(name=TOPIC, assignment=spread(PARTITIONS, stage.nodes, 3), configs=CONFIGS)]


def _workloads(_stage: Stage) -> Sequence[Role]:
    return [*replicated_load(TOPIC, PARTITIONS), *idempotent_load(TOPIC, PARTITIONS)]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    chaos_ms = int(profile.chaos_s * 1000)
    return mixture(rng.getrandbits(31), duration_ms=chaos_ms, offered=NEEDS, fixed=FIXED)


MIXTURE = Scenario(
    name="mixture",
    conjecture=(
        "Under any mixture of faults that leaves a majority of brokers alive, acknowledged records "
        "stay, replicas agree, metadata never goes back and nothing stale is obeyed."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=NEEDS,
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=("truncation-loss", "polls", "offsets", "stale-metadata", "fencing"),
    leader_changes=False,
    faults_may_collide=True,
    session_timeout_ms=2000,
    quiesce_s=30.0,
    profiles=(*BEYOND_SMOKE, "soak"),
)
