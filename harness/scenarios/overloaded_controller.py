"""The controller itself sits on the flooded broker, and has much to say.

The other floods are aimed at a broker that is told; this one at the broker that tells. Its own
event thread and send threads share a machine and an interpreter or JVM with a full data plane, and
it is its own peer: half of its requests to itself wait behind its own queue without a control plane
of its own. Topics are made and deleted and leaders moved all the while, so that its queues to the
other brokers fill. KIP-291's metrics for it, QueueSize and RequestRateAndQueueTimeMs, are read
meanwhile, shown, and held against the requests (checkers/promises/controller_queues). When the
flood is over a leader changes of which the controller hears last, by its own link: whoever asked
for that is not to be told that it is done while the controller's clients are sent elsewhere.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from faults.plan import Plan
from faults.protocol import Capability, Entry
from harness.scenarios.base import BEYOND_SMOKE, Role, Scenario, Stage, Topic, move_leader, spread
from harness.scenarios.request_flood import queue_flood
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "steered"
PARTITIONS = 12
PROBED_TOPIC = "probed"
"""A partition that never moves: what probes of the flooded broker say of it is never old news."""
UNHEARD_MS = 500
"""After the flood."""
SESSION_TIMEOUT_MS = 10_000
"""A flooded controller that only is slow must not lose its office for it."""


def _topics(stage: Stage) -> Sequence[Topic]:
    return [
        Topic(name=PROBED_TOPIC, assignment={0: [stage.controller]}),
        Topic(name=TOPIC, assignment=spread(PARTITIONS, stage.nodes, 2)),
    ]


def _workloads(stage: Stage) -> Sequence[Role]:
    probed = {"nodes": [stage.controller], "topics": [PROBED_TOPIC]}
    return [
        Role(role="prober", process="prober", params=probed),
        Role(role="metadata-reader", process="metadata-reader", params={"topics": [TOPIC]}),
        Role(
            role="producer",
            process="producer",
            params={"topics": {TOPIC: PARTITIONS}, "acks": 1, "rate_per_s": 50.0},
        ),
    ]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    chaos_ms = int(profile.chaos_s * 1000)
    entries = [
        queue_flood("flood", "controller", 300, chaos_ms - 600),
        Entry(
            id="many",
            fault="topic-churn",
            at_ms=1200 + rng.randint(0, 300),
            duration_ms=chaos_ms - 3000,
            params={"partitions": 20, "replicas": 3, "interval_ms": 200, "delete_at_heal": True},
        ),
    ]
    unheard = Entry(
        id="unheard",
        fault="unheard-election",
        at_ms=chaos_ms + UNHEARD_MS,
        duration_ms=0,
        params={"partition": f"{TOPIC}-{rng.randrange(PARTITIONS)}"},
        after="many",
    )
    at_ms = 1500
    while at_ms < chaos_ms - 2000:
        partition = f"{TOPIC}-{len(entries) % PARTITIONS}"
        entries.append(move_leader(f"move-{len(entries)}", at_ms, partition))
        at_ms += rng.randint(900, 1200)
    return Plan.of(rng.getrandbits(31), [*entries, unheard])


OVERLOADED_CONTROLLER = Scenario(
    name="overloaded-controller",
    conjecture=(
        "A controller on a flooded broker goes on telling all brokers of leaders, in order, and a "
        "control plane of its own spares its requests to itself the wait behind its own data."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset({Capability.LINKS, Capability.ELECT_LEADERS, Capability.CONTROL_REQUESTS}),
    aims_at_controller=True,
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=(
        "controller-latency",
        "stale-metadata",
        "fencing",
        "truncation-loss",
    ),
    leader_changes=True,
    session_timeout_ms=SESSION_TIMEOUT_MS,
    quiesce_s=40.0,
    profiles=BEYOND_SMOKE,
)
