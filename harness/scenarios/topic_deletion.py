"""The controller's dearest order: topics deleted while a broker is flooded.

A deletion is a row of control requests, one answered before the next is sent: UpdateMetadata, then
StopReplica without and with deletion, to every broker; only then is the topic gone. A flooded
broker without a control plane of its own makes it wait behind its request queue each time. Topics
with replicas on every broker are made before the flood and deleted under it, one after the other.
Two more, when the flood is over, try its patience: one while a broker with replicas of it is away,
so that the topic can be gone only when that one is back, and at last one while controllers'
requests reach a broker late, so that this one puts its logs aside after all others. (A topic that
is made on the broker that is away alone is led once it is back.) Another controller is elected in
the middle of each, and must go on with it, though no later deletion reminds it, nor (of the last) a
broker that comes or goes. Before them a topic that is written to is deleted and made again: its
namesake is another topic, and takes records; and what groups had kept of it must be gone for
whoever coordinates them in the end, too. And under the flood one is given more partitions: they are
led, told of and written to.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from faults.plan import Plan
from faults.protocol import Capability, Entry
from harness.scenarios.base import BEYOND_SMOKE, Role, Scenario, Stage, Topic, spread
from harness.scenarios.request_flood import VICTIM_TOPIC, probes, queue_flood
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "kept"
PARTITIONS = 4
FIRST_MS = 1500
STEP_MS = 3300
"""More than one deletion takes behind a full queue, so that each is measured alone."""
AWAY, LATE = "away", "late"
"""The deletions that have to wait for a broker."""
LATE_MS = 400
AGAIN_MS, AWAY_MS, SLOW_MS, MOVED_MS = 2000, 6000, 3000, 1000
"""What it takes, about, to make a topic anew; to delete one while a broker is stopped in order, is
away, and starts; to delete one that has to wait for the late broker; to move groups."""
SLOW_IN_MS = 800
"""By then a broker is late: that it is, is seen by what it answers."""
PATIENT_MS = AGAIN_MS + AWAY_MS + SLOW_MS + MOVED_MS + 1000
GIVEN_UP_MS = 10_000
"""So long the plan waits for the last deletion, which takes less than three seconds."""
AGAIN = "again"
AGAIN_PARTITIONS = 2
GROWN = "grown"
GROWN_PARTITIONS, GROWN_BY = 2, 2
OUTLIVED = "group-outlived"
KEPT_MS = 3000
"""For so long a position is raised that is only looked at from then on, its topic being deleted."""
RAISED_PER_S = 4.0
"""Not in the moment between a deletion that is asked for and the coordinator's knowing of it."""


def _topics(stage: Stage) -> Sequence[Topic]:
    return [
        Topic(name=VICTIM_TOPIC, assignment={0: [stage.victim]}),
        Topic(name=TOPIC, assignment=spread(PARTITIONS, stage.others, 2)),
        Topic(name=AGAIN, assignment=spread(AGAIN_PARTITIONS, stage.nodes, 3)),
        Topic(name=GROWN, assignment=spread(GROWN_PARTITIONS, stage.nodes, 3)),
    ]


def _workloads(stage: Stage) -> Sequence[Role]:
    doomed = [f"churn-{entry_id}" for entry_id, _ in _deletions(stage.profile)]
    doomed += [f"churn-{AWAY}", f"churn-{LATE}"]
    return [
        Role(role="prober", process="prober", params=probes(stage)),
        Role(
            role="metadata-reader",
            process="metadata-reader",
            # Who still names them, who never does?
            params={"topics": [TOPIC, AGAIN, GROWN, *doomed]},
        ),
        Role(
            role="producer",
            process="producer",
            params={"topics": {TOPIC: PARTITIONS}, "acks": 1, "rate_per_s": 50.0},
        ),
        Role(
            # To all the partitions that there will be: until then it is told that there are not.
            role="producer",
            process="producer-grown",
            params={
                "topics": {GROWN: GROWN_PARTITIONS + GROWN_BY},
                "acks": -1,
                "rate_per_s": 20.0,
                "first_value": 2_000_000_000,
            },
        ),
        Role(
            role="group-riser",
            process="group-riser",
            params={"group": "raised", "topic": AGAIN, "rate_per_s": RAISED_PER_S},
        ),
        Role(
            role="group-riser",
            process=OUTLIVED,
            params={
                **{"group": "outlived", "topic": AGAIN},
                **{"rate_per_s": RAISED_PER_S, "raises_ms": KEPT_MS},
            },
        ),
        Role(
            # Not librdkafka: it takes a namesake's leaders, whose epochs begin anew, for old news.
            role="joint-producer",
            process="producer-again",
            params={
                "topics": {AGAIN: AGAIN_PARTITIONS},
                "acks": 1,
                "rate_per_s": 2.0,  # what goes with the topic is excused, and must be little
                "first_value": 1_000_000_000,
            },
        ),
    ]


def _flooded_ms(profile: Profile) -> int:
    """When the flood is over; the rest of the plan takes about as long as is left, or more."""
    return max(6000, int(profile.chaos_s * 1000) - PATIENT_MS)


def _deletions(profile: Profile) -> list[tuple[str, int]]:
    """The plan's deletions: id, and when (ms after the plan's begin)."""
    last_ms = max(FIRST_MS, _flooded_ms(profile) - STEP_MS - 300)
    times = enumerate(range(FIRST_MS, last_ms + 1, STEP_MS))
    return [(f"deletion-{number}", at_ms) for number, at_ms in times]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    flooded_ms = _flooded_ms(profile)
    entries = [queue_flood("flood", f"leader:{VICTIM_TOPIC}-0", 300, flooded_ms - 600)]
    for entry_id, at_ms in _deletions(profile):
        entries.append(
            Entry(
                id=entry_id,
                fault="delete-topic",
                at_ms=at_ms + rng.randint(0, 300),
                duration_ms=0,
                params={"partitions": 5, "replicas": 3},
            )
        )
    entries.append(
        Entry(
            id=GROWN,
            fault="grow-topic",
            at_ms=FIRST_MS + STEP_MS // 2,
            duration_ms=0,
            params={"topic": GROWN, "partitions": GROWN_BY},
        )
    )
    entries += _patience(flooded_ms + 1000 + rng.randint(0, 300))
    return Plan.of(rng.getrandbits(31), entries)


def _patience(at_ms: int) -> list[Entry]:
    """It is neither the flooded broker nor the controller that is away, and then late. Of two that
    are deleted the first has to be gone before the second is: a deletion that is asked for reminds
    the controller of all. What is deleted in the end nothing but its controller takes up again."""
    slow = f"leader:{TOPIC}-0"
    size = {"partitions": 5, "replicas": 3, "succeeded": True}
    away_ms = at_ms + AGAIN_MS
    late_ms = away_ms + AWAY_MS
    return [
        Entry(
            id=AGAIN,
            fault="recreate-topic",
            at_ms=at_ms,
            duration_ms=0,
            params={"topic": AGAIN},
        ),
        Entry(
            id=AWAY,
            fault="delete-topic-away",
            at_ms=away_ms,
            duration_ms=0,
            after=AGAIN,  # the namesake is led without another election
            params={**size, "target": slow},
        ),
        Entry(
            id="slow",
            fault="toxic",
            at_ms=late_ms - SLOW_IN_MS,
            duration_ms=SLOW_MS,
            after=AWAY,
            params={
                "target": slow,
                "link": "control",
                "kind": "latency",
                "stream": "upstream",
                "attributes": {"latency": LATE_MS},
            },
        ),
        Entry(
            id=LATE,
            fault="delete-topic",
            at_ms=late_ms - SLOW_IN_MS + 100,
            duration_ms=0,
            after=AWAY,
            params={**size, "wait_ms": SLOW_IN_MS, "timeout_ms": GIVEN_UP_MS},
        ),
        Entry(  # only now: an election may remind the controller of deletions
            id="move-groups",
            fault="move-leadership",
            at_ms=late_ms + SLOW_MS,
            duration_ms=0,
            after=LATE,
            params={"partitions": "__consumer_offsets-0"},
        ),
    ]


TOPIC_DELETION = Scenario(
    name="topic-deletion",
    conjecture=(
        "Topics are deleted sooner while a broker is flooded when the four control requests that "
        "it takes do not wait behind the flood, and none is gone before its replicas stopped."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset({Capability.LINKS, Capability.ZOOKEEPER, Capability.CONTROL_REQUESTS}),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=("topic-deletion", "truncation-loss", "controller-latency", "stale-metadata", "fencing"),
    leader_changes=False,
    overrides={"offsets.topic.num.partitions": "1"},
    profiles=BEYOND_SMOKE,
)
