"""A consumer group goes on where it was, whoever comes and goes: members, brokers, coordinators.

Two members share the partitions, commit what they were given, and leave and rejoin on clocks of
their own, so that partitions change hands all the time. A third is gone early and for good, without
a word, and the coordinator must give what it had to the others when its session is over; another,
of a group of its own, goes without a word and comes back in time, over and over: the next
coordinator must know it by its new id. Two more groups have one member after the other, each of
which says nothing once it is let in: the next one waits until its session is over, or until it
would have had to join anew, whoever coordinates by then. At first partitions of groups move between
brokers that live, as an operator would move them; once from a coordinator whose followers get
nothing from it: what it was asked to keep last its successor does not have, and nobody may be told
that it is kept, neither who asked for that nor who looks on. Then brokers are killed and stopped,
the group's coordinator (the leader of the partition of __consumer_offsets that the group's id falls
into) in every other step, and by a kill when its followers have got nothing from it for a while:
its successor must have every offset that was acknowledged, and is asked for them before the next
are committed. At last the coordinator, which lives, loses its replica: it coordinates no more, and
is told so by that alone. The records come from idempotent producers, which retry through all of it:
each must be there once, and that a leader did not come to answer what it had replicated must not
make it two.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import count
from typing import Any

from faults.plan import Plan
from faults.protocol import Capability, Entry
from harness.scenarios.base import (
    BEYOND_SMOKE,
    LOG_APPEND_TIME,
    Role,
    Scenario,
    Stage,
    Topic,
    idempotent_load,
    in_turn,
    offset_reader,
    repeating_producer,
    spread,
    static_member,
)
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "shared"
PARTITIONS = 6
GROUP = "sharers"
OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS = 3
REJOIN_MS = (3500, 5500)
"""How long each member stays before it leaves and joins anew."""
GATHER_MS = 100
"""One commits what it is given at once; the other what it was given of all of its partitions."""
GONE_MS = 2000
GONE_SESSION_MS = 1500
"""Of the one that is gone: all others wait for so long."""
SLOW_SESSION_MS = 3000
SLOW_COMMIT_MS = 4500
"""Of the one member of another group, which lives by its heartbeats: it commits more seldom than
its session lasts."""
KEEP_MS = 2000
"""So long every second position of groups without members is kept. The coordinator looks for what
is over more often than by default, every ten minutes."""
SESSION_TIMEOUT_MS = 2000
STEP_MS = 5000
TAKEN_MS = 1500
"""By then who was ended last is back."""
CONFIGS = {**LOG_APPEND_TIME, "min.insync.replicas": "2"}


def offsets_partition(group: str, partitions: int = OFFSETS_PARTITIONS) -> int:
    """Where a group's offsets are kept: Java's String.hashCode of its (ASCII) id, its sign bit
    taken off, modulo (kafka.coordinator.group.GroupMetadataManager.partitionFor)."""
    code = 0
    for letter in group.encode("ascii"):
        code = (31 * code + letter) & 0xFFFFFFFF
    # Utils.abs: the distance from 0, but of the smallest integer, which becomes 0.
    size = 0x1_0000_0000 - code if code > 0x8000_0000 else code & 0x7FFFFFFF
    return size % partitions


COORDINATED = f"{OFFSETS_TOPIC}-{offsets_partition(GROUP)}"
WAITERS = next(
    name
    for name in map("waiters-{}".format, count())
    if offsets_partition(name) == offsets_partition(GROUP)
)
"""A group of the same coordinators."""
COUPLE, RAISED, PAIR, SILENT, LATE, STATIC = (
    next(
        name
        for name in map((kind + "-{}").format, count())
        if offsets_partition(name) == offsets_partition(GROUP)
    )
    for kind in ("couple", "raised", "pair", "silent", "late", "static")
)
"""And more, one of them without members."""
ABSENT_MS = 2500
"""How long a member that says nothing is waited for: as its session is over, or as it does not
join anew in time. The other of the two is `NEVER_MS`."""
NEVER_MS = 60_000
HURRIED_MS = 1000
"""Every other member of the latter has less time to join anew: of two the longer counts."""
MOVE_MS = 600
UNKEPT_MS = 300
"""For so long a coordinator whose followers get nothing is asked what it keeps, before another
is."""
BACK_MS = 1900
"""By then the second coordinator has kept positions for more than a second."""
MOVED_MS = 3000
"""When all that have nothing to lose have been moved; then one that has, and then they die."""
UNHEARD_MS = 2500
UNANSWERED = 8
"""So many records of both producers: of one of them several batches, each of which its successor
must know for its own."""
PATIENT_MS = 5000
"""Without answers each producer has but five requests on their way, to whatever the broker leads:
where these are of other partitions, a quarter as many records have to do."""
LAG_MS = 700
"""How long a coordinator lives on whose followers get nothing, more or less."""


def _topics(stage: Stage) -> Sequence[Topic]:
    return [Topic(name=TOPIC, assignment=spread(PARTITIONS, stage.nodes, 3), configs=CONFIGS)]


def _workloads(_stage: Stage) -> Sequence[Role]:
    topics = {TOPIC: PARTITIONS}
    members = [
        Role(
            role="group-consumer",
            process=f"member-{number}",
            params={
                "group": GROUP,
                "topics": topics,
                "rejoin_ms": rejoin_ms,
                "gather_ms": GATHER_MS * (number - 1),
            },
        )
        for number, rejoin_ms in enumerate(REJOIN_MS, start=1)
    ]
    return [
        *idempotent_load(TOPIC, PARTITIONS, per_s=200.0),
        repeating_producer(TOPIC, PARTITIONS),
        *members,
        Role(
            role="group-consumer",
            process="member-gone",
            params={
                "group": GROUP,
                "topics": topics,
                "gone_ms": GONE_MS,
                "session_timeout_ms": GONE_SESSION_MS,
            },
        ),
        Role(
            role="group-consumer",
            process="member-slow",
            params={
                "group": f"slow-{GROUP}",
                "topics": topics,
                "session_timeout_ms": SLOW_SESSION_MS,
                "commit_ms": SLOW_COMMIT_MS,
            },
        ),
        static_member("member-static", STATIC, topics, {"fetch.min.bytes": "2000"}),
        Role(
            role="group-stranger",
            process="group-stranger",
            params={"group": GROUP, "topics": topics, "statics": {STATIC: "member-static"}},
        ),
        Role(
            role="group-keeper",
            process="group-keeper",
            params={
                **{"topic": TOPIC, "keep_ms": KEEP_MS, "visits": True, "leaves": True},
                "clears": True,
            },
        ),
        Role(  # of what is over it asks often: whether that is back it shows for a moment at most
            role="group-keeper",
            process="group-expirer",
            params={
                **{"topic": TOPIC, "prefix": "brief", "keep_ms": KEEP_MS, "rate_per_s": 24.0},
                **{"visits": True, "clears": True},
            },
        ),
        Role(  # a process of its own: who waits for an answer asks that broker nothing else
            role="group-keeper",
            process="group-waiter",
            params={
                **{"topic": TOPIC, "prefix": "waited", "visits": True, "waits": WAITERS},
                "clears": True,
            },
        ),
        Role(
            role="group-couple",
            process="group-couple",
            params={"group": COUPLE},
        ),
        Role(
            role="group-riser",
            process="group-riser",
            params={"group": RAISED, "topic": TOPIC},
        ),
        Role(
            role="group-pair",
            process="group-pair",
            params={"group": PAIR, "topic": TOPIC},
        ),
        *(
            Role(
                role="group-absent",
                process=f"group-{group}",
                params={
                    **{"group": group, "session_ms": session_ms, "rebalance_ms": rebalance_ms},
                    **({"leaves": True, "hurried_ms": HURRIED_MS} if group == LATE else {}),
                },
            )
            for group, session_ms, rebalance_ms in (
                (SILENT, ABSENT_MS, NEVER_MS),
                (LATE, NEVER_MS, ABSENT_MS),
            )
        ),
        Role(role="metadata-reader", process="metadata-reader", params={"topics": [TOPIC]}),
        offset_reader(TOPIC, PARTITIONS),
    ]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    """Moves, and then deaths: of the coordinator first and then in every other step; between, of
    whoever leads a partition, with records that are replicated and not answered: their producers
    send them again, to the next. Who loses its replica comes last: of two that are left none is to
    die."""
    ways = ["lagged-kill", "stop"]
    rng.shuffle(ways)
    unheard = {"partition": COORDINATED, "records": 1, "longer_ms": UNKEPT_MS}
    entries = _moves()
    entries.append(
        Entry(id="unheard", fault="lagged-move", at_ms=MOVED_MS, duration_ms=0, params=unheard)
    )
    begin_ms = MOVED_MS + UNHEARD_MS
    # Each way at least once, however short: no seed may leave one out.
    least = 2 * len(ways) - 1
    steps = max(least, int(profile.chaos_s * 1000 - begin_ms) // STEP_MS)
    for step in range(steps):
        way = "unanswered-kill" if step % 2 else ways[step // 2 % len(ways)]
        duration_ms = SESSION_TIMEOUT_MS + rng.randint(200, 800)
        entries.append(
            Entry(
                id=f"{way}-{step}",
                fault=way,
                at_ms=begin_ms + step * STEP_MS + rng.randint(500, 900),
                duration_ms=duration_ms + (LAG_MS if way == "lagged-kill" else 0),
                params=_params(way, f"{TOPIC}-{rng.randrange(PARTITIONS)}"),
            )
        )
    entries.append(
        Entry(
            id="taken",
            fault="reassign",
            at_ms=begin_ms + steps * STEP_MS + TAKEN_MS,
            duration_ms=0,
            params={"partitions": COORDINATED, "to": "followers"},
        )
    )
    # One after the other: who takes seconds over a move has not led yet as the next one begins.
    return Plan.of(rng.getrandbits(31), in_turn(entries))


def _moves() -> list[Entry]:
    """Nobody dies: the group's coordinator changes, then another partition of groups goes around
    all brokers, the coordinator among them, who must know its own groups all the while; and then
    the first coordinator is it again, who lives on, and knows nothing of what was kept meanwhile.
    """
    other = f"{OFFSETS_TOPIC}-{(offsets_partition(GROUP) + 1) % OFFSETS_PARTITIONS}"
    return [
        Entry(
            id=f"{name}-{partition}",
            fault="move-leadership",
            at_ms=at_ms,
            duration_ms=0,
            params={"partitions": partition, "order": "rotate", **more},
        )
        for name, partition, at_ms, more in (
            ("move", COORDINATED, 0, {}),
            ("move", other, MOVE_MS, {"times": 3, "interval_ms": MOVE_MS - 200}),
            ("back", COORDINATED, BACK_MS, {"times": 2, "interval_ms": MOVE_MS - 200}),
        )
    ]


def _params(way: str, other: str) -> dict[str, Any]:
    match way:
        case "stop":
            return {"target": f"leader:{COORDINATED}"}
        case "lagged-kill":  # two members commit one after the other: more records do not gather
            return {"partition": COORDINATED, "records": 1, "longer_ms": LAG_MS // 2}
        case _:
            return {
                **{"partition": other, "records": UNANSWERED, "least": UNANSWERED // 4},
                "lag_ms": PATIENT_MS,
            }


GROUP_REBALANCE = Scenario(
    name="group-rebalance",
    conjecture=(
        "Whoever coordinates a consumer group and whoever is given its partitions goes on from the "
        "newest acknowledged offset, and the members together are given every record."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset(
        {
            *(Capability.KILL, Capability.CONTROLLED_STOP, Capability.LINKS),
            *(Capability.LOG_FILES, Capability.ELECT_LEADERS),
        }
    ),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=("groups", "polls", "offsets", "truncation-loss", "stale-metadata"),
    leader_changes=True,
    overrides={
        "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
        "offsets.topic.replication.factor": "3",
        # Seldom enough that a coordinator which has just begun is asked before it looks.
        "offsets.retention.check.interval.ms": "1500",
        # 3 s by default: a group would hardly be there before its coordinator goes again.
        "group.initial.rebalance.delay.ms": "300",
        "group.min.session.timeout.ms": "1000",  # 6 s: nobody would be missed within a short run
    },
    session_timeout_ms=SESSION_TIMEOUT_MS,
    quiesce_s=30.0,
    profiles=BEYOND_SMOKE,
)
