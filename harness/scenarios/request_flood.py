"""KIP-291's motivation: controller requests starve behind a flood of data requests.

One broker's data plane is filled (more connections than ``queued.max.requests``, each request a
produce to 20 partitions) while leaders move. In single-plane mode a LeaderAndIsr or UpdateMetadata
waits behind the whole queue, and before it in an unread socket; the flooded broker goes on telling
clients about leaders that are no longer ones. With a control plane of its own it is told in
milliseconds. Probes on a clock measure the round trip; metadata readers ask every broker.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from faults.plan import Plan
from faults.protocol import Capability, Entry
from harness.scenarios.base import Role, Scenario, Stage, Topic, move_leader, spread
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "moved"
PARTITIONS = 8
VICTIM_TOPIC = "victim"
"""One unreplicated partition: its leader is the broker to be flooded, whoever that is in a run."""


def queue_flood(entry_id: str, target: str, at_ms: int, duration_ms: int) -> Entry:
    """The flood that fills the request queue of ``target``: see faults/flood/produce.py."""
    return Entry(
        id=entry_id,
        fault="flood-heavy-produce",
        at_ms=at_ms,
        duration_ms=duration_ms,
        params={"target": target, "connections": 640, "partitions": 20, "record_bytes": 1024},
    )


def probes(stage: Stage) -> dict[str, object]:
    """Probe the flooded broker with the state of the one partition that never moves: a probe that
    waits behind the flood must not carry old news of a partition that did."""
    return {"nodes": [stage.victim], "topics": [VICTIM_TOPIC]}


def _topics(stage: Stage) -> Sequence[Topic]:
    return [
        Topic(name=VICTIM_TOPIC, assignment={0: [stage.victim]}),
        Topic(name=TOPIC, assignment=spread(PARTITIONS, stage.others, 2)),
    ]


def _workloads(stage: Stage) -> Sequence[Role]:
    return [
        Role(role="prober", process="prober", params=probes(stage)),
        Role(
            role="metadata-reader",
            process="metadata-reader",
            params={"topics": [TOPIC]},
        ),
        Role(
            role="producer",
            process="producer",
            params={"topics": {TOPIC: PARTITIONS}, "acks": 1, "rate_per_s": 100.0},
        ),
    ]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    chaos_ms = int(profile.chaos_s * 1000)
    entries = [queue_flood("flood", f"leader:{VICTIM_TOPIC}-0", 500, chaos_ms - 1000)]
    at_ms, move = 1500, 0
    while at_ms < chaos_ms - 1500:
        entries.append(move_leader(f"move-{move}", at_ms, f"{TOPIC}-{move % PARTITIONS}"))
        at_ms += rng.randint(600, 900)
        move += 1
    return Plan.of(rng.getrandbits(31), entries)


REQUEST_FLOOD = Scenario(
    name="request-flood",
    conjecture=(
        "Under a flood that fills the request queue, a broker with a control plane of its own "
        "handles controller requests in milliseconds and tells of new leaders at once."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset({Capability.LINKS, Capability.ELECT_LEADERS}),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=("controller-latency", "stale-metadata", "fencing", "truncation-loss"),
    leader_changes=True,
)
