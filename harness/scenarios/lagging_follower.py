"""One in-sync follower lags another when their leader dies: whoever leads next has what counts.

In sync does not mean equal: a follower stays in the in-sync set for replica.lag.time.max.ms after
it has caught up last. Here one is behind the other by dozens of records when the leader is killed,
and both are in the committed set; what acks=all acknowledged both have, what acks=1 acknowledged
only one. In one round the laggard is next in line: it leads, and the other, which has more, must
cut its log to the laggard's. In the next round the laggard comes last, and must fetch what it
lacks, from the same offsets on. In the end all logs agree.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from faults.lagging import LAGGARDS
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
    tail_reader,
)
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "uneven"
PARTITIONS = 2
SESSION_TIMEOUT_MS = 3000
LAG_MS = 2000
"""The laggard is stopped for no longer: less than its session, and than its place in sync lasts."""
ROUND_MS = 7500
AWAY_MS = SESSION_TIMEOUT_MS + 2500
"""From the beginning of a round until the leader may come back, which others have succeeded."""
CONFIGS = {**LOG_APPEND_TIME, "min.insync.replicas": "2"}


def _topics(stage: Stage) -> Sequence[Topic]:
    # One order for all partitions: who lags behind whom is the same for all.
    assignments = {p: [stage.victim, *stage.others] for p in range(PARTITIONS)}
    return [Topic(name=TOPIC, assignment=assignments, configs=CONFIGS)]


def _workloads(_stage: Stage) -> Sequence[Role]:
    return [
        *replicated_load(TOPIC, PARTITIONS, acks_all_per_s=400.0),
        tail_reader(TOPIC, PARTITIONS),
    ]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    laggards = list(LAGGARDS)
    rng.shuffle(laggards)
    entries = [
        Entry(
            id=f"uneven-{turn}",
            fault="lagging-follower",
            at_ms=turn * ROUND_MS + rng.randint(200, 500),
            duration_ms=AWAY_MS,
            params={
                "partition": f"{TOPIC}-{rng.randrange(PARTITIONS)}",
                "laggard": laggards[turn % len(laggards)],
                "records": 25,
                "lag_ms": LAG_MS,
            },
        )
        for turn in rounds(profile, ROUND_MS, least=2)
    ]
    begins_ms = [turn * ROUND_MS for turn in rounds(profile, ROUND_MS, least=2)]
    return Plan.of(rng.getrandbits(31), rested(entries, rng, profile, begins_ms))


LAGGING_FOLLOWER = Scenario(
    name="lagging-follower",
    conjecture=(
        "When a leader dies while one in-sync follower lags another, whoever leads next has every "
        "record that was acknowledged with acks=all, and after truncation all replicas agree."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset({Capability.KILL, Capability.PAUSE, Capability.LOG_FILES}),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=("truncation-loss", "polls", "offsets", "stale-metadata"),
    leader_changes=True,
    session_timeout_ms=SESSION_TIMEOUT_MS,
    quiesce_s=30.0,
    profiles=BEYOND_SMOKE,
)
