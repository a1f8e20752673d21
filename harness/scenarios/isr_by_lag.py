"""The in-sync set shrinks because followers lag, and grows again, while nobody dies.

replica.lag.time.max.ms is small here. One follower is stopped within its session, or the leader's
answers to all of them are later than that limit, or do not leave at all. With one follower out of
three gone acks=all goes on; with both gone min.insync.replicas=2 is not met, and what the leader
takes no more it must refuse (NOT_ENOUGH_REPLICAS), not acknowledge. Each shrinking and growing is
an AlterPartition to the controller, a commit in ZooKeeper and an UpdateMetadata to all.

Of the partitions of a second topic each has one follower, and not the same one: when one is stopped
a request for all of them waits for some and not for others, and later is refused for those alone.
The follower of a third goes on fetching, and is given less each time than was written meanwhile.
That of a fourth is cut off, and comes back by a slow way: behind by one round of fetching all the
while, as any follower of a busy leader, it has to come into sync, and to stay.
To a fifth one record is sent at a time: when its follower is stopped, the record that waits then
is committed by the smaller in-sync set alone, and no other comes to remind anybody of it.

Who comes back is in sync as soon as that is committed, and its leader may hear of it late: the
follower that was stopped is stopped once more between the two. What is acknowledged then it has to
have.

In the end another controller is elected while followers are out, and their leader, which asked the
one of before for the smaller set, hears of it late: it is refused, and has to ask the successor.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from faults.isr_lag import CUT, TRICKLE, WAYS
from faults.plan import Plan
from faults.protocol import Capability, Entry
from harness.scenarios.base import (
    BEYOND_SMOKE,
    LOG_APPEND_TIME,
    Role,
    Scenario,
    Stage,
    Topic,
    joint_producer,
    led_by,
    replicated_load,
    rested,
)
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "shrunken"
PARTITIONS = 3
STOPPED = "pause"
PAIRED = "paired"
TRICKLED = "trickled"
ALONE = "alone"
FETCHED_BYTES = 2000
"""Of a partition a fetch brings so much, a few records."""
TRICKLED_PER_S = 200.0
"""Many more than that: a follower asks less than three times a second then."""
DISTANT = "distant"
DISTANT_PER_S = 60.0
"""Some in each round of fetching by the slow way, and few: who comes back soon has them all."""
TRICKLE_MS = 4500
"""To be dropped, to stay out for a moment, and to have caught up again."""
LAG_MAX_MS = 1500
SESSION_TIMEOUT_MS = 18_000
"""Far longer than any stop here lasts: who is dropped is dropped for its lag."""
STEP_MS, JITTER_MS = 6500, 500
ASKED_MS = 400
AGREED_MS = 600 + LAG_MAX_MS * 3 // 2 + ASKED_MS
"""By then who is stopped has been dropped."""
LONGER_MS = 2800
"""The first that is stopped stays out of sync for so much longer: acks=all must go on without
it."""
UNHEARD_MS = LAG_MAX_MS + 450
"""Longer than a leader waits for who lags outside of the in-sync set."""
FAR_MS = 40
"""Who is answered so late misses two records each time, of a dozen that a fetch brings."""
JOINS_MS = LAG_MAX_MS * 3 // 2 + 2100
"""Whoever judges gives it a little less (`checkers.promises.departures.lagging.LET_IN_NS`)."""
AWAY_MS = 500
UNTOLD_MS = 1500
"""In which who was cut off fetches again, and its leader asks for it."""
AFAR_MS = 1200
"""To be dropped, to come back by the slow way, and to stay takes so much longer than a turn."""
CONFIGS = {**LOG_APPEND_TIME, "min.insync.replicas": "2"}
MADE_WITH = {**LOG_APPEND_TIME, "min.insync.replicas": "1"}
"""Raised afterwards, as an operator would who finds that one is too few."""


def _topics(stage: Stage) -> Sequence[Topic]:
    """Who is stopped is no controller, and so the first of ``others``."""
    leader, stopped, controller = stage.victim, stage.others[0], stage.others[-1]
    assignment = led_by(leader, stage.others, PARTITIONS)
    pairs = {0: [leader, controller], 1: [leader, stopped], 2: [leader, controller]}
    return [
        Topic(name=TOPIC, assignment=assignment, configs=CONFIGS, made_with=MADE_WITH),
        Topic(name=PAIRED, assignment=pairs, configs=CONFIGS),
        # Led by somebody else: whose answers are late leads nothing else. Alone it goes on, so that
        # who lags cannot reach what is committed, and is not taken in again before it has it all.
        Topic(name=TRICKLED, assignment={0: [stopped, leader]}, configs=MADE_WITH),
        Topic(name=DISTANT, assignment={0: [stopped, leader]}, configs=MADE_WITH),
        Topic(name=ALONE, assignment={0: [leader, stopped]}, configs=MADE_WITH),
    ]


def _workloads(stage: Stage) -> Sequence[Role]:
    """One producer allows less time for replication than a follower may lag: what is not with all
    in sync by then has timed out (REQUEST_TIMED_OUT), and was not acknowledged. Another one allows
    about as much, to a partition whose follower is not the one that is stopped: it must not be kept
    waiting by who waits for that one as well, and what it sent is read."""
    impatient = {
        "topic": TOPIC,
        "partition": 0,
        "target": stage.victim,
        "acks": -1,
        "ack_timeout_ms": LAG_MAX_MS // 2,
        "rate_per_s": 20.0,
        "connections": 40,
        "first_value": 2_000_000_000,
    }
    return [
        *replicated_load(TOPIC, PARTITIONS, acks_all_per_s=200.0),
        Role(role="direct-producer", process="impatient-producer", params=impatient),
        Role(
            role="direct-producer",
            process="patient-producer",
            params={
                **impatient,
                "topic": PAIRED,
                "ack_timeout_ms": LAG_MAX_MS,
                "first_value": 8_000_000_000,
            },
        ),
        Role(
            role="direct-producer",
            process="producer-alone",
            params={
                **impatient,
                "topic": ALONE,
                "ack_timeout_ms": 4 * LAG_MAX_MS,
                "connections": 1,
                "first_value": 9_000_000_000,
            },
        ),
        Role(role="consumer", process="consumer-paired", params={"topics": {PAIRED: 3, ALONE: 1}}),
        joint_producer(TOPIC, PARTITIONS),
        replace(joint_producer(PAIRED, 3, first_value=6_000_000_000), process="producer-paired"),
        *(
            Role(
                role="direct-producer",
                process=f"producer-{name}",
                params={
                    "topic": name,
                    "partition": 0,
                    "target": stage.others[0],
                    "acks": 1,
                    "rate_per_s": rate_per_s,
                    "first_value": first_value,
                },
            )
            for name, rate_per_s, first_value in (
                (TRICKLED, TRICKLED_PER_S, 7_000_000_000),
                (DISTANT, DISTANT_PER_S, 11_000_000_000),
            )
        ),
    ]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    ways = [way for way in WAYS if way != STOPPED]
    rng.shuffle(ways)
    ways.append(STOPPED)
    # Each way, whatever the seed and however short.
    left_ms = int(profile.chaos_s * 1000) - LONGER_MS - UNHEARD_MS - AFAR_MS - STEP_MS
    turns = range(max(len(ways), left_ms // STEP_MS))
    entries: list[Entry] = []
    begins_ms = []
    at_ms = 0
    for turn in turns:
        begins_ms.append(at_ms)
        how = ways[turn % len(ways)]
        longer_ms = unheard_ms = 0
        if turn == ways.index(STOPPED):
            longer_ms, unheard_ms = LONGER_MS, UNHEARD_MS
            entries.append(_slowly_agreed(at_ms))
        entries.append(
            Entry(
                id=f"{how}-{turn}",
                fault="isr-lag",
                at_ms=at_ms + rng.randint(200, JITTER_MS),
                duration_ms=STEP_MS - JITTER_MS + longer_ms + unheard_ms,
                params={
                    "partition": f"{TOPIC}-{rng.randrange(PARTITIONS)}",
                    "how": how,
                    "lag_ms": LAG_MAX_MS,
                    # Long enough for a leader to have heard of the smaller set, and for producers
                    # to ask it for what it must refuse then.
                    "hold_ms": rng.randint(1700, 2100) + longer_ms,
                    "unheard_ms": unheard_ms,
                },
            )
        )
        if turn == 0:
            entries.append(_trickle(at_ms))
        elif turn == 1:
            entries.append(_from_afar(at_ms))
            at_ms += AFAR_MS
        at_ms += STEP_MS + longer_ms + unheard_ms
    at_ms -= JITTER_MS  # it waits for the one before
    begins_ms.append(at_ms)
    entries.append(_succeeded(at_ms, entries[-1].id, f"{TOPIC}-{rng.randrange(PARTITIONS)}"))
    return Plan.of(rng.getrandbits(31), rested(entries, rng, profile, begins_ms))


def _trickle(at_ms: int) -> Entry:
    """Beside another way, which is another leader's. Who is stopped leads this partition, and finds
    afterwards that its follower has not fetched for long: that way comes last, far from here."""
    return Entry(
        id=TRICKLE,
        fault="isr-lag",
        at_ms=at_ms + 200,
        duration_ms=TRICKLE_MS,
        params={
            "partition": f"{TRICKLED}-0",
            "how": TRICKLE,
            "lag_ms": LAG_MAX_MS,
            "hold_ms": 500,
        },
    )


def _from_afar(at_ms: int) -> Entry:
    """Of the same leader, when that is over, and beside another way, which is another leader's.
    Where the leader alone is enough it goes on to commit what it has, and nobody is let
    in who has not all of that (where two are needed whoever has what was committed before is let
    in, however far behind)."""
    return Entry(
        id="afar",
        fault="isr-lag",
        at_ms=at_ms + 200,
        duration_ms=STEP_MS - JITTER_MS + AFAR_MS,
        after=TRICKLE,
        params={
            "partition": f"{DISTANT}-0",
            "how": CUT,
            "lag_ms": LAG_MAX_MS,
            "hold_ms": AWAY_MS,
            "far_ms": FAR_MS,
            "joins_ms": JOINS_MS,
        },
    )


def _succeeded(at_ms: int, after: str, partition: str) -> Entry:
    """Last: who is in office then may be anybody, also who leads."""
    return Entry(
        id="succeeded",
        fault="isr-lag-succeeded",
        at_ms=at_ms,
        duration_ms=0,
        after=after,
        params={
            "partition": partition,
            "how": CUT,
            "lag_ms": LAG_MAX_MS,
            "hold_ms": AWAY_MS,
            "untold_ms": UNTOLD_MS,
        },
    )


def _slowly_agreed(at_ms: int) -> Entry:
    """What a leader asks of the controller takes a while to get there. Until it is committed who
    lags is in sync, and what is acknowledged then is what that one would have to have. It is over
    soon after that: who is not in sync any more is not waited for."""
    return Entry(
        id="slowly-agreed",
        fault="toxic",
        at_ms=at_ms,
        duration_ms=AGREED_MS,
        params={
            "target": "controller",
            "link": ["inter-broker", "control"],
            "kind": "latency",
            "stream": "upstream",
            "attributes": {"latency": ASKED_MS},
        },
    )


ISR_BY_LAG = Scenario(
    name="isr-by-lag",
    conjecture=(
        "Followers that lag fall out of the in-sync set and come back when they have caught up; "
        "nothing is acknowledged with acks=all by fewer replicas than min.insync.replicas."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset({Capability.PAUSE, Capability.LINKS}),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=("truncation-loss", "polls", "offsets", "stale-metadata"),
    leader_changes=False,
    overrides={
        "replica.lag.time.max.ms": str(LAG_MAX_MS),
        "replica.fetch.max.bytes": str(FETCHED_BYTES),
    },
    session_timeout_ms=SESSION_TIMEOUT_MS,
    profiles=BEYOND_SMOKE,
)
