"""Releases of Apache Kafka by number: what each of them can do, and what it needs to be run.

A *capability by version* is one function here, named for what Kafka gained, with the release that
brought it. Nothing else compares version numbers.

    1.0 .. 3.9   ZooKeeper mode          3.3 .. 4.x   KRaft mode (fit for production from 3.3)
    2.1          leader epochs in Metadata and Fetch (KIP-320); the controller epoch is raised with
                 the office (KAFKA-6082)
    2.2          control.plane.listener.name (KIP-291), broker epochs (KIP-380); ends of
                 logs that are committed (KIP-207)
    2.4          leaders elected and partitions reassigned by request (KIP-460, KIP-455)
    2.6          state-change.log tells each partition's start
    2.7          AlterPartition (KIP-497)
    2.8          the request log is JSON; the network client tells what it sends and is answered
    3.4          LeaderAndIsr 7, UpdateMetadata 8 and StopReplica 4, which our controller speaks
    3.8          log.initial.task.delay.ms
    3.9          controllers among the advertised listeners (KIP-853)
    4.0          no ZooKeeper; log4j 2
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from harness.sut.broker_properties import FIRST_LOOK_MS

_FORM: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?:\.\d{1,3})?\Z")
Coordinates = tuple[str, str, str]
"""Of a jar in Maven's repositories: (group, artifact, version)."""


class Version(NamedTuple):
    """``2.8.1`` as numbers, so that 2.10 comes after 2.9."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


class Mode(StrEnum):
    """Where a cluster keeps its metadata."""

    ZOOKEEPER = "zookeeper"
    KRAFT = "kraft"


class UnknownVersion(ValueError):
    """The message says which versions are allowed."""


ALLOWED: Final = {Mode.ZOOKEEPER: "1.0.0 to 3.9.x", Mode.KRAFT: "3.3.0 and later"}
_FIRST: Final = {Mode.ZOOKEEPER: Version(1, 0, 0), Mode.KRAFT: Version(3, 3, 0)}
_AFTER: Final = {Mode.ZOOKEEPER: Version(4, 0, 0), Mode.KRAFT: Version(100, 0, 0)}


def parse_version(text: str, mode: Mode) -> Version:
    """Raises `UnknownVersion` for what is no version, or none that has the mode."""
    found = _FORM.match(text)
    if found:
        version = Version(int(found[1]), int(found[2]), int(found[3]))
        if _FIRST[mode] <= version < _AFTER[mode]:
            return version
    raise UnknownVersion(f"Kafka {text!r} in {mode} mode; allowed: {ALLOWED[mode]}")


def has_control_plane(version: Version) -> bool:
    """``control.plane.listener.name``: 2.2 (KIP-291)."""
    return version >= (2, 2, 0)


def raises_epoch_later(version: Version) -> bool:
    """Who takes office raises the controller epoch in a second write: until 2.1 (KAFKA-6082)."""
    return version < (2, 1, 0)


def lets_unclean_elections_wait(version: Version) -> bool:
    """A topic that is allowed unclean elections is elected a leader for when something else
    happens: until 2.1 (KafkaController, TopicUncleanLeaderElectionEnable)."""
    return version < (2, 1, 0)


def tells_leader_epochs(version: Version) -> bool:
    """Clients are told leader epochs, and fetch with them: 2.1 (KIP-320)."""
    return version >= (2, 1, 0)


def tells_committed_ends(version: Version) -> bool:
    """Who leads tells no end of a log that it does not know to be committed, and takes ListOffsets
    5, in whose answer it says so: 2.2 (KIP-207)."""
    return version >= (2, 2, 0)


def newest_plain_fetch(version: Version) -> int:
    """Fetch 11 came with 2.3 (KIP-392), 10 with 2.1, 6 with 1.0. From 2.4 on a follower answers
    nobody who asks with less than 11; until then it answers whoever calls itself a debugging
    replica."""
    if version >= (2, 3, 0):
        return 11
    return 10 if version >= (2, 1, 0) else 6


def takes_orders_by_request(version: Version) -> bool:
    """ElectLeaders 2 and AlterPartitionReassignments: 2.4 (KIP-460, KIP-455)."""
    return version >= (2, 4, 0)


def takes_our_control_requests(version: Version) -> bool:
    """The versions in which `harness.cluster.control_requests` speaks came with 3.4 (KIP-866)."""
    return version >= (3, 4, 0)


def has_alter_partition(version: Version) -> bool:
    """Leaders ask the controller for another in-sync set: 2.7 (KIP-497)."""
    return version >= (2, 7, 0)


def has_strict_min_isr(version: Version) -> bool:
    """Nothing is committed while fewer than min.insync.replicas are in sync: 3.7 (KAFKA-15583)."""
    return version >= (3, 7, 0)


def in_sync_sets_told_s(version: Version) -> float:
    """Where leaders write in-sync sets themselves, they tell the controller of it only when they
    have let 5 s pass without another change, and look every 2.5 s (ReplicaManager's
    IsrChangePropagationBlackOut and -Interval)."""
    return 5.0 if has_alter_partition(version) else 10.0


def has_request_log(version: Version) -> bool:
    """``kafka.request.logger`` writes JSON: 2.8 (KAFKA-10525)."""
    return version >= (2, 8, 0)


def has_start_lines(version: Version) -> bool:
    """``Leader T-P starts at leader epoch``, ``Add N partitions`` in state-change.log: 2.6."""
    return version >= (2, 6, 0)


def has_send_lines(version: Version) -> bool:
    """The network client's ``Sending`` and ``Received`` with all that is in a request, and the
    error of its answer: 2.8 (KAFKA-10818). Until 2.7 an answer is told by its Java object's name.
    """
    return version >= (2, 8, 0)


def advertises_controllers(version: Version) -> bool:
    """A broker that is a controller, too, may name that listener in ``advertised.listeners``, and
    earlier releases refuse to: 3.9 (KIP-853)."""
    return version >= (3, 9, 0)


def keeps_topic_ids_late(version: Version) -> bool:
    """A replica gets its topic's id only with its second LeaderAndIsr, for with the first it has no
    log yet to keep it beside (Partition.checkOrSetTopicId): 2.8, where nobody reads by ids."""
    return (2, 8, 0) <= version < (3, 0, 0)


def lets_who_stops_join(version: Version) -> bool:
    """A controller takes a broker that is being stopped back into in-sync sets: until 3.3
    (KIP-841)."""
    return version < (3, 3, 0)


def mixes_config_errors(version: Version) -> bool:
    """Brokers refuse some configs with INVALID_REQUEST: until 3.3 (KAFKA-13899)."""
    return version < (3, 3, 0)


def calls_records_corrupt(version: Version) -> bool:
    """A batch whose records break a rule is refused as one that was spoilt on the way
    (CORRUPT_MESSAGE): until 2.4 (INVALID_RECORD, KIP-467)."""
    return version < (2, 4, 0)


def leaves_leaderless_untold(version: Version) -> bool:
    """A partition without a leader is told without its leader epoch: until 2.5
    (MetadataCache.getPartitionMetadata; KIP-320 came with 2.1)."""
    return version < (2, 5, 0)


def calls_dead_groups_unknown(version: Version) -> bool:
    """Who asks for a group that its coordinator lets go at that moment is told that it is no member
    (UNKNOWN_MEMBER_ID), and not to look for its coordinator: until 2.3
    (GroupCoordinator.doCommitOffsets and others)."""
    return version < (2, 3, 0)


def leaves_waiting_at_stops(version: Version) -> bool:
    """Who waits for a partition whose replica its leader puts aside waits until its time is up:
    until 2.4 (ReplicaManager.stopReplica)."""
    return version < (2, 4, 0)


def tells_positions_late(version: Version) -> bool:
    """A new coordinator of a group tells what its high watermark covers: since 4.0 (KIP-848's
    CoordinatorRuntime; with require_stable it waits for what it has read beyond that)."""
    return version >= (4, 0, 0)


def tells_old_clients_nothing(version: Version) -> bool:
    """Who asks for a group's positions by OffsetFetch 1 and is to be refused gets no row, and so no
    error: from 3.5 until 3.9.2, 4.0.2 and 4.1 (KAFKA-19246, KafkaApis.fetchOffsetsForGroup)."""
    return (3, 5, 0) <= version < (3, 9, 2) or (4, 0, 0) <= version < (4, 0, 2)


def first_look_ms(version: Version) -> int:
    """When a broker that began looks after its logs for the first time (LogManager): since 3.8 as
    it is told by log.initial.task.delay.ms, half a minute before that."""
    return FIRST_LOOK_MS if version >= (3, 8, 0) else 30_000


def has_small_segments(version: Version) -> bool:
    """A topic's segments may be smaller than 1 MiB: until 4.0 (KIP-1030). Of the topic of offsets
    only its creation tells, and a cluster without it coordinates no group."""
    return version < (4, 0, 0)


def logs_with_log4j2(version: Version) -> bool:
    return version >= (4, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What is brought from Maven Central for one release."""

    scala: str
    beside: tuple[Coordinates, ...]
    """Jars beside Kafka's own; one of the same group and artifact takes the place of Kafka's."""


def needs_of(version: Version) -> Needs:
    """A binding for logs (without it nothing is logged; of slf4j-api's own line), and for releases
    before 2.4 a ZooKeeper client that can read addresses on JDK 14 and later."""
    beside: list[Coordinates] = []
    if logs_with_log4j2(version):
        beside.append(("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"))
    elif version >= (3, 2, 0):
        beside.append(("org.slf4j", "slf4j-reload4j", "1.7.36"))
    else:
        beside.append(("org.slf4j", "slf4j-log4j12", "1.7.30"))
    if version < (2, 4, 0):
        beside += [
            ("org.apache.zookeeper", "zookeeper", "3.5.7"),
            ("org.apache.zookeeper", "zookeeper-jute", "3.5.7"),
        ]
    return Needs(scala="2.13" if version >= (2, 6, 0) else "2.12", beside=tuple(beside))
