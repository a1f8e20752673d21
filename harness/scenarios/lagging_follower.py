"""One in-sync follower lags another when their leader dies: whoever leads next has what counts.

In sync does not mean equal: a follower stays in the in-sync set for replica.lag.time.max.ms after
it has caught up last. Here one is behind the other by dozens of records when the leader is killed,
and both are in the committed set; what acks=all acknowledged both have, what acks=1 acknowledged
only one. In one round the laggard is next in line: it leads, and the other, which has more, must
cut its log to the laggard's. In the next round the laggard comes last, and must fetch what it
lacks, from the same offsets on. In the end all logs agree.

Before that, in a topic of its own, a laggard is elected while all live, and the leader cuts its log
to the laggard's and is elected again: what its followers had reported to it before is not so any
more, and the one that had reported most is stopped. Nothing is acknowledged with acks=all until it
has asked anew (fault leading-again).

And in the end, in a third topic, two followers lead one after the other while the other one is
stopped, and the first of them then again: each has taken records in a leader epoch that the other
never heard of, and whoever follows has to cut below both (KIP-279, fault crossed-epochs). No other
election helps them then.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from faults.lagging import LAGGARDS
from faults.plan import Plan
from faults.protocol import Capability, Entry
from harness.scenarios.base import (
    BEYOND_SMOKE,
    LOG_APPEND_TIME,
    Role,
    Scenario,
    Stage,
    Topic,
    in_turn,
    replicated_load,
    rested,
    rounds,
    tail_reader,
)
from harness.settings import Profile
from harness.sut.protocol import Planes

TOPIC = "uneven"
PARTITIONS = 2
SESSION_TIMEOUT_MS = 4500
LAG_MS = 2000
"""The laggard is stopped for no longer: less than its session, and than its place in sync lasts.
(Who is stopped for the last fault waits for the clients of another.)"""
ROUND_MS = 7500
AWAY_MS = SESSION_TIMEOUT_MS + 2500
"""From the beginning of a round until the leader may come back, which others have succeeded."""
AGAIN = "led-again"
AGAIN_MS = 1500
"""What comes next waits for so long when it is over."""
AHEAD = 250
"""By so many records the laggard's log is shorter: more than it takes while it leads."""
AHEAD_PER_S = 480.0
CROSSED = "crossed"
CROSSED_PER_S = 100.0
PATIENCE_MS = 5000
"""For so long who writes ahead waits for its leader: it would else bring others as far ahead."""
CONFIGS = {**LOG_APPEND_TIME, "min.insync.replicas": "2"}


def _topics(stage: Stage) -> Sequence[Topic]:
    # One order for all partitions: who lags behind whom is the same for all.
    assignments = {p: [stage.victim, *stage.others] for p in range(PARTITIONS)}
    # Who is stopped elects nobody: the controller leads.
    again = [stage.controller, *(n for n in stage.nodes if n != stage.controller)]
    return [
        Topic(name=TOPIC, assignment=assignments, configs=CONFIGS),
        Topic(name=AGAIN, assignment={0: again}, configs=CONFIGS),
        Topic(name=CROSSED, assignment={0: again}, configs=CONFIGS),
    ]


def _workloads(stage: Stage) -> Sequence[Role]:
    load = replicated_load(TOPIC, PARTITIONS, acks_all_per_s=400.0)
    (reader,) = (role for role in load if role.role == "metadata-reader")
    ahead = {"topic": AGAIN, "target": stage.controller, "patience_ms": PATIENCE_MS, "acks": 1}
    ahead |= {"rate_per_s": AHEAD_PER_S, "first_value": 2_000_000_000}
    both = {AGAIN: 1, CROSSED: 1}
    again = {"topics": both, "acks": -1, "rate_per_s": 80.0, "first_value": 3_000_000_000}
    crossed = {"topic": CROSSED, "acks": 1, "rate_per_s": CROSSED_PER_S}
    crossed |= {"first_value": 4_000_000_000}
    return [
        *(role for role in load if role is not reader),
        replace(reader, params={"topics": [TOPIC, AGAIN, CROSSED]}),
        tail_reader(TOPIC, PARTITIONS),
        Role(role="direct-producer", process="producer-ahead", params=ahead),
        Role(role="producer", process="producer-again", params=again),
        Role(role="direct-producer", process="producer-crossed", params=crossed),
        Role(role="consumer", process="consumer-again", params={"topics": both}),
    ]


def _plan(rng: random.Random, profile: Profile) -> Plan:
    laggards = list(LAGGARDS)
    rng.shuffle(laggards)
    again = Entry(
        id="again",
        fault="leading-again",
        at_ms=rng.randint(200, 500),
        duration_ms=0,
        params={"partition": f"{AGAIN}-0", "records": AHEAD, "lag_ms": LAG_MS},
    )
    left = replace(profile, chaos_s=profile.chaos_s - AGAIN_MS / 1000)
    turns = rounds(left, ROUND_MS, least=2)
    entries = [
        again,
        *(
            Entry(
                id=f"uneven-{turn}",
                fault="lagging-follower",
                at_ms=AGAIN_MS + turn * ROUND_MS + rng.randint(200, 500),
                duration_ms=AWAY_MS,
                params={
                    "partition": f"{TOPIC}-{rng.randrange(PARTITIONS)}",
                    "laggard": laggards[turn % len(laggards)],
                    "records": 25,
                    "lag_ms": LAG_MS,
                },
            )
            for turn in turns
        ),
        Entry(
            id="crossed",
            fault="crossed-epochs",
            at_ms=AGAIN_MS + len(turns) * ROUND_MS + rng.randint(200, 500),
            duration_ms=0,
            params={"partition": f"{CROSSED}-0"},
        ),
    ]
    begins_ms = [entry.at_ms for entry in entries]
    return Plan.of(rng.getrandbits(31), rested(in_turn(entries), rng, profile, begins_ms))


LAGGING_FOLLOWER = Scenario(
    name="lagging-follower",
    conjecture=(
        "When a leader dies, or is replaced, while one in-sync follower lags another, whoever "
        "leads next has every record that was acknowledged with acks=all, and after truncation all "
        "replicas agree; who leads again believes nothing that its followers reported before."
    ),
    planes=(Planes.SINGLE, Planes.DUAL),
    needs=frozenset(
        {Capability.KILL, Capability.PAUSE, Capability.LOG_FILES, Capability.ELECT_LEADERS}
    ),
    topics=_topics,
    workloads=_workloads,
    plan=_plan,
    checks=("truncation-loss", "polls", "offsets", "stale-metadata"),
    leader_changes=True,
    session_timeout_ms=SESSION_TIMEOUT_MS,
    quiesce_s=30.0,
    profiles=BEYOND_SMOKE,
)
