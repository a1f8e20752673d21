"""The active controller is paused or cut off past its time, and comes back to find a successor.

With ZooKeeper it is the broker that holds ``/controller``; without, the leader of the controllers'
quorum. The ways to lose the office, in an order drawn from the seed: SIGSTOP past its session (it
wakes up with whatever it had in mind), cut from what makes it controller while its own connections
to the brokers live on (it goes on deciding until it notices), and, where there is a ZooKeeper, a
short stop in the middle of an election while an operator removes ``/controller`` (it wakes up with
a living session and a decision to be written). Meanwhile a successor is elected; afterwards nothing
that the old one still does may count. Producers with acks=all, a consumer and metadata readers see
what clients see.

Before that, while all are in sync, the first one is cut off with orders of an operator in its
queue: who gave them is to be told that it rules no more.

Then a topic is deleted, and ``/controller`` removed several times, so that somebody is in office
again who was before: it goes by what ZooKeeper has now, not by what it knew. The last of them is
asked to give a topic more partitions that was there before it: it must have looked at all of them.

Then an operator removes ``/controller`` once more, and nothing else happens: who was elected by its
being removed must have looked at it since, or it never hears that it is succeeded.

In the end who lost its session last is stopped in order: it has to say goodbye in the name of its
present registration, not of its first, or its controller does not let others lead before it goes.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, pairwise

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

TOPIC = "governed"
PARTITIONS = 6
SESSION_TIMEOUT_MS = 1500
HOLD_MS = 4900
"""A successor without ZooKeeper gives every broker a whole session before it fences one: two
seconds until it is elected, the session, and as much again as a busy machine takes."""
STEP_MS = 6300
"""Longer than it takes to find a successor and to come back: of three voters one may be away."""
OUST_HOLD_MS = 2500
"""No session has to expire."""
OUST_STEP_MS = 4000
REMOVED_MS = 1500
"""Who is back has heard by then who is in office."""
OFFICES = 3
"""So many more are in office after the topic is gone: of three brokers one is very likely to have
been it before."""
STOPPED_MS = 500
CALM_MS = 2500
"""By then all know who is in office, and who is back is in sync (`checkers.promises.handing_over`).
"""
END_MS = (OFFICES + 3) * REMOVED_MS + CALM_MS + STOPPED_MS
"""All that comes after the last turn."""
GROWN = "grown"
GROWN_PARTITIONS, GROWN_BY = 2, 1
QUIESCE_S = 40.0
"""A controller that loses its session in Apache Kafka drops what it was asked, unanswered: a leader
that had asked it for a larger in-sync set asks again when its request has timed out, in 30 s."""
FIRST_MS = 300
FORSAKEN_MS = 4000
"""A session's end, and the answers to whoever waited meanwhile. Some systems take longer: each turn
waits for the one before it."""
JITTER_MS = 300


def _topics(stage: Stage) -> Sequence[Topic]:
    configs = {**LOG_APPEND_TIME, "min.insync.replicas": "2"}
    return [
        Topic(name=TOPIC, assignment=spread(PARTITIONS, stage.nodes, 3), configs=configs),
        Topic(name=GROWN, assignment=spread(GROWN_PARTITIONS, stage.nodes, 3)),
    ]


def _workloads(_stage: Stage) -> Sequence[Role]:
    return replicated_load(TOPIC, PARTITIONS, acks_all_per_s=200.0)


def _plan(rng: random.Random, profile: Profile) -> Plan:
    """As many turns as fit, and every way at least once."""
    ways = ["pause", "cut", "oust"]
    rng.shuffle(ways)
    forsaken = Entry(
        id="forsaken",
        fault="forsaken-orders",
        at_ms=FIRST_MS,
        duration_ms=0,
        params={"topic": TOPIC},
    )
    entries: list[Entry] = []
    at_ms = FIRST_MS + FORSAKEN_MS
    for way in cycle(ways):
        step_ms = OUST_STEP_MS if way == "oust" else STEP_MS
        if len(entries) >= len(ways) and at_ms + step_ms + END_MS > int(profile.chaos_s * 1000):
            break
        entries.append(_entry(way, len(entries), at_ms + rng.randint(0, JITTER_MS)))
        at_ms += step_ms
    begins_ms = [entry.at_ms for entry in entries]
    entries = rested(entries, rng, profile, begins_ms)
    entries = [
        forsaken,
        *(replace(entry, after=before.id) for before, entry in pairwise([forsaken, *entries])),
    ]
    last = entries[-1]
    over_ms = last.at_ms + last.duration_ms
    steps: list[tuple[str, str, dict[str, object]]] = [
        ("deleted", "delete-topic", {"partitions": 3, "replicas": 3}),
        *((f"again-{turn}", "remove-controller", {}) for turn in range(OFFICES)),
        (GROWN, "grow-topic", {"topic": GROWN, "partitions": GROWN_BY}),
        ("removed", "remove-controller", {}),
    ]
    for turn, (entry_id, fault, params) in enumerate(steps, 1):
        entries.append(
            Entry(
                id=entry_id,
                fault=fault,
                at_ms=over_ms + turn * REMOVED_MS,
                duration_ms=0,
                params=params,
                after=entries[-1].id,
            )
        )
    removed = entries[-1]
    stopped = Entry(
        id="stopped",
        fault="stop",
        at_ms=removed.at_ms + CALM_MS,
        duration_ms=STOPPED_MS,
        params={"target": "registered-last"},
        after=removed.id,
    )
    return Plan.of(rng.getrandbits(31), [*entries, stopped])


def _entry(way: str, turn: int, at_ms: int) -> Entry:
    if way == "oust":
        return Entry(
            id=f"oust-{turn}",
            fault="oust-controller",
            at_ms=at_ms,
            duration_ms=OUST_HOLD_MS,
            params={"partitions": f"{TOPIC}-*"},
        )
    return Entry(
        id=f"{way}-{turn}",
        fault="depose-controller",
        at_ms=at_ms,
        duration_ms=HOLD_MS,
        params={"how": way},
    )


CONTROLLER_PAUSE = Scenario(
    name="controller-pause",
    conjecture=(
        "When the active controller is paused, cut off or ousted, a successor is elected; once the "
        "old one is back its decisions have no effect, clients' metadata never goes back, and "
        "acks=all loses nothing."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset({Capability.LINKS, Capability.PAUSE}),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=(
        "succession",
        "stale-metadata",
        "truncation-loss",
        "polls",
        "offsets",
        "availability",
        "fencing",
    ),
    leader_changes=True,
    session_timeout_ms=SESSION_TIMEOUT_MS,
    quiesce_s=QUIESCE_S,
    aims_at_controller=True,
    profiles=BEYOND_SMOKE,
)
