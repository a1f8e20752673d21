"""The last replica in sync dies, and the others, who live and lack what it has, may not lead.

min.insync.replicas is 1 here, so that a leader whose followers were all dropped goes on taking
records, and acknowledges them with acks=all by itself. Then it dies. Without unclean elections the
partition has no leader until it is back (KIP-106: unclean.leader.election.enable is false): that is
the price, and nothing acknowledged is lost. An election that is asked for meanwhile is refused.

At last, of a topic of which two must be in sync, one is left that was not the last to have all: it
comes back with a high watermark of long ago, to which others' logs reach that lack records, and
dies again before these can have caught up (fault behind-the-epoch, KAFKA-7128).
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
    in_turn,
    led_by,
    offset_reader,
    replicated_load,
    rounds,
)
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "alone"
PARTITIONS = 2
LAG_MAX_MS = 1500
SESSION_TIMEOUT_MS = 2000
ROUND_MS = 12_000
AWAY_MS = 11_000
"""To be dropped, to die, to be missed, and some time with nobody to lead."""
CONFIGS = {**LOG_APPEND_TIME, "min.insync.replicas": "1"}
BEHIND = "behind"
BEHIND_MS = 18_000
"""Who is away, the other follower and the leader are missed one after the other, the leader twice,
and it starts in between."""
OF_TWO = {**LOG_APPEND_TIME, "min.insync.replicas": "2"}
SELDOM_MS = 300_000
"""So that who begins anew has a high watermark of before the run."""


def _topics(stage: Stage) -> Sequence[Topic]:
    assignment = led_by(stage.victim, stage.others, PARTITIONS)
    # The controller last: who is away for a while is not the one that has to elect.
    line = {0: [stage.victim, *stage.others]}
    return [
        Topic(name=TOPIC, assignment=assignment, configs=CONFIGS),
        Topic(name=BEHIND, assignment=line, configs=OF_TWO),
    ]


def _workloads(_stage: Stage) -> Sequence[Role]:
    load = replicated_load(TOPIC, PARTITIONS, acks_all_per_s=200.0)
    (reader,) = (role for role in load if role.role == "metadata-reader")
    behind = {"topics": {BEHIND: 1}}
    return [
        *(role for role in load if role is not reader),
        replace(reader, params={"topics": [TOPIC, BEHIND]}),
        Role(
            role="producer",
            process="producer-behind",
            params={**behind, "acks": -1, "rate_per_s": 50.0, "first_value": 2_000_000_000},
        ),
        Role(role="consumer", process="consumer-behind", params=behind),
        replace(offset_reader(BEHIND, 1), process="offset-reader-behind"),
    ]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    room = replace(profile, chaos_s=profile.chaos_s - BEHIND_MS / 1000)
    turns = rounds(room, ROUND_MS)
    entries = [
        Entry(
            id=f"alone-{turn}",
            fault="last-in-sync",
            at_ms=turn * ROUND_MS + rng.randint(200, 500),
            duration_ms=AWAY_MS,
            params={"partition": f"{TOPIC}-{rng.randrange(PARTITIONS)}"},
        )
        for turn in turns
    ]
    entries.append(
        Entry(
            id="behind",
            fault="behind-the-epoch",
            at_ms=len(turns) * ROUND_MS + rng.randint(200, 500),
            duration_ms=BEHIND_MS,
            params={"partition": f"{BEHIND}-0"},
        )
    )
    return Plan.of(rng.getrandbits(31), in_turn(entries))


LAST_IN_SYNC = Scenario(
    name="last-in-sync",
    conjecture=(
        "When the last replica in sync dies nobody else leads its partition before it is back, and "
        "no record that was acknowledged is lost, even if it forgot how far all had come."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset(
        {Capability.KILL, Capability.LINKS, Capability.LOG_FILES, Capability.ELECT_LEADERS}
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
    profiles=BEYOND_SMOKE,
)
