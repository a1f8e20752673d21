"""Recovery of a leaderless partition when its next leader is a flooded broker.

A leader that is neither flooded nor controller is killed; the next in-sync replica of each of its
partitions is the broker that is being flooded. From the commit of the new leader to the first
acknowledged produce is what clients live through; of that, until the broker knows that it leads is
what a control plane of its own can shorten. acks=1 and acks=all have topics of their own: with
acks=all a record waits for the other follower, whose fetches go through the flooded data plane in
either mode. Measured from the commit: the session timeout before it dwarfs the rest.

Before the flood every partition is led by that broker once, and given back: a virtual machine that
becomes a leader for the first time in its life takes longer over that than any queue makes it wait.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from faults.plan import Plan
from faults.protocol import Capability, Entry
from harness.scenarios.base import BEYOND_SMOKE, LOG_APPEND_TIME, Role, Scenario, Stage, Topic
from harness.scenarios.request_flood import VICTIM_TOPIC, probes, queue_flood
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPICS = {"leaderless-1": 1, "leaderless-all": -1}
"""Topic -> acks of its producers."""
PARTITIONS = 3
RATE_PER_S = 25.0
CONNECTIONS = 32
REHEARSAL_MS = 100
FLOOD_MS = 2000
KILL_MS = 3000
SESSION_TIMEOUT_MS = 3000


def _topics(stage: Stage) -> Sequence[Topic]:
    first, *rest = stage.others
    replicas = [first, stage.victim, *rest]
    return [
        Topic(name=VICTIM_TOPIC, assignment={0: [stage.victim]}),
        *(
            Topic(
                name=topic,
                assignment=dict.fromkeys(range(PARTITIONS), replicas),
                configs=LOG_APPEND_TIME,
            )
            for topic in TOPICS
        ),
    ]


def _workloads(stage: Stage) -> Sequence[Role]:
    producers = [
        Role(
            role="direct-producer",
            process=f"{topic}-{partition}",
            params={
                "topic": topic,
                "partition": partition,
                "acks": acks,
                "rate_per_s": RATE_PER_S,
                "connections": CONNECTIONS,
                "first_value": (number * PARTITIONS + partition) * 1_000_000_000,
            },
        )
        for number, (topic, acks) in enumerate(TOPICS.items())
        for partition in range(PARTITIONS)
    ]
    return [
        *producers,
        Role(role="prober", process="prober", params=probes(stage)),
        Role(role="metadata-reader", process="metadata-reader", params={"topics": [*TOPICS]}),
    ]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    """One kill: what a killed broker's return costs would be measured along with a second. The
    flood begins before it and outlasts the session and some seconds, whatever the profile."""
    chaos_ms = int(profile.chaos_s * 1000)
    kill_ms = KILL_MS + rng.randint(0, 400)
    end_ms = max(chaos_ms - 300, kill_ms + SESSION_TIMEOUT_MS + 4000)
    rehearsal = Entry(
        id="rehearsal",
        fault="move-leadership",
        at_ms=REHEARSAL_MS,
        duration_ms=0,
        params={"partitions": [f"{topic}-*" for topic in TOPICS], "times": 2, "interval_ms": 300},
    )
    flood = queue_flood("flood", f"leader:{VICTIM_TOPIC}-0", FLOOD_MS, end_ms - FLOOD_MS)
    kill = Entry(
        id="kill",
        fault="kill",
        at_ms=kill_ms,
        duration_ms=end_ms + 300 - kill_ms,  # it comes back when the flood is over
        params={"target": f"leader:{next(iter(TOPICS))}-0"},
    )
    return Plan.of(rng.getrandbits(31), [rehearsal, flood, kill])


LEADER_UNAVAILABILITY = Scenario(
    name="leader-unavailability",
    conjecture=(
        "A partition whose next leader is a flooded broker can be written to again sooner after "
        "the commit when the LeaderAndIsr does not wait behind the flood."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset({Capability.LINKS, Capability.KILL, Capability.ELECT_LEADERS}),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=(
        "availability",
        "truncation-loss",
        "stale-metadata",
        "controller-latency",
    ),
    leader_changes=True,
    session_timeout_ms=SESSION_TIMEOUT_MS,
    quiesce_s=40.0,
    profiles=BEYOND_SMOKE,
)
