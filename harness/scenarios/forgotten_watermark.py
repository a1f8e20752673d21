"""A leader that forgot how far all had come is asked by who lacks some of it (KAFKA-7128).

A broker writes its high watermarks down now and then, and begins anew with what it wrote. When the
last replica in sync comes back that is below where others' logs end that lack records, and rises
only with min.insync.replicas in sync. Whoever asks from there has reached the high watermark, and
is in sync only when it has all that lies below the start of the leader epoch. Then the leader dies
again (fault behind-the-epoch).

With a control plane alone: what is not answered, or does not come, is what brokers ask each other,
and the controller's orders come all the same.
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
    offset_reader,
)
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "behind"
SESSION_TIMEOUT_MS = 2000
LAG_MAX_MS = 2000
BEHIND_MS = 18_000
"""Who is away, the other follower and the leader are missed one after the other, the leader twice,
and it starts in between."""
CONFIGS = {**LOG_APPEND_TIME, "min.insync.replicas": "2"}
SELDOM_MS = 300_000
"""So that who begins anew has a high watermark of before the run."""


def _topics(stage: Stage) -> Sequence[Topic]:
    # The controller last: who is away for a while is not the one that has to elect.
    return [Topic(name=TOPIC, assignment={0: [stage.victim, *stage.others]}, configs=CONFIGS)]


def _workloads(_stage: Stage) -> Sequence[Role]:
    topics = {TOPIC: 1}
    return [
        Role(
            role="producer",
            process="producer-all",
            params={"topics": topics, "acks": -1, "rate_per_s": 50.0},
        ),
        Role(role="consumer", process="consumer", params={"topics": topics}),
        Role(role="metadata-reader", process="metadata-reader", params={"topics": [TOPIC]}),
        offset_reader(TOPIC, 1),
    ]


def _plan(rng: random.Random, _profile: Profile) -> Plan:
    entry = Entry(
        id="behind",
        fault="behind-the-epoch",
        at_ms=rng.randint(200, 500),
        duration_ms=BEHIND_MS,
        params={"partition": f"{TOPIC}-0"},
    )
    return Plan.of(rng.getrandbits(31), [entry])


FORGOTTEN_WATERMARK = Scenario(
    name="forgotten-watermark",
    conjecture=(
        "When the last replica in sync comes back having forgotten how far all had come, nobody "
        "joins it who lacks what was acknowledged."
    ),
    planes=(Planes.DUAL,),
    needs=frozenset(
        {
            *(Capability.KILL, Capability.LINKS, Capability.LOG_FILES),
            *(Capability.ELECT_LEADERS, Capability.ZOOKEEPER, Capability.STRICT_MIN_ISR),
        }
    ),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=("truncation-loss", "polls", "offsets", "stale-metadata"),
    leader_changes=True,
    overrides={
        "replica.lag.time.max.ms": str(LAG_MAX_MS),
        "replica.high.watermark.checkpoint.interval.ms": str(SELDOM_MS),
    },
    session_timeout_ms=SESSION_TIMEOUT_MS,
    other_planes=False,
    profiles=BEYOND_SMOKE,
)
