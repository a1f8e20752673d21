"""Brokers come back, and the controller gives them their leaderships back by itself.

Everywhere else leaders move when somebody asks, so that each change has a cause in the history.
Here the controller looks once a second (``auto.leader.rebalance.enable``) whether each partition is
led by its preferred replica. Who was killed gets back what it led once it is in sync, and not
before; so does who was stopped in order, whom the controller had taken for going: it must know it
for a broker like any other again. It stays in office all the while, with all that it remembers.
Of what it led it has read most anew after a kill, in segments that are long full: who asks it for a
time is to be told the first record at or after that, as before.

A second topic is written to so seldom that who reads it waits most of the time, and longer than
from one record to the next: it is to be woken by each. It asks for less than a record has, and is
to be given one all the same (KIP-74). Another one waits for more than a byte: a broker counts then
what has come since, and each record begins a segment of its own.
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
    rested,
    rounds,
    spread,
)
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "preferred"
PARTITIONS = 6
SESSION_TIMEOUT_MS = 1500
ROUND_MS = 16_500
AWAY_MS = 2 * SESSION_TIMEOUT_MS
PAUSE_MS = 7000
"""By then who was killed is back and leads again."""
PAUSED_MS = SESSION_TIMEOUT_MS + 1000
STOP_MS = PAUSE_MS + 6500
"""And by then who was paused."""
STOPPED_MS = 500
AWAITED = "awaited"
AWAITED_PARTITIONS = 3
"""One for each broker: a fetch waits for all that its broker leads at once."""
AWAITED_PER_S = 0.5
"""Of a partition."""
FETCH_WAIT_MS = 5000
CONFIGS = {**LOG_APPEND_TIME, **SHORT_SEGMENTS, "min.insync.replicas": "2"}


def _topics(stage: Stage) -> Sequence[Topic]:
    return [
        Topic(name=name, assignment=spread(partitions, stage.nodes, 3), configs=configs)
        for name, partitions, configs in (
            (TOPIC, PARTITIONS, CONFIGS),
            (AWAITED, AWAITED_PARTITIONS, CONFIGS),
        )
    ]


def _workloads(_stage: Stage) -> Sequence[Role]:
    return [
        *replicated_load(TOPIC, PARTITIONS, acks_all_per_s=200.0),
        *idempotent_load(TOPIC, PARTITIONS, first_value=7_000_000_000),
        Role(
            role="producer",
            process="producer-awaited",
            params={
                "topics": {AWAITED: AWAITED_PARTITIONS},
                "acks": -1,
                "rate_per_s": AWAITED_PER_S * AWAITED_PARTITIONS,
                "first_value": 3_000_000_000,
            },
        ),
        *(
            Role(
                role="consumer",
                process=f"consumer-{name}",
                params={
                    "topics": {AWAITED: AWAITED_PARTITIONS},
                    "fetch_wait_ms": FETCH_WAIT_MS,
                    "client": client,
                },
            )
            for name, client in (
                ("awaiting", {"fetch.message.max.bytes": "1"}),
                ("counting", {"fetch.min.bytes": "2"}),
            )
        ),
    ]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    """The stop comes last: a controller forgets with a broker's death whom it took for going.
    Nobody goes before all are there: of two that live one alone is not the controller."""
    entries: list[Entry] = []
    for turn in rounds(profile, ROUND_MS):
        at_ms = turn * ROUND_MS + rng.randint(200, 500)
        one = rng.randrange(2)
        for fault, after_ms, away_ms, which in (
            ("kill", 0, AWAY_MS, one),
            ("pause", PAUSE_MS, PAUSED_MS, 1 - one),
            ("stop", STOP_MS, STOPPED_MS, one),
        ):
            entries.append(
                Entry(
                    id=f"{fault}-{turn}",
                    fault=fault,
                    at_ms=at_ms + after_ms,
                    duration_ms=away_ms,
                    params={"target": f"not-controller:{which}", "until_replaced": True},
                    after=entries[-1].id if entries else "",
                )
            )
    begins_ms = [entry.at_ms for entry in entries]
    return Plan.of(rng.getrandbits(31), rested(entries, rng, profile, begins_ms))


PREFERRED_LEADERS = Scenario(
    name="preferred-leaders",
    conjecture=(
        "A broker that comes back, however it went, is given the partitions that prefer it by the "
        "controller itself once it is in sync, and no acks=all record is lost by that."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset({Capability.KILL, Capability.PAUSE, Capability.CONTROLLED_STOP}),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=("truncation-loss", "polls", "offsets", "stale-metadata", "fencing"),
    leader_changes=True,
    overrides={
        "auto.leader.rebalance.enable": "true",
        "leader.imbalance.check.interval.seconds": "1",
        "leader.imbalance.per.broker.percentage": "0",
    },
    session_timeout_ms=SESSION_TIMEOUT_MS,
    quiesce_s=30.0,
    profiles=BEYOND_SMOKE,
)
