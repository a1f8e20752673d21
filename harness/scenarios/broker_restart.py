"""Brokers that stop, die, pause and come back must lose nothing that acks=all promised.

Every way to go is drawn from the seed: controlled shutdown, kill -9, SIGSTOP past the session (a
zombie broker that comes back with an old broker epoch), against producers with acks=all and
min.insync.replicas=2 (one of them idempotent), producers with acks=1, and a consumer that must
never see what is lost later. Of two other topics the oldest records are deleted all the while:
what was deleted must not come back with a broker that was away, nor, of the one without replicas,
with one that was stopped in order. A third is compacted as soon as there is anything to compact:
each record has a key of its own, so that all have to stay, whenever the compaction is cut off, and
those too that have no value: nobody may have read them yet. In a fourth those may go after a
moment: of its producers, who come and go, the last batch stays, empty.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from faults.plan import Plan
from faults.protocol import Capability, Entry
from harness.scenarios.base import (
    LOG_APPEND_TIME,
    SHORT_SEGMENTS,
    Role,
    Scenario,
    Stage,
    Topic,
    idempotent_load,
    in_turn,
    joint_producer,
    offset_reader,
    rested,
    shortened,
    spread,
)
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "kept"
PARTITIONS = 6
SHORTENED = "shortened"
REMEMBERED = "remembered"
"""Nobody else could tell its broker where its logs begin."""
COMPACTED = "compacted"
LEFT = "left"
"""Producers come and go, and nothing but their names stays of what they wrote last."""
ELSEWHERE = "elsewhere"
"""Of each of its partitions one broker has no replica: it hears of that as clients' metadata only,
and when it comes back of what nobody had to decide about meanwhile."""
STEP_MS = 2500
FIRST_MS = 300
LAG_MS = 400
RESEND_MS = 1000
"""What clients take to come back and send again, where a leader is left time for that."""
SESSION_TIMEOUT_MS = 2000
ALONE = {**LOG_APPEND_TIME, **SHORT_SEGMENTS}
CONFIGS = {**ALONE, "min.insync.replicas": "2"}
CLEANED = {**CONFIGS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
CLEARED = {**CLEANED, "delete.retention.ms": "100"}
PACKED = {**CONFIGS, "compression.type": "gzip"}
"""What comes as it is the broker compresses: it writes each batch anew."""


def _topics(stage: Stage) -> Sequence[Topic]:
    return [
        Topic(name=TOPIC, assignment=spread(PARTITIONS, stage.nodes, 3), configs=CONFIGS),
        Topic(name=SHORTENED, assignment=spread(3, stage.nodes, 3), configs=PACKED),
        Topic(name=REMEMBERED, assignment=spread(3, stage.nodes, 1), configs=ALONE),
        Topic(name=ELSEWHERE, assignment=spread(3, stage.nodes, 2)),
        Topic(name=COMPACTED, assignment=spread(3, stage.nodes, 3), configs=CLEANED),
        Topic(name=LEFT, assignment=spread(1, stage.nodes, 3), configs=CLEARED),
    ]


def _workloads(_stage: Stage) -> Sequence[Role]:
    topics = {TOPIC: PARTITIONS}
    return [
        Role(
            role="producer",
            process="producer-all",
            params={"topics": topics, "acks": -1, "rate_per_s": 400.0},
        ),
        Role(
            role="producer",
            process="producer-one",
            params={
                "topics": topics,
                "acks": 1,
                "rate_per_s": 100.0,
                "first_value": 1_000_000_000,
            },
        ),
        Role(
            role="producer",
            process="producer-none",
            params={
                "topics": topics,
                "acks": 0,
                "rate_per_s": 50.0,
                "first_value": 8_000_000_000,
            },
        ),
        Role(
            role="joint-producer",  # never sends again: of what lands twice compaction takes one
            process="producer-compacted",
            params={
                "topics": {COMPACTED: 3},
                "acks": -1,
                "rate_per_s": 10.0,
                "erases": 5,
                "first_value": 12_000_000_000,
            },
        ),
        Role(
            role="joint-producer",
            process="producer-leaving",
            params={
                "topics": {LEFT: 1},
                "acks": -1,
                "raises": 3,
                "leaves": True,
                "first_value": 14_000_000_000,
            },
        ),
        *idempotent_load(TOPIC, PARTITIONS),
        joint_producer(TOPIC, PARTITIONS),
        Role(role="consumer", process="consumer", params={"topics": {**topics, COMPACTED: 3}}),
        Role(
            role="metadata-reader",
            process="metadata-reader",
            params={"topics": [TOPIC, ELSEWHERE]},
        ),
        offset_reader(TOPIC, PARTITIONS),
        *shortened({SHORTENED: 3, REMEMBERED: 3}),
    ]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    """A kill comes after a lag of the same broker, in one entry: whom two would each call the
    leader may not be the same. The first is a stop, before anything else went: who leads
    afterwards what it led is its own doing (`checkers.promises.handing_over`). It is not the
    controller's, which forgets with its office whom it took for stopping. Before a lagging
    leader dies its clients send again what it did not answer: it must not take for replicated what
    it has already. That comes last: who is back then is told of everything at once, or never. Each
    begins when the one before is healed: on a slow system a broker is long in going, and the next
    would be aimed at who is on its way out."""
    chaos_ms = int(profile.chaos_s * 1000)
    ways = ["lagged-kill", "stop", "pause"]
    rng.shuffle(ways)
    if chaos_ms >= len(ways) * STEP_MS:  # each has its turn
        ways = ["stop", "pause", "lagged-kill"]
        chaos_ms = max(chaos_ms, FIRST_MS + len(ways) * STEP_MS + RESEND_MS)
    entries: list[Entry] = []
    at_ms = FIRST_MS
    while True:
        way = ways[len(entries) % len(ways)]
        lagged = way == "lagged-kill"
        lag_ms = LAG_MS + RESEND_MS if lagged else LAG_MS
        step_ms = STEP_MS - LAG_MS + lag_ms
        if at_ms + step_ms > chaos_ms:
            begins_ms = [entry.at_ms for entry in entries]
            return Plan.of(rng.getrandbits(31), rested(in_turn(entries), rng, profile, begins_ms))
        partition = f"{TOPIC}-{rng.randrange(PARTITIONS)}"
        # A pause outlasts the session, by ZooKeeper's own word: the broker wakes up replaced, with
        # an old broker epoch, and the next step must not take it for the leader that it was.
        down_ms = SESSION_TIMEOUT_MS + 300 if way == "pause" else rng.randint(200, 800)
        first_stop = way == "stop" and not any(entry.fault == way for entry in entries)
        aimed: dict[str, object] = {
            "target": "not-controller" if first_stop else f"leader:{partition}"
        }
        if way == "pause":
            aimed["until_unregistered"] = True
        entries.append(
            Entry(
                id=f"{way}-{len(entries)}",
                fault=way,
                at_ms=at_ms + LAG_MS if way == "stop" else at_ms,
                duration_ms=down_ms + (lag_ms if lagged else 0),
                # Its followers get nothing more until it dies: what it has beyond them is what
                # truncation is for, and what an acknowledgement before replication would lose.
                params={"partition": partition, "resend": True, "longer_ms": RESEND_MS}
                if lagged
                else aimed,
            )
        )
        at_ms += step_ms


BROKER_RESTART = Scenario(
    name="broker-restart",
    conjecture=(
        "Whatever way a broker goes and comes back, no record acknowledged with acks=all is lost "
        "and all replicas agree, in single as in dual mode."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset(
        {Capability.KILL, Capability.PAUSE, Capability.CONTROLLED_STOP, Capability.LINKS}
    ),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=(
        "truncation-loss",
        "polls",
        "offsets",
        "log-starts",
        "stale-metadata",
        "fencing",
        "controller-latency",
    ),
    leader_changes=True,
    session_timeout_ms=SESSION_TIMEOUT_MS,
)
