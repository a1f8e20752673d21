"""What is tested: the seam between the harness and one kind of broker.

A *system under test* turns a `NodeLayout` (where one node's listeners, proxies and folders are)
into a `ProcessSpec` that any runtime can start, says what it can do, and afterwards yields its own
evidence as history rows. Nothing outside this package asks which system it is: code asks for a
capability, a plane mode or a row.

It fits three systems: the bundled dual-plane server (a trace that already is history rows), Apache
Kafka 3.9 in ZooKeeper mode (log4j files parsed afterwards, wall-clock times, hence `ClockTie`), and
Kafka 4.x in KRaft mode (no ZooKeeper, other processes before the nodes, a storage to be formatted).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal, Protocol, runtime_checkable

from faults.plan import Plan
from faults.protocol import Capability, Entry, Link
from harness.runtime.protocol import Address, ProcessSpec, Programs

EVIDENCE_SUMMARY: Final = "evidence.json"
"""A file in the node's folder where `SystemUnderTest.evidence` may say what it read and what of it
it did not know. It becomes part of run.json."""


class UnknownSystem(ValueError):
    """There is none by that name, or its file is wrong; the message names what is allowed."""


class Planes(StrEnum):
    """How a node separates control requests from data requests."""

    SINGLE = "single"  # no control listener: one FIFO queue, Kafka before KIP-291
    DUAL = "dual"  # KIP-291
    PRIORITY = "priority"  # KIP-291's rejected alternative; only the bundled server has it


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockTie:
    """CLOCK_MONOTONIC = wall clock + ``monotonic_minus_wall_ns``, within ``error_ns``."""

    monotonic_minus_wall_ns: int
    error_ns: int

    def monotonic_ns(self, wall_ms: float) -> int:
        return int(wall_ms * 1_000_000) + self.monotonic_minus_wall_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLayout:
    """Where one node lives. Made by the cluster; the same over all of the node's restarts."""

    node: int
    name: str
    """Its process name: ``node-1``."""
    dir: Path
    """Its folder on this host: configuration, output, trace, data."""
    bind: Mapping[Link, Address]
    """What each listener binds; CONTROL only with dual planes."""
    direct: Mapping[Link, Address]
    """Where each listener is reached past its proxy."""
    advertised: Mapping[Link, Address]
    """The proxies: what the node must advertise."""
    zookeeper: str
    """``host:port/chroot`` through the node's own proxy; empty when the system has no ZooKeeper."""
    programs: Programs
    nodes: tuple[int, ...]
    """Ids of all nodes of the cluster."""
    session_timeout_ms: int = 6000
    peers: Mapping[int, Mapping[Link, Address]] = field(default_factory=dict)
    """What every node of the cluster, itself included, advertises: by node and link."""
    extras: Mapping[str, str] = field(default_factory=dict)
    """What `SystemUnderTest.support_specs` decided for all nodes (a KRaft quorum's addresses)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportLayout:
    """Where processes that are neither nodes, nor ZooKeeper, nor toxiproxy may live."""

    dir: Path
    programs: Programs
    nodes: tuple[int, ...]


class Ports(Protocol):
    """The part of a runtime that hands out addresses."""

    def address(self, name: str) -> str: ...
    def bind_host(self, name: str) -> str: ...
    def allocate_port(self, name: str) -> int: ...


class SystemUnderTest(Protocol):
    """One kind of broker. Stateless: one object may serve many clusters."""

    @property
    def name(self) -> str: ...
    @property
    def capabilities(self) -> frozenset[Capability]:
        """What the *system* can do; the runtime's capabilities are added by the cluster."""
        ...

    @property
    def traces(self) -> frozenset[str]:
        """Kinds of rows that each of its nodes writes in any run: one that lacks them lost them."""
        ...

    @property
    def plane_modes(self) -> frozenset[Planes]: ...

    def prepare(self, programs: Programs) -> None:
        """See that it can be run where ``programs`` are. Raises `SetupError`."""
        ...

    def version(self, programs: Programs) -> str:
        """For run.json: which build this is."""
        ...

    def support_specs(
        self, layout: SupportLayout, ports: Ports
    ) -> tuple[Sequence[ProcessSpec], Mapping[str, str]]:
        """Processes to be ready before the first node, and `NodeLayout.extras` for the nodes."""
        ...

    def node_spec(
        self, layout: NodeLayout, planes: Planes, overrides: Mapping[str, str]
    ) -> ProcessSpec:
        """How to run one node. ``overrides`` are broker configs (Kafka's names) that win."""
        ...

    def log_dir(self, layout: NodeLayout) -> Path:
        """The folder that holds the node's partition folders."""
        ...

    def evidence(self, layout: NodeLayout, clock: ClockTie) -> Iterator[Mapping[str, Any]]:
        """The node's own history rows (checkers/history.py), over all of its boots, after the run.

        A torn last line (the node was killed) is left out; other damage raises ``HistoryError``
        naming file and line."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Wherein a system is less than Kafka, or shows less. As it stands: nowhere."""

    nodes: int = 3
    """How many make a cluster."""
    first_node: int | None = None
    """The lowest id; the others follow it. None: whichever, see `first_node_of`."""
    replicates: bool = True
    """Whether a topic's replicas lie where they were asked for."""
    advertises: bool = True
    """Whether it tells clients the addresses that it is given for that, and not its own."""
    takes_configs: bool = True
    """Whether it knows Kafka's names of broker configs."""
    runtime: Literal["process", "docker"] | None = None
    """Where alone it runs: as processes on this host, or in containers."""
    state: Literal["store", "clients"] = "store"
    """Where its state can be asked for: in what it keeps it in, or only of brokers, as any client
    may."""
    leaders: Literal["written", "shown"] = "written"
    """What proves that a leader was committed: that it was written down, or (a black box) only that
    some client was shown it."""
    fixed_members: bool = False
    """Whether its brokers name all of its nodes, whoever lives."""
    read_as_consumer: bool = False
    """Whether logs can be read in the end as consumers read them only."""
    fetch_version: int | None = None
    """Of the Fetch by which logs are read in the end; None: the newest that is known."""
    mute: bool = False
    """Whether its brokers write nothing down of what they are asked."""
    clock_error_ms: int = 0
    """How far its brokers' wall clocks may be from this machine's."""
    unjudged: Mapping[str, str] = field(default_factory=dict)
    """By check that it shows nothing for: why."""
    unserved: Mapping[str, str] = field(default_factory=dict)
    """By client role that it cannot answer: why."""


@runtime_checkable
class HasLimits(Protocol):
    """A system that is less than Kafka somewhere."""

    @property
    def limits(self) -> Limits: ...


def limits_of(sut: SystemUnderTest) -> Limits:
    return sut.limits if isinstance(sut, HasLimits) else Limits()


def first_node_of(sut: SystemUnderTest, seed: int) -> int:
    """The lowest id of a run's brokers: 0 where the seed is even, for careless code takes a broker
    of that id for none; 1 where it is odd, for careless code takes ids for indexes."""
    told = limits_of(sut).first_node
    return seed % 2 if told is None else told


@runtime_checkable
class IsDescribed(Protocol):
    """A system that comes from a file, which may be another one tomorrow."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str:
        """The file's text, to be kept with the run."""
        ...


@runtime_checkable
class RunsAlready(Protocol):
    """A system that somebody else started, and goes on using: what a runtime can do to processes it
    cannot do there, and a plan is played as far as its commands go."""

    @property
    def file(self) -> Path:
        """What describes it."""
        ...

    def playable(self, plan: Plan) -> tuple[Plan, list[tuple[Entry, str]]]:
        """The plan without what cannot be played there, and what was left out with the reason."""
        ...


@runtime_checkable
class HasOldReleases(Protocol):
    """A system of which some releases are asked otherwise than those of today."""

    @property
    def orders_by_znode(self) -> bool:
        """Elections and reassignments are ordered in ZooKeeper, not by request."""
        ...

    @property
    def settled_s(self) -> float:
        """How long a sound cluster of it may take to tell all brokers of an in-sync set."""
        ...

    @property
    def topic_ids_late(self) -> bool:
        """Whether a replica may do without its topic's id for a while."""
        ...

    @property
    def stopping_may_join(self) -> bool:
        """Whether a broker that is being stopped may come back into sync."""
        ...

    @property
    def mixes_config_errors(self) -> bool:
        """Whether a config that is wrong may be refused as a request that is wrong."""
        ...

    @property
    def records_corrupt(self) -> bool:
        """Whether a batch whose records break a rule is refused as one that was spoilt."""
        ...

    @property
    def leaderless_untold(self) -> bool:
        """Whether a partition that has no leader is told without its leader epoch."""
        ...

    @property
    def stopped_leave_waiting(self) -> bool:
        """Whether who waits at a leader that puts its replica aside is left waiting."""
        ...

    @property
    def epoch_after_office(self) -> bool:
        """Whether who takes office raises the controller epoch in a second write."""
        ...

    @property
    def unclean_elections_wait(self) -> bool:
        """Whether a topic that is allowed unclean elections waits for another occasion."""
        ...

    @property
    def dead_groups_unknown(self) -> bool:
        """Whether who asks for a group that its coordinator just let go is called no member."""
        ...

    @property
    def fetch_version(self) -> int:
        """Of the Fetch by which any replica's log can be read."""
        ...


@runtime_checkable
class LooksAfterLogs(Protocol):
    """A system that can say when its brokers begin to look after their logs."""

    @property
    def first_look_ms(self) -> int:
        """After a broker's start; with the configs of `harness.sut.broker_properties`."""
        ...


@runtime_checkable
class KnowsItsCoordinators(Protocol):
    """A system that can say how a coordinator of groups answers. Of others nobody knows."""

    @property
    def positions_told_late(self) -> bool:
        """Whether one that has just begun may tell a lower position than its predecessor kept."""
        ...

    @property
    def old_clients_untold(self) -> bool:
        """Whether who cannot read an error above all is not told that it is refused."""
        ...


@runtime_checkable
class KnowsConfigs(Protocol):
    """A system that can say which broker configs it has. Of others nobody knows."""

    @property
    def configs(self) -> frozenset[str]:
        """Kafka's names, and its own."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GaugesPage:
    """Where a node serves its metrics over HTTP."""

    url: str
    samples: Mapping[str, str] | None = None
    """In Prometheus' text format: by Kafka's name of a gauge its sample, with labels or without.
    None: one JSON object, MBean name -> attribute -> value."""


@runtime_checkable
class ServesGauges(Protocol):
    """A system whose nodes can be asked for their metrics."""

    def gauges_page(self, layout: NodeLayout) -> GaugesPage | None:
        """Of a running node; None: it serves none."""
        ...


@runtime_checkable
class HasPlantedBugs(Protocol):
    """A system that can be made wrong on purpose, so that checkers can be shown to find it."""

    @property
    def planted_bugs(self) -> frozenset[str]:
        """Names that ``--mutants`` takes."""
        ...
