"""A broker loses its disk: it comes back under its old id with nothing, and must not lead with it.

A broker is killed; when the in-sync sets have gone on without it, its log directory is emptied (all
but meta.properties) and it is started again. It has to fetch everything anew, and may join the
in-sync sets only then: were it taken for in sync before, or elected, all that acks=all promised
would be cut from the others' logs (in KRaft mode that is what KIP-903 is about). Every second time,
the first among them, its leader's answers no longer leave by the inter-broker link from its start
on (the leader hears from it, and it gets nothing), and the leader is killed: a set which it joined
too early shows then. Of another topic the oldest records are deleted at first: who comes back with
nothing has to begin where its leader's log begins, and lacks nothing from there on.

In the end a leader's log directory fails while it runs: it must end at once, so that one of those
who have a disk leads, and comes back when the directory is what it was.

A broker that is all of an in-sync set is never wiped (see faults/wiped_disk.py): Kafka would elect
it, empty as it is, and the loss would be lawful.
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
    replicated_load,
    rested,
    rounds,
    shortened,
    spread,
    tail_reader,
)
from harness.scenarios.returning_follower import BUSY_MS, RETURN_MS, silent_death
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "kept-by-others"
PARTITIONS = 3
HEADLESS = "headless"
DELETED_MS = 3000
"""For so long its records are deleted: before anybody is back whose disk was lost."""
LEFT = 5
"""So many records are left each time: on a slow system there are not many by then."""
SESSION_TIMEOUT_MS = 2000
ROUND_MS = 9700
"""Of a round with a death, which takes `BUSY_MS` longer, and of the shorter one after it."""
AWAY_MS = SESSION_TIMEOUT_MS + 1500
FAILED_MS = SESSION_TIMEOUT_MS + 1000
CONFIGS = {**LOG_APPEND_TIME, **SHORT_SEGMENTS, "min.insync.replicas": "2"}


def _topics(stage: Stage) -> Sequence[Topic]:
    assignment = spread(PARTITIONS, stage.nodes, 3)
    return [Topic(name=name, assignment=assignment, configs=CONFIGS) for name in (TOPIC, HEADLESS)]


def _workloads(_stage: Stage) -> Sequence[Role]:
    return [
        *replicated_load(TOPIC, PARTITIONS),
        tail_reader(TOPIC, PARTITIONS),
        *shortened({HEADLESS: PARTITIONS}, per_s=24.0, until_ms=DELETED_MS, kept=LEFT),
    ]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    entries: list[Entry] = []
    for turn in rounds(profile, ROUND_MS):
        partition = f"{TOPIC}-{rng.randrange(PARTITIONS)}"
        at_ms = turn * ROUND_MS + turn % 2 * BUSY_MS + rng.randint(200, 500)
        role = ("successor", "leader")[turn % 2]
        entries.append(_wipe(turn, at_ms, f"{role}:{partition}"))
        if role == "successor":
            entries += silent_death(
                turn, at_ms + AWAY_MS, f"leader:{partition}", return_ms=RETURN_MS + BUSY_MS
            )
    begins_ms = [turn * ROUND_MS + turn % 2 * BUSY_MS for turn in rounds(profile, ROUND_MS)]
    played = rested(entries, rng, profile, begins_ms)
    last = max(played, key=lambda entry: entry.at_ms + entry.duration_ms)
    failed = Entry(
        id="failed",
        fault="fail-disk",
        at_ms=last.at_ms + last.duration_ms,
        duration_ms=FAILED_MS,
        params={"target": f"leader:{TOPIC}-{rng.randrange(PARTITIONS)}"},
        after=last.id,
    )
    return Plan.of(rng.getrandbits(31), [*played, failed])


def _wipe(turn: int, at_ms: int, target: str) -> Entry:
    return Entry(
        id=f"wipe-{turn}",
        fault="wipe-disk",
        at_ms=at_ms,
        duration_ms=AWAY_MS,
        params={"target": target},
    )


DISK_LOST = Scenario(
    name="disk-lost",
    conjecture=(
        "A broker that comes back with an empty log directory joins the in-sync sets only when it "
        "has caught up and leads nothing before; one whose log directory fails while it runs ends, "
        "and another leads: no acks=all record that others have is lost."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset({Capability.KILL, Capability.LOG_FILES, Capability.LINKS}),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=("truncation-loss", "polls", "offsets", "log-starts", "stale-metadata"),
    leader_changes=True,
    session_timeout_ms=SESSION_TIMEOUT_MS,
    quiesce_s=40.0,
    profiles=BEYOND_SMOKE,
)
