"""The last replica in sync dies, and the others, who live and lack what it has, may not lead.

min.insync.replicas is 1 here, so that a leader whose followers were all dropped goes on taking
records, and acknowledges them with acks=all by itself. Then it dies. Without unclean elections the
partition has no leader until it is back (KIP-106: unclean.leader.election.enable is false): that is
the price, and nothing acknowledged is lost. An election that is asked for meanwhile is refused.

Of another topic, to which nobody writes, an operator allows unclean elections in the end, while the
last replica in sync is dead: with ZooKeeper the one that lives leads at once.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from faults.plan import Plan
from faults.protocol import Capability, Entry
from faults.unclean_allowed import UNCLEAN
from harness.scenarios.base import (
    BEYOND_SMOKE,
    LOG_APPEND_TIME,
    Role,
    Scenario,
    Stage,
    Topic,
    led_by,
    replicated_load,
    rounds,
)
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "alone"
ALLOWED = "allowed"
PARTITIONS = 2
LAG_MAX_MS = 1500
SESSION_TIMEOUT_MS = 2000
ROUND_MS = 12_000
AWAY_MS = 11_000
"""To be dropped, to die, to be missed, and some time with nobody to lead."""
CONFIGS = {**LOG_APPEND_TIME, "min.insync.replicas": "1"}


def _topics(stage: Stage) -> Sequence[Topic]:
    assignment = led_by(stage.victim, stage.others, PARTITIONS)
    return [
        Topic(name=TOPIC, assignment=assignment, configs=CONFIGS),
        Topic(
            name=ALLOWED,
            assignment={0: [n for n in stage.nodes if n != stage.controller][:2]},
            given_later={UNCLEAN: "true"},
        ),
    ]


def _workloads(_stage: Stage) -> Sequence[Role]:
    return replicated_load(TOPIC, PARTITIONS, acks_all_per_s=200.0)


def _plan(rng: random.Random, profile: Profile) -> Plan:
    entries = [
        Entry(
            id=f"alone-{turn}",
            fault="last-in-sync",
            at_ms=turn * ROUND_MS + rng.randint(200, 500),
            duration_ms=AWAY_MS,
            params={"partition": f"{TOPIC}-{rng.randrange(PARTITIONS)}"},
        )
        for turn in rounds(profile, ROUND_MS)
    ]
    entries.append(
        Entry(
            id=ALLOWED,
            fault="unclean-allowed",
            at_ms=entries[-1].at_ms + AWAY_MS,
            duration_ms=0,
            after=entries[-1].id,
            params={"partition": f"{ALLOWED}-0"},
        )
    )
    return Plan.of(rng.getrandbits(31), entries)


LAST_IN_SYNC = Scenario(
    name="last-in-sync",
    conjecture=(
        "When the last replica in sync dies nobody else leads its partition before it is back, and "
        "no record that it had acknowledged is lost."
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
    overrides={"replica.lag.time.max.ms": str(LAG_MAX_MS)},
    session_timeout_ms=SESSION_TIMEOUT_MS,
    quiesce_s=30.0,
    profiles=BEYOND_SMOKE,
)
