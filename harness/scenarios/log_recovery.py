"""After a crash a log ends where its last sound batch ends.

A follower is killed -9 under load, and its log gets an end that nobody meant: a batch that is whole
by its lengths but not by its checksum, half a batch, garbage, or a batch that lost its last bytes.
Back again, it must cut what is not sound and fetch the rest anew; its leader has gone on meanwhile,
in the same leader epoch, with other records at those offsets. In the end all replicas agree, and
nothing is lost that acks=all promised.

The first has been stopped in order and started again a moment before: that its logs were closed as
they should be it may believe once.
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
    replicated_load,
    rested,
    spread,
)
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "recovered"
PARTITIONS = 3
SESSION_TIMEOUT_MS = 2000
STEP_MS = 3500
STOPPED_MS = 2000
"""What a stop in order and a start take, and more."""
MODES = ("scrambled", "torn", "garbage", "cut")
CONFIGS = {**LOG_APPEND_TIME, "min.insync.replicas": "2"}


def _topics(stage: Stage) -> Sequence[Topic]:
    return [Topic(name=TOPIC, assignment=spread(PARTITIONS, stage.nodes, 3), configs=CONFIGS)]


def _workloads(_stage: Stage) -> Sequence[Role]:
    """One record a batch: what a torn end adds then ends where a batch of the leader ends, and a
    broker that trusts it goes on behind it. Else it could fetch nothing more (batches come whole),
    and what it holds beyond its high watermark nobody may judge."""
    return [
        replace(role, params={**role.params, "client": {"batch.num.messages": "1"}})
        if role.role == "producer"
        else role
        for role in replicated_load(TOPIC, PARTITIONS)
    ]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    """Each mode in turn, beginning with the one that only a checksum can tell."""
    steps = max(2, int(profile.chaos_s * 1000) // STEP_MS)
    entries = []
    for step in range(steps):
        partition = f"{TOPIC}-{rng.randrange(PARTITIONS)}"
        entries.append(
            Entry(
                id=f"{MODES[step % len(MODES)]}-{step}",
                fault="torn-tail",
                at_ms=step * STEP_MS + (STOPPED_MS if step else 0) + rng.randint(300, 600),
                duration_ms=rng.randint(400, 1000) + (0 if step else STOPPED_MS),
                params={
                    "target": f"follower:{partition}",
                    "partition": partition,
                    "mode": MODES[step % len(MODES)],
                    "stopped_first": step == 0,
                },
            )
        )
    begins_ms = [entry.at_ms for entry in entries]
    return Plan.of(rng.getrandbits(31), rested(entries, rng, profile, begins_ms))


LOG_RECOVERY = Scenario(
    name="log-recovery",
    conjecture=(
        "A broker that died in the middle of a write cuts its logs back to their last sound batch "
        "and fetches the rest anew: replicas agree, and no record that acks=all promised is lost."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset({Capability.KILL, Capability.CONTROLLED_STOP, Capability.LOG_FILES}),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=("polls", "offsets", "truncation-loss", "stale-metadata"),
    leader_changes=False,
    session_timeout_ms=SESSION_TIMEOUT_MS,
    profiles=BEYOND_SMOKE,
)
