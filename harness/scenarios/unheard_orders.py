"""A broker's controller link is down while leaders change, and nothing else of it is.

What the controller has to say to it stays in its queue and is tried again and again (Kafka's
RequestSendThread gives nothing up). Meanwhile the broker goes on as it was told last: it leads in
its own eyes, its followers follow others, and clients that ask it hear of leaders of the past. When
the link is back it must be told everything, in order, and have the same leaders and logs as all.
With one link for both planes its data is cut off as well.

After the first link there is a pause: what was not put right then would be by the next move, which
tells everybody anew.

Then a broker ends while the controller is cut from ZooKeeper, for less than its session: that it
went, and all that changes later, the controller hears only if it looks again when it is back, and
watches anew (ZooKeeper's own client has the server compare: SetWatches). It stays away until others
must lead in its place.

At last a broker is cut from ZooKeeper while two topics get other settings, and goes by both when it
is back; and an operator removes ``/controller``: who was in office all along, and was cut off once,
must have looked at it again since, or it never hears that it is succeeded.

Next a broker that leads something ends and begins anew while the controller looks away: all that it
was told is gone, and only its broker epoch says so (KIP-380).

Then the link of a broker is down once more, while two partitions of others change their leaders,
one after the other: nothing that comes later would tell it of either.

Last, when nobody comes into office any more, a topic is given more partitions past all brokers, by
its znode, as tools of old did, while the controller is cut from ZooKeeper for a moment.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

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
    spread,
    texts,
)
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "unheard"
PARTITIONS = 3
OF_OTHERS = "unheard-of-others"
"""Of each of its partitions somebody has no replica, and of two of them the same."""
STEP_MS = 4000
DOWN_MS = 2200
PAUSE_MS = 5000
"""So much longer nothing happens after the first step."""
BLIND_MS = 3000
"""In which a broker ends, and far less than a session."""
GONE_MS = BLIND_MS + 5500
"""Longer by all that a controller may take to replace it (`checkers.promises.departures`)."""
BACK_MS = 2500
SETTLED = "settled"
"""Nobody but its leaders knows how a broker goes by its settings."""
NEWS_MS = 1000
SETTINGS_MS = NEWS_MS + 3000
REMOVED_MS = SETTINGS_MS + 4000
GROWTH_MS = REMOVED_MS + 2500
GROWN = 2
SESSION_TIMEOUT_MS = 15_000
"""Longer than a broker takes to begin anew: as long is the controller stopped."""
CONFIGS = {**LOG_APPEND_TIME, "min.insync.replicas": "2"}


def _topics(stage: Stage) -> Sequence[Topic]:
    return [
        Topic(name=TOPIC, assignment=spread(PARTITIONS, stage.nodes, 3), configs=CONFIGS),
        Topic(
            name=OF_OTHERS, assignment=spread(2 * len(stage.nodes), stage.nodes, 2), configs=CONFIGS
        ),
        Topic(name=SETTLED, assignment=spread(len(stage.nodes), stage.nodes, 1)),
    ]


def _workloads(stage: Stage) -> Sequence[Role]:
    settled = {
        "topics": {SETTLED: len(stage.nodes)},
        "acks": 1,
        "rate_per_s": 30.0,
        "first_value": 3_000_000_000,
    }
    return [
        *replicated_load(TOPIC, PARTITIONS),
        Role(role="producer", process="producer-settled", params=settled),
    ]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    entries: list[Entry] = []
    turns_ms = int(profile.chaos_s * 1000) - PAUSE_MS - GONE_MS - BACK_MS - GROWTH_MS
    for step in range(max(2, turns_ms // STEP_MS)):
        at_ms = step * STEP_MS + min(step, 1) * PAUSE_MS + rng.randint(200, 500)
        entries += [
            Entry(
                id=f"deaf-{step}",
                fault="link-down",
                at_ms=at_ms,
                duration_ms=DOWN_MS,
                # The controller speaks to itself as well, and must be told to tell the others.
                params={"target": "not-controller", "link": "control"},
            ),
            Entry(
                id=f"move-{step}",
                fault="move-leadership",
                at_ms=at_ms + 700,
                duration_ms=0,
                params={"partitions": f"{TOPIC}-*", "order": "rotate"},
            ),
        ]
    at_ms = (step + 1) * STEP_MS + PAUSE_MS
    bounce_ms = at_ms + 400 + GONE_MS + BACK_MS
    entries += [
        Entry(
            id="blind",
            fault="link-down",
            at_ms=at_ms,
            duration_ms=BLIND_MS,
            params={"target": "controller", "link": "zookeeper"},
        ),
        Entry(
            id="gone",
            fault="stop",
            at_ms=at_ms + 400,
            duration_ms=GONE_MS,
            params={"target": "not-controller"},
        ),
        Entry(
            id="bounce",
            fault="unseen-bounce",
            at_ms=bounce_ms,
            duration_ms=0,
            params={"target": "other-leader"},
            after="gone",
        ),
        Entry(
            id="news",
            fault="unheard-news",
            at_ms=bounce_ms + NEWS_MS,
            duration_ms=0,
            params={"topic": OF_OTHERS},
            after="bounce",
        ),
        Entry(
            id="settings",
            fault="unseen-settings",
            at_ms=bounce_ms + SETTINGS_MS,
            duration_ms=0,
            params={
                "topic": SETTLED,
                "configs": texts(LOG_APPEND_TIME),
                "then": OF_OTHERS,
                "then_configs": texts(CONFIGS),
            },
            after="news",
        ),
        Entry(
            id="removed",
            fault="remove-controller",
            at_ms=bounce_ms + REMOVED_MS,
            duration_ms=0,
            params={},
            after="settings",
        ),
        Entry(
            id="growth",
            fault="unseen-growth",
            at_ms=bounce_ms + GROWTH_MS,
            duration_ms=0,
            params={"topic": OF_OTHERS, "partitions": GROWN},
            after="removed",
        ),
    ]
    return Plan.of(rng.getrandbits(31), entries)


UNHEARD_ORDERS = Scenario(
    name="unheard-orders",
    conjecture=(
        "What a broker could not be told while its controller link was down it is told afterwards, "
        "in order; a controller that was cut from ZooKeeper for a moment sees who went meanwhile; "
        "and no acks=all record is lost."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset({Capability.LINKS, Capability.ELECT_LEADERS, Capability.CONTROL_REQUESTS}),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=(*("truncation-loss", "polls", "offsets", "stale-metadata", "fencing"),),
    leader_changes=True,
    # Who is stopped must not wait for a controller that is stopped itself.
    overrides={"controlled.shutdown.enable": "false"},
    session_timeout_ms=SESSION_TIMEOUT_MS,
    quiesce_s=30.0,
    profiles=BEYOND_SMOKE,
)
