"""A broker that was away past its session is not what it was, and neither is what was meant for it.

A leader is stopped (SIGSTOP) until ZooKeeper has dropped it and others lead its partitions, and
wakes up still believing that it leads: it may acknowledge acks=1 for a moment, but nothing with
acks=all. It registers anew, with a new broker epoch. Then somebody who knows the epochs of the past
speaks to the brokers, in the name of the true controller: requests for its former registration must
be refused with STALE_BROKER_EPOCH, and those with leader epochs from before with
STALE_CONTROLLER_EPOCH (LeaderAndIsr) or FENCED_LEADER_EPOCH (StopReplica), by every broker on
either plane. A controller epoch of the past comes with the news of the past: leaders as they were.
And the controller is told that brokers shut down, in the name of their former registrations: it
must refuse that, or it gives those that are back nothing to lead any more.

With its session a broker's watches are gone, too. Once it is back a topic of which each broker
leads a partition, and nobody else has any, is given other settings: all must go by them, and roll
segments that were there. So is one that all have replicas of, and then each of its partitions is
led by another: who followed when it was changed must go by it, too. Then brokers themselves are
given other settings: those of the topics stay what they are.

Three more such topics keep no more than a few kilobytes, or seconds, one of these in a segment that
is written to all the while. As no broker ends here, each has the time to look after its logs.

At last another broker hangs while its controller waits for its answer, and stays away for longer
than what it led may be without a leader: whoever gives it up may not wait for that answer. Nor may
who deletes a topic's oldest records all the while wait for who is gone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from faults.forged_requests import SHUTDOWN
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
    offset_reader,
    replicated_load,
    rested,
    rounds,
    shortened,
    spread,
    texts,
)
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "orphaned"
PARTITIONS = 3
SESSION_TIMEOUT_MS = 2000
ROUND_MS = 7500
BACK_MS = 1000
"""After it was let go, who was stopped has a session again, most often."""
HARMLESS = "log.segment.delete.delay.ms"
"""Brokers are given two other values of it while they run; topics have settings of their own."""
RESET, SIZED, TIMED, AGED = "reset", "sized", "timed", "aged"
FOLLOWED = "followed"
"""Of this one, too, the settings are changed."""
SHORTENED = "shortened"
DELETES_PER_S = 40.0
"""Questions to each broker: a deletion that waits in vain takes a second, and is to be tried again
and again while somebody is away."""
CLEARED = "plain"
"""This one has none in the end."""
RESET_TO = {**LOG_APPEND_TIME, **SHORT_SEGMENTS}
FEW_BYTES = {**SHORT_SEGMENTS, "retention.bytes": "8192"}
ONE_SEGMENT = {**LOG_APPEND_TIME, "retention.ms": "5000"}
FEW_SECONDS = {**ONE_SEGMENT, **SHORT_SEGMENTS}
CONFIGS = {**LOG_APPEND_TIME, "min.insync.replicas": "2"}


def _topics(stage: Stage) -> Sequence[Topic]:
    return [
        Topic(name=TOPIC, assignment=spread(PARTITIONS, stage.nodes, 3), configs=CONFIGS),
        *(
            Topic(name=name, assignment=spread(len(stage.nodes), stage.nodes, 1), configs=configs)
            for name, configs in (
                *((RESET, {}), (CLEARED, {})),
                *((SIZED, FEW_BYTES), (TIMED, FEW_SECONDS), (AGED, ONE_SEGMENT)),
            )
        ),
        *(
            Topic(name=name, assignment=spread(len(stage.nodes), stage.nodes, 3))
            for name in (FOLLOWED, SHORTENED)
        ),
    ]


def _workloads(stage: Stage) -> Sequence[Role]:
    return [
        *replicated_load(TOPIC, PARTITIONS, acks_all_per_s=200.0),
        replace(offset_reader(AGED, len(stage.nodes)), process="offset-reader-aged"),
        *shortened({SHORTENED: len(stage.nodes)}, rate_per_s=DELETES_PER_S),
        Role(
            role="producer",
            process="producer-alone",
            params={
                "topics": dict.fromkeys((RESET, CLEARED, SIZED, TIMED, AGED), len(stage.nodes)),
                "acks": 1,
                "rate_per_s": 150.0,
                "first_value": 3_000_000_000,
            },
        ),
        Role(
            role="producer",
            process="producer-followed",
            params={
                "topics": {FOLLOWED: len(stage.nodes)},
                "acks": -1,
                "rate_per_s": 30.0,
                "first_value": 4_000_000_000,
            },
        ),
    ]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    back_ms = 300 + SESSION_TIMEOUT_MS + 800 + BACK_MS
    entries = [
        _altered("set", 50, "message.timestamp.type=CreateTime"),  # nobody has heard of any yet
        _altered("dated", 150, *texts(LOG_APPEND_TIME), topic=CLEARED),
        replace(_altered("reset", back_ms, *texts(RESET_TO)), after="away-0"),
        replace(
            _altered(FOLLOWED, back_ms + 100, *texts(LOG_APPEND_TIME), topic=FOLLOWED),
            after="reset",
        ),
        Entry(
            id="led-anew",
            fault="move-leadership",
            at_ms=back_ms + 500,
            duration_ms=0,
            after=FOLLOWED,
            params={"partitions": f"{FOLLOWED}-*"},
        ),
        Entry(
            id="defaults",
            fault="broker-config",
            at_ms=back_ms + 700,
            duration_ms=0,
            after="led-anew",
            params={"config": HARMLESS, "values": ["60001", "60002"]},
        ),
        replace(_altered(CLEARED, back_ms + 900, topic=CLEARED), after="defaults"),
    ]
    for turn in rounds(profile, ROUND_MS):
        at_ms = turn * ROUND_MS + 300
        entries += [
            Entry(
                id=f"away-{turn}",
                fault="pause",
                at_ms=at_ms,
                duration_ms=SESSION_TIMEOUT_MS + 800,
                params={
                    "target": f"leader:{TOPIC}-{rng.randrange(PARTITIONS)}",
                    "until_unregistered": True,
                },
            ),
            _forged(
                f"old-news-{turn}",
                at_ms + 4800,
                {"lie": ["stale_controller_epoch", "stale_leader_epoch"], "old_news": True},
            ),
            _forged(
                f"forged-{turn}",
                at_ms + 5600,
                {"lie": ["stale_broker_epoch", "stale_leader_epoch"], "per_round": 2},
            ),
            _forged(
                f"goodbye-{turn}",
                at_ms + 6400,
                {"api": SHUTDOWN, "lie": "stale_broker_epoch"},
            ),
        ]
    begins_ms = [turn * ROUND_MS for turn in rounds(profile, ROUND_MS)]
    entries = rested(entries, rng, profile, begins_ms)
    last = entries[-1]
    hung = Entry(
        id="hung",
        fault="hung-broker",
        at_ms=last.at_ms + last.duration_ms,
        duration_ms=0,
        params={"target": "other-leader", "topic": FOLLOWED},
        after=last.id,
    )
    return Plan.of(rng.getrandbits(31), [*entries, hung])


def _altered(name: str, at_ms: int, *configs: str, topic: str = RESET) -> Entry:
    return Entry(
        id=name,
        fault="alter-topic",
        at_ms=at_ms,
        duration_ms=100,
        params={"topic": topic, **({"configs": list(configs)} if configs else {"cleared": True})},
    )


def _forged(name: str, at_ms: int, lies: dict[str, object]) -> Entry:
    return Entry(
        id=name,
        fault="forged-requests",
        at_ms=at_ms,
        duration_ms=800,
        params={
            "target": "all",
            "partitions": f"{TOPIC}-*",
            "link": ["control", "client"],
            "interval_ms": 300,
            **lies,
        },
    )


ZOMBIE_BROKER = Scenario(
    name="zombie-broker",
    conjecture=(
        "A broker that comes back after its session acknowledges nothing that is lost with "
        "acks=all, and what was meant for its former registration, or says what was true before, "
        "is refused and changes nothing."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset({Capability.PAUSE, Capability.CONTROL_REQUESTS}),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=(
        *("fencing", "stale-metadata", "truncation-loss", "polls", "offsets", "retention"),
        "log-starts",
    ),
    leader_changes=True,
    session_timeout_ms=SESSION_TIMEOUT_MS,
    profiles=BEYOND_SMOKE,
)
