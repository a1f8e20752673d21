"""After a crash a log ends where its last sound batch ends.

A follower is killed -9 under load, and its log gets an end that nobody meant: a batch that is whole
by its lengths but not by its checksum, half a batch, garbage, or a batch that lost its last bytes.
Back again, it must cut what is not sound and fetch the rest anew; its leader has gone on meanwhile,
in the same leader epoch, with other records at those offsets. In the end all replicas agree, and
nothing is lost that acks=all promised.

The first has been stopped in order and started again a moment before: that its logs were closed as
they should be it may believe once.

Before, a leader is stopped in order with records that nobody else has. It reads no log when it is
back, and believes its indexes; what only it has it must cut all the same, of a log that it opened
whole: the other one by which it was succeeded has gone on from there.

And in the end a topic is made again, which one broker has alone. It dies when the namesake is
young: where the former's log began, which is still on its disk, is not where the namesake's does.
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
    SHORT_SEGMENTS,
    Role,
    Scenario,
    Stage,
    Topic,
    in_turn,
    led_by,
    replicated_load,
    rested,
    spread,
)
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "recovered"
PARTITIONS = 3
AHEAD = "ahead"
"""One partition, led by a broker that is not the controller, which would be stopped as well. Nobody
asks for its times: Apache Kafka forgets those of what it has cut so (BIPLANE-2)."""
AHEAD_PER_S = 40.0
AHEAD_RECORDS = 10
NAMESAKE = "namesake"
NAMESAKE_PER_S, FORMER_RECORDS, FEW_RECORDS = 4.0, 20, 3
"""What goes with the former topic is excused, and must be little."""
ASKED_MS = 500
AHEAD_MS = 2500
"""From the end of that to the next."""
SESSION_TIMEOUT_MS = 2000
STEP_MS = 3500
STOPPED_MS = 2000
"""What a stop in order and a start take, and more."""
NAMESAKE_MS = 7000
"""The same, a deletion, and a kill."""
MODES = ("scrambled", "torn", "garbage", "cut")
CONFIGS = {**LOG_APPEND_TIME, "min.insync.replicas": "2"}


def _topics(stage: Stage) -> Sequence[Topic]:
    return [
        Topic(name=TOPIC, assignment=spread(PARTITIONS, stage.nodes, 3), configs=CONFIGS),
        Topic(
            name=AHEAD,
            assignment=led_by(stage.victim, stage.others, 1),
            configs={**CONFIGS, **SHORT_SEGMENTS},
        ),
        Topic(name=NAMESAKE, assignment=spread(1, stage.others, 1)),
    ]


def _workloads(_stage: Stage) -> Sequence[Role]:
    """One record a batch: what a torn end adds then ends where a batch of the leader ends, and a
    broker that trusts it goes on behind it. Else it could fetch nothing more (batches come whole),
    and what it holds beyond its high watermark nobody may judge."""
    one_by_one = [
        replace(role, params={**role.params, "client": {"batch.num.messages": "1"}})
        if role.role == "producer"
        else role
        for role in replicated_load(TOPIC, PARTITIONS)
    ]
    topics = {AHEAD: 1}
    return [
        *one_by_one,
        *(
            Role(
                role="producer",
                process=f"producer-ahead-{name}",
                params={
                    "topics": topics,
                    "acks": acks,
                    "rate_per_s": AHEAD_PER_S,
                    "first_value": first_value,
                },
            )
            for name, acks, first_value in (("all", -1, 3_000_000_000), ("one", 1, 4_000_000_000))
        ),
        Role(role="consumer", process="consumer-ahead", params={"topics": topics}),
        Role(
            # Not librdkafka: it takes a namesake's leaders, whose epochs begin anew, for old news.
            # To the other topic as well: nobody else has the one, and its broker may be long away.
            role="joint-producer",
            process="producer-namesake",
            params={
                "topics": {TOPIC: PARTITIONS, NAMESAKE: 1},
                "acks": -1,
                "rate_per_s": NAMESAKE_PER_S,
                "first_value": 5_000_000_000,
            },
        ),
    ]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    """Each mode in turn, beginning with the one that only a checksum can tell. Each fault waits for
    the one before: how long the first takes, only it knows."""
    chaos_ms = int(profile.chaos_s * 1000)
    least = min(len(MODES), max(2, chaos_ms // STEP_MS))
    steps = max(least, (chaos_ms - AHEAD_MS - STOPPED_MS - NAMESAKE_MS) // STEP_MS)
    entries = [
        Entry(
            id="ahead",
            fault="stopped-ahead",
            at_ms=rng.randint(200, 400),
            duration_ms=0,
            params={"partition": f"{AHEAD}-0", "records": AHEAD_RECORDS, "asked_ms": ASKED_MS},
        )
    ]
    for step in range(steps):
        partition = f"{TOPIC}-{rng.randrange(PARTITIONS)}"
        entries.append(
            Entry(
                id=f"{MODES[step % len(MODES)]}-{step}",
                fault="torn-tail",
                at_ms=AHEAD_MS
                + step * STEP_MS
                + (STOPPED_MS if step else 0)
                + rng.randint(300, 600),
                duration_ms=rng.randint(400, 1000) + (0 if step else STOPPED_MS),
                params={
                    "target": f"follower:{partition}",
                    "partition": partition,
                    "mode": MODES[step % len(MODES)],
                    "stopped_first": step == 0,
                },
            )
        )
    entries.append(
        Entry(
            id=NAMESAKE,
            fault="namesake",
            at_ms=entries[-1].at_ms + STEP_MS,
            duration_ms=0,
            params={
                "partition": f"{NAMESAKE}-0",
                "records": FORMER_RECORDS,
                "few": FEW_RECORDS,
            },
        )
    )
    begins_ms = [entry.at_ms for entry in entries]
    return Plan.of(rng.getrandbits(31), rested(in_turn(entries), rng, profile, begins_ms))


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
