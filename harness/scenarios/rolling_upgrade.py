"""A cluster under load is given a control plane: KIP-291's two rounds of rolling restarts.

It begins with single planes and no control listener at all. Round 1 gives each broker the listener,
round 2 its name, one broker at a time; in between the cluster is mixed, and the controllership
passes between brokers that use control planes and brokers that do not. Every broker must go on
being told of leaders, and acks=all must lose nothing. By seed an impatient operator first tries
what must be refused: the name before the listener, the name without a restart. From the last
restart on the cluster is held to what dual planes promise (checkers/promises/planes/__init__.py).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from faults.plan import Plan
from faults.plane_upgrade import NAME
from faults.protocol import Capability, Entry, Link
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

TOPIC = "upgraded"
PARTITIONS = 3
SESSION_TIMEOUT_MS = 6000
STRAGGLE_MS = 2000
ROOMY_MS = 60_000
CONFIGS = {**LOG_APPEND_TIME, "min.insync.replicas": "2"}


def _topics(stage: Stage) -> Sequence[Topic]:
    return [Topic(name=TOPIC, assignment=spread(PARTITIONS, stage.nodes, 3), configs=CONFIGS)]


def _workloads(_stage: Stage) -> Sequence[Role]:
    return replicated_load(TOPIC, PARTITIONS, acks_all_per_s=200.0)


def _plan(rng: random.Random, profile: Profile) -> Plan:
    """One upgrade, however long it takes. Leaders move while it goes on, and after it, so that the
    new planes have something to carry: with no request of a controller then nothing was shown."""
    chaos_ms = int(profile.chaos_s * 1000)
    wrong = rng.choice([(True, False), (False, True), (True, True)])
    upgrade = Entry(
        id="upgrade",
        fault="plane-upgrade",
        at_ms=rng.randint(200, 500),
        duration_ms=chaos_ms - 1000,
        params={
            "wrong_order": wrong[0],
            "dynamic": wrong[1],
            "then_move": f"{TOPIC}-*",
            # Where there is time: the last of a round goes without for longer than the others.
            "straggle_ms": rng.choice((0, STRAGGLE_MS)) if chaos_ms >= ROOMY_MS else 0,
        },
    )
    moves_ms = chaos_ms * 6 // 10
    moves = Entry(
        id="moves",
        fault="leadership-churn",
        at_ms=moves_ms,
        duration_ms=chaos_ms - moves_ms,
        params={"partitions": f"{TOPIC}-*", "interval_ms": 700},
    )
    return Plan.of(rng.getrandbits(31), [upgrade, moves])


ROLLING_UPGRADE = Scenario(
    name="rolling-upgrade",
    conjecture=(
        "A cluster under load is given a control plane by two rounds of rolling restarts, and "
        "while it is mixed every broker is told of leaders and no acks=all record is lost."
    ),
    planes=(Planes.DUAL,),
    needs=frozenset(
        {
            Capability.CONTROLLED_STOP,
            Capability.LINKS,
            Capability.ZOOKEEPER,
            Capability.CONTROL_REQUESTS,
            Capability.ELECT_LEADERS,
        }
    ),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=("truncation-loss", "polls", "offsets", "stale-metadata", "fencing"),
    leader_changes=True,
    overrides={NAME: ""},
    session_timeout_ms=SESSION_TIMEOUT_MS,
    quiesce_s=30.0,
    late_links=frozenset({Link.CONTROL}),
    other_planes=False,
    profiles=BEYOND_SMOKE,
)
