"""What a scenario is: one conjecture, the arms it compares, and how to put it to the test.

A scenario is data plus three small functions: which topics, which workloads, which plan. It knows
nothing of processes, proxies or Spark; `harness.run` does the rest, the same for every scenario.
What a scenario ``needs`` is checked against the system and the runtime; a lack skips it, visibly.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from faults.plan import Plan
from faults.protocol import Capability, Entry, Link
from faults.registry import FAULTS
from harness.settings import Profile
from harness.sut.protocol import Planes, SystemUnderTest, limits_of
from harness.workload.refused_asker import MOST_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic under test; ``assignment`` is partition -> replicas, the first being preferred.

    ``configs``: what it has while faults are played. ``made_with``: what it is made with, where
    that is something else; it is changed before the load begins, and brokers must hear of it.
    ``given_later``: what a fault gives it besides: nobody is accused of what that allows."""

    name: str
    assignment: Mapping[int, Sequence[int]]
    configs: Mapping[str, str] = field(default_factory=dict)
    made_with: Mapping[str, str] | None = None
    given_later: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What a scenario knows of the cluster that it is about to play on."""

    nodes: tuple[int, ...]
    controller: int
    victim: int
    """A broker that is not the controller: whom floods and kills are meant for by default."""
    profile: Profile

    @property
    def others(self) -> tuple[int, ...]:
        """Every broker but the victim, the controller last."""
        rest = [n for n in self.nodes if n not in (self.victim, self.controller)]
        return (*rest, self.controller)


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One workload process: see harness/workload. The run adds addresses, output and seed."""

    role: str
    process: str
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def needs(self) -> frozenset[Capability]:
        """What a system must have for this role to mean anything there. Without it the role is
        left out, visibly (run.json), and the scenario is played all the same."""
        return _ROLE_NEEDS.get(self.role, frozenset())


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One conjecture. ``checks`` name checkers (checkers/check.py); ``leader_changes``: the plan
    moves leaders, so that a history without a change proves nothing."""

    name: str
    conjecture: str
    planes: tuple[Planes, ...]
    needs: frozenset[Capability]
    topics: Callable[[Stage], Sequence[Topic]]
    workloads: Callable[[Stage], Sequence[Role]]
    plan: Callable[[random.Random, Profile], Plan]
    checks: tuple[str, ...]
    leader_changes: bool
    overrides: Mapping[str, str] = field(default_factory=dict)
    session_timeout_ms: int = 6000
    quiesce_s: float = 20.0
    """How long replicas may take to agree after the last fault was healed."""
    faults_may_collide: bool = False
    """Its faults are drawn at random and may be in each other's way: a fault that fails for that is
    counted, and does not make the run `unknown` while most of them took hold."""
    late_links: frozenset[Link] = frozenset()
    """Listeners that the brokers begin without, and are given by a fault."""
    other_planes: bool = True
    """Whether it may be played in plane modes that it does not name. False: those are skipped."""
    nodes: int = 3
    """How many brokers it needs at least."""
    replicated: bool = True
    """Whether it needs topics whose replicas lie where they were asked for."""
    aims_at_controller: bool = False
    """Whether its faults must find the active controller, which not every client is told."""
    profiles: tuple[str, ...] = ("smoke", "ci", "nightly")
    """Where it is played without being named. Naming a scenario plays it in any profile."""


_ROLE_NEEDS: Final[Mapping[str, frozenset[Capability]]] = {
    "prober": frozenset({Capability.CONTROL_REQUESTS}),  # speaks as a controller to a broker
}
EVERYWHERE: Final[tuple[str, ...]] = (
    *("recovery", "evidence"),  # what was healed comes back; nothing is lost in silence
    *("planes", "refusals"),  # an arm is what its name says; only stale requests are refused
    "fencing",  # and all of them are
    *("epochs", "succession", "departures"),  # what is decided, by whom, and that it is
    "administration",  # that what is asked for is done, and that there is a cluster
    "controller-queues",  # where what was decided waited
    "handing-over",  # who goes in order leaves nobody without a leader
    *("shown-metadata", "whole-metadata"),  # clients are told what was
    *("replicas", "records"),  # logs agree with each other, and with what was sent
    "log-files",  # and lie on disk as they are served
    "descriptions",  # operators are told what is so
    "exceptions",  # and no code trips over itself, unseen by its clients
)
"""What every scenario is held to, whatever else it is about."""
CHECK_NEEDS: Final[Mapping[str, frozenset[Capability]]] = {
    "fencing": frozenset({Capability.CONTROL_REQUESTS}),
    "controller-latency": frozenset({Capability.CONTROL_REQUESTS}),
    "controller-queues": frozenset({Capability.CHANNEL_METRICS}),
    "planes": frozenset({Capability.CONTROL_REQUESTS}),
    "refusals": frozenset({Capability.CONTROL_REQUESTS}),
    "administration": frozenset({Capability.ZOOKEEPER}),
    "handing-over": frozenset({Capability.ZOOKEEPER, Capability.CONTROLLED_STOP}),
    "log-files": frozenset({Capability.LOG_FILES}),
    "retention": frozenset({Capability.LOG_FILES}),
    "exceptions": frozenset({Capability.EXCEPTIONS}),
}
"""What a check judges must be there to be judged: where no broker takes a controller's requests
there is nothing to fence and nothing to time. Checks that are not named need nothing."""


def unjudged(checks: Sequence[str], sut: SystemUnderTest) -> dict[str, str]:
    """Of these checks (those of `EVERYWHERE` among them) the ones that a system shows nothing for,
    and why: named in run.json and the report, for what nobody looks at must not look sound."""
    why = limits_of(sut).unjudged
    found = {}
    for name in dict.fromkeys((*checks, *EVERYWHERE)):
        missing = CHECK_NEEDS.get(name, frozenset()) - sut.capabilities
        if missing:
            found[name] = f"it lacks {', '.join(sorted(missing))}"
        elif name in why:
            found[name] = why[name]
    return found


def unheard(
    scenario: Scenario, plan: Plan, sut: SystemUnderTest, profile: Profile
) -> dict[str, str]:
    """Of a system whose brokers are mute: the checks on controllers' requests for which nobody else
    speaks, by forging them (then the answers tell) or by probing (then the times do)."""
    if not limits_of(sut).mute:
        return {}
    why = "its brokers do not tell what they handled"
    found = {"planes": why}
    if not any(Capability.CONTROL_REQUESTS in FAULTS[e.fault].needs for e in plan.entries):
        found |= dict.fromkeys(("fencing", "refusals"), f"{why}, and nobody forged anything")
    stage = Stage(nodes=tuple(range(scenario.nodes)), controller=0, victim=-1, profile=profile)
    if not any(role.role == "prober" for role in scenario.workloads(stage)):
        found["controller-latency"] = f"{why}, and nobody probed"
    return found


def checks_for(checks: Sequence[str], offered: Sequence[frozenset[Capability]]) -> list[str]:
    """The checks, those of `EVERYWHERE` among them, that have something to judge in at least one of
    the arms' systems."""
    return [
        name
        for name in dict.fromkeys((*checks, *EVERYWHERE))
        if any(CHECK_NEEDS.get(name, frozenset()) <= capabilities for capabilities in offered)
    ]


def rounds(profile: Profile, round_ms: int, *, least: int = 1) -> range:
    """The turns of a story that is told again and again while chaos lasts: as many as have room."""
    return range(max(least, int(profile.chaos_s * 1000) // round_ms))


def in_turn(entries: Sequence[Entry]) -> list[Entry]:
    """Each waits for the one before: a slow system is not yet back as the next one begins."""
    return [*entries[:1], *(replace(e, after=b.id) for b, e in pairwise(entries))]


REST_MS: Final = 10_000
"""For who was away to be in sync again, which takes a busy machine four seconds, and five seconds
more (`checkers.promises.recovery`)."""
_RESTED_S: Final = 20.0


def rested(
    entries: Iterable[Entry], rng: random.Random, profile: Profile, begins_ms: Collection[int]
) -> list[Entry]:
    """With one pause in which nothing is in place, between two of the turns that begin at these
    times: what a turn has broken shows there before the next one mends it. What comes after the
    pause comes as much later. A profile whose chaos lasts seconds has no time for it."""
    found = sorted(entries, key=lambda entry: entry.at_ms)
    later = sorted(begins_ms)[1:]
    if profile.chaos_s < _RESTED_S or not later:
        return found
    begin_ms = rng.choice(later)
    before = [entry for entry in found if entry.at_ms < begin_ms]
    after = found[len(before) :]
    over_ms = max(entry.at_ms + entry.duration_ms for entry in before)
    shift_ms = max(0, over_ms + REST_MS - after[0].at_ms)
    return [*before, *(replace(entry, at_ms=entry.at_ms + shift_ms) for entry in after)]


def spread(
    partitions: int, brokers: Sequence[int], replication_factor: int
) -> dict[int, list[int]]:
    """Replicas round robin over ``brokers``: leaders spread evenly."""
    count = len(brokers)
    return {
        p: [brokers[(p + r) % count] for r in range(replication_factor)] for p in range(partitions)
    }


def led_by(leader: int, others: Sequence[int], partitions: int) -> dict[int, list[int]]:
    """Every partition led by ``leader``, the others its followers in turn."""
    return {
        p: [leader, *(others[(p + i) % len(others)] for i in range(len(others)))]
        for p in range(partitions)
    }


def move_leader(entry_id: str, at_ms: int, partition: str) -> Entry:
    """The leader of ``partition`` (topic-number) changes between two live brokers, at once."""
    return Entry(
        id=entry_id,
        fault="move-leadership",
        at_ms=at_ms,
        duration_ms=0,
        params={"partitions": partition},
    )


def replicated_load(topic: str, partitions: int, *, acks_all_per_s: float = 300.0) -> list[Role]:
    """Producers with acks=all and (fewer) with acks=1, a consumer, and readers of metadata and of
    offsets."""
    topics = {topic: partitions}
    one = {"topics": topics, "acks": 1, "rate_per_s": acks_all_per_s / 4}
    return [
        Role(
            role="producer",
            process="producer-all",
            params={"topics": topics, "acks": -1, "rate_per_s": acks_all_per_s},
        ),
        Role(role="producer", process="producer-one", params={**one, "first_value": 1_000_000_000}),
        Role(role="consumer", process="consumer", params={"topics": topics}),
        Role(role="metadata-reader", process="metadata-reader", params={"topics": [topic]}),
        offset_reader(topic, partitions),
    ]


STATIC_MS = 2500
"""How long a static member stays at a time."""


def static_member(
    name: str, group: str, topics: Mapping[str, int], client: Mapping[str, str] | None = None
) -> Role:
    """A member that leaves without a word and comes back within its session, over and over: it has
    what it had without a rebalance (KIP-345). ``client``: settings of its consumer."""
    return Role(
        role="group-consumer",
        process=name,
        params={
            "group": group,
            "topics": topics,
            "rejoin_ms": STATIC_MS,
            "client": {"group.instance.id": name, **(client or {})},
        },
    )


def offset_reader(topic: str, partitions: int) -> Role:
    """Who asks where the logs begin, end, and changed hands."""
    params = {"topics": {topic: partitions}}
    return Role(role="offset-reader", process="offset-reader", params=params)


BOUNDED: Mapping[str, str] = {"max.message.bytes": str(MOST_BYTES)}
"""Of a refused-asker's topic: whatever its brokers are set to."""


def refused_asker(topic: str, aside: Mapping[str, int] | None = None) -> Role:
    """Who asks all the while for what cannot be done; the topic is `BOUNDED` and has two partitions
    or more. ``aside``: a topic that nobody else writes to, and how many partitions it has."""
    params = {"topic": topic, **({"aside": aside} if aside else {})}
    return Role(role="refused-asker", process="refused-asker", params=params)


_GATHERED: Final = {"linger_ms": 500.0, "client": {"compression.type": "lz4"}}
"""At 50 records a second over six partitions: four a batch."""


def idempotent_load(
    topic: str, partitions: int, *, per_s: float = 100.0, first_value: int = 1_000_000_000
) -> list[Role]:
    """Producers that retry whatever happens, and are promised each record once, in order. Two, at
    half the rate each: of one alone nobody sees whether its producer id is its own. The second
    gathers what it sends: batches of several records, whose times are apart, and compressed."""
    return [
        Role(
            role="producer",
            process=f"producer-idempotent-{number}",
            params={
                "topics": {topic: partitions},
                "acks": -1,
                "rate_per_s": per_s / 2,
                "first_value": first_value + number * 1_000_000_000,
                "idempotent": True,
                **how,
            },
        )
        for number, how in ((1, {}), (2, _GATHERED))
    ]


def joint_producer(topic: str, partitions: int, *, first_value: int = 5_000_000_000) -> Role:
    """acks=all to all partitions that a broker leads in one request, as Kafka's own client does;
    some with a record of a partition that it does not lead, as after a move; idempotent, and in
    one producer epoch after the other."""
    topics = {"topics": {topic: partitions}}
    params = {**topics, "acks": -1, "first_value": first_value, "strays": True, "raises": 3}
    params |= {"ack_timeout_ms": 5_000}  # so that run.json tells of it
    return Role(role="joint-producer", process="joint-producer", params=params)


def repeating_producer(topic: str, partitions: int, *, first_value: int = 7_000_000_000) -> Role:
    """An idempotent one with acks=all that sends once more what was acknowledged, as who did not
    hear of that would."""
    return Role(
        role="joint-producer",
        process="repeating-producer",
        params={
            **{"topics": {topic: partitions}, "acks": -1, "first_value": first_value},
            **{"rate_per_s": 20.0, "raises": 40, "repeats": 3, "ack_timeout_ms": 5_000},
        },
    )


def shortened(
    topics: Mapping[str, int],
    *,
    per_s: float = 12.0,
    first_value: int = 6_000_000_000,
    **deletes: float,
) -> list[Role]:
    """Topics (with how many partitions) whose oldest records are deleted all the while
    (DeleteRecords; ``deletes``: how, as parameters), and who writes to them: so much a second to
    each partition."""
    return [
        Role(
            role="joint-producer",
            process="producer-shortened",
            params={
                "topics": topics,
                "acks": -1,
                "rate_per_s": per_s,
                "first_value": first_value,
            },
        ),
        Role(
            role="record-deleter",
            process="record-deleter",
            params={"topics": topics, **deletes},
        ),
    ]


def tail_reader(topic: str, partitions: int, *, late_ms: int = 3000) -> Role:
    """A consumer that comes when the load has long begun, and starts at the end."""
    return Role(
        role="consumer",
        process="tail-reader",
        params={"topics": {topic: partitions}, "late_ms": late_ms},
    )


BEYOND_SMOKE = ("ci", "nightly")
"""For scenarios that smoke, which is to last minutes, leaves out."""
LOG_APPEND_TIME: Mapping[str, str] = {"message.timestamp.type": "LogAppendTime"}
"""On topics under test: the append time tells avoidable loss from lawful loss."""
SHORT_SEGMENTS: Mapping[str, str] = {"segment.ms": "1000"}
"""On topics whose logs are cut, recovered and copied: in one segment that lasts for a week, as by
default, nobody sees what a broker does where one ends and the next begins."""


def trial_folder(run: Path, arm: str, trial: int) -> Path:
    """Where one trial of one arm keeps its live files, node folders and logs."""
    return run / "trials" / f"{arm}-{trial}"


def texts(configs: Mapping[str, str]) -> list[str]:
    """A topic's configs as faults take them."""
    return [f"{name}={value}" for name, value in configs.items()]
