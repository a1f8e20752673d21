"""What a fault is, and all that it may touch.

A fault is inject, heal, and what it did as history events (kinds ``fault``, ``flood``, ``forged``).
Faults are data until they run: a plan holds `Entry` rows, the registry in ``faults/__init__.py``
turns each into a `Fault`. Faults never import the harness or the nodes: whatever they touch comes
through `Context`, whose members are the small protocols below. A fault states what it ``needs``; a
system or runtime that lacks it skips the fault, visibly, with that reason.

Contract for writing one (one fault a file, with its test alongside in tests/faults):
- ``inject`` returns once the effect is in place and *observed*, or raises `FaultFailed`;
- ``heal`` undoes it, is idempotent, works after a failed or half-done inject, and is called on
  Ctrl-C as well: it must not wait on anything that the fault itself broke;
- symbolic targets ("leader:t-0", "controller") are resolved in ``inject``, and the resolution is
  recorded, so that a saved plan stays meaningful on another cluster;
- every random choice comes from ``ctx.rng``, every time from ``ctx.now_ns()``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Protocol


class FaultFailed(Exception):
    """The fault could not be put in place (or did not take hold); the run becomes `unknown`."""


class Capability(StrEnum):
    """What a system under test or a runtime can do for a fault."""

    KILL = "kill"  # SIGKILL and start again
    PAUSE = "pause"  # SIGSTOP / SIGCONT
    CONTROLLED_STOP = "controlled-stop"
    LINKS = "links"  # every listener behind its own toxiproxy proxy
    ZOOKEEPER = "zookeeper"  # registered through ZooKeeper, with a proxy of its own
    CONTROL_REQUESTS = "control-requests"  # takes LeaderAndIsr & co. over the wire
    CHANNEL_METRICS = "channel-metrics"  # writes down what its controller's metrics say
    EXCEPTIONS = "exceptions"  # writes down what its own code trips over
    LOG_FILES = "log-files"  # its log directory can be reached (torn tails)
    ELECT_LEADERS = "elect-leaders"
    ALTER_PARTITION = "alter-partition"  # in-sync sets change through the controller (KIP-497)
    STRICT_MIN_ISR = "strict-min-isr"  # nothing is committed while too few are in sync (KIP-966)
    NETWORK_DETACH = "network-detach"  # runtime: off the network, and on it again
    PACKET_CUTS = "packet-cuts"  # runtime: pairwise packet drops
    RESOURCE_LIMITS = "resource-limits"  # runtime: CPU and memory limits
    BOUNDED_DISK = "bounded-disk"  # runtime: a volume that can be filled
    FRAMES = "frames"  # runtime: a proxy behind the links that knows Kafka's frames


class Link(StrEnum):
    """The proxied ways to and from one node."""

    CLIENT = "client"
    INTER_BROKER = "inter-broker"
    CONTROL = "control"  # equals INTER_BROKER's proxy when the node has no control listener
    ZOOKEEPER = "zookeeper"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a plan. Offsets count from the start of the chaos phase, in milliseconds.

    ``after``: the id of an entry before it. It begins at its offset, and not before that one has
    been healed for as long as the plan has between the two, however long a system takes over it;
    its duration counts from then."""

    id: str
    fault: str
    at_ms: int
    duration_ms: int
    params: Mapping[str, Any]
    after: str = ""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition as committed in ZooKeeper (or the metadata log)."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    controller_epoch: int
    partition_epoch: int


class Nodes(Protocol):
    """The brokers' processes. Every call returns when it is done, and records a ``node_event``."""

    @property
    def ids(self) -> Sequence[int]: ...
    def kill(self, node: int) -> None: ...
    def stop(self, node: int) -> None: ...
    def start(self, node: int, *, wait_ready: bool = True) -> None: ...
    def pause(self, node: int) -> None: ...
    def resume(self, node: int) -> None: ...
    def is_running(self, node: int) -> bool: ...
    def halts(self, node: int, why: Callable[[], object], within_s: float) -> bool:
        """Do what must make it end by itself, and wait for that: True, and a ``kill`` row that says
        so. False, and no row: it went on for all that time."""
        ...

    def log_dir(self, node: int) -> str:
        """A folder on this host that holds the node's partition folders. Capability LOG_FILES."""
        ...

    def reconfigure(
        self, node: int, properties: Mapping[str, str], *, without: Collection[Link] = ()
    ) -> None:
        """From its next start on it has these properties on top of the run's (an empty value
        removes one), and no listener for the links ``without``."""
        ...

    def refusal(
        self, node: int, properties: Mapping[str, str], *, without: Collection[Link] = ()
    ) -> str:
        """What a broker with these properties says when it refuses to start. Tried by a process of
        its own, in a folder of its own. `FaultFailed` when it starts."""
        ...


class Links(Protocol):
    """toxiproxy, by node and link."""

    def add_toxic(
        self,
        node: int,
        link: Link,
        *,
        name: str,
        kind: str,
        stream: str,
        toxicity: float,
        attributes: Mapping[str, int],
    ) -> None: ...
    def remove_toxic(self, node: int, link: Link, *, name: str) -> None: ...
    def disable(self, node: int, link: Link) -> None: ...
    def enable(self, node: int, link: Link) -> None: ...
    def address(self, node: int, link: Link, *, direct: bool = False) -> tuple[str, int]:
        """(host, port) of the proxy; with ``direct`` of the listener behind it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameCount:
    """What a rule of `Frames` did: frames that it meant, and those that it acted on."""

    matched: int
    applied: int


class Frames(Protocol):
    """Single requests and answers on their way to a listener. Capability FRAMES; there only when
    the plan needs it."""

    def add(
        self,
        rule_id: str,
        *,
        api: str,
        action: str,
        direction: str = "request",
        node: int | None = None,
        link: Link | None = None,
        client: str | None = None,
        skip: int = 0,
        times: int = 0,
        delay_ms: int = 0,
        error: str | None = None,
    ) -> None:
        """``api``: Kafka's name for it (ALTER_PARTITION). ``node``, ``link``: of the listener;
        none: any. ``client``: a regular expression for the client id. Of those that are meant the
        first ``skip`` pass, and the next ``times`` (0: all) are held until the rule is removed, or
        whatever the ``action`` says (harness/frames/rules.py)."""
        ...

    def remove(self, rule_id: str) -> FrameCount:
        """What is held goes on. Idempotent."""
        ...

    def count(self, rule_id: str) -> FrameCount: ...


class View(Protocol):
    """The cluster's committed state, read past every proxy: the truth, not a broker's idea."""

    def controller(self) -> int | None: ...
    def controller_epoch(self) -> int: ...
    def broker_epoch(self, node: int) -> int | None:
        """czxid of the broker's registration; null when it is not registered."""
        ...

    def live_brokers(self) -> Sequence[int]: ...
    def partitions(self, topic: str | None = None) -> Sequence[PartitionState]: ...
    def topic_id(self, topic: str) -> str | None: ...


class Admin(Protocol):
    """What an administrator would do. Errors raise `FaultFailed` with Kafka's error name."""

    def create_topic(
        self, topic: str, assignment: Mapping[int, Sequence[int]], configs: Mapping[str, str]
    ) -> None: ...
    def add_partitions(self, topic: str, assignment: Mapping[int, Sequence[int]]) -> None:
        """``assignment``: of those that come after the last one, in order."""
        ...

    def alter_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """These and no others."""
        ...

    def delete_topic(self, topic: str) -> None: ...
    def delete_records(self, node: int, topic: str, partition: int, offset: int) -> None:
        """Those before that offset, of its leader."""
        ...

    def elect_preferred(self, partitions: Sequence[tuple[str, int]]) -> None: ...
    def reassign(self, assignment: Mapping[tuple[str, int], Sequence[int]]) -> None:
        """Reorder (or move) replicas, so that the preferred leader changes."""
        ...

    def begin_reassign(self, assignment: Mapping[tuple[str, int], Sequence[int] | None]) -> None:
        """The same without waiting for its end. None: what is being moved is called off."""
        ...

    def set_broker_config(self, node: int, name: str, value: str) -> None:
        """While the broker runs (IncrementalAlterConfigs)."""
        ...

    def broker_config(self, node: int, name: str) -> str | None:
        """What the broker itself has at the moment (DescribeConfigs)."""
        ...

    def remove_controller(self) -> None:
        """Delete ``/controller``: another is elected, though this one's session lives. Needs
        ZOOKEEPER."""
        ...

    def write_partitions(self, topic: str, assignment: Mapping[int, Sequence[int]]) -> None:
        """`add_partitions` past all brokers, by the topic's znode: the controller hears of it by
        its watch alone. Needs ZOOKEEPER."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a broker's place uses at the moment."""

    memory_bytes: int
    throttled_periods: int
    """How many scheduling periods it was held back by a CPU limit, since its start."""


class Machines(Protocol):
    """The places where brokers live: what a runtime with containers can do to them. Each method
    names the capability it takes; without it, it raises `FaultFailed`. What undoes is idempotent.
    """

    def disconnect(self, node: int) -> None:
        """Off the network: its connections stall, new ones find nobody. NETWORK_DETACH."""
        ...

    def reconnect(self, node: int) -> None:
        """With the address that it had. NETWORK_DETACH."""
        ...

    def cut(self, node: int, peer: int) -> None:
        """From now on no packet passes between ``node`` and the listeners of ``peer``: what
        ``node`` dials there stalls. The other direction is another cut. PACKET_CUTS."""
        ...

    def mend(self, node: int, peer: int) -> None: ...
    def reaches(self, node: int, peer: int, timeout_s: float) -> bool:
        """Whether ``node`` can connect to ``peer``'s inter-broker link. PACKET_CUTS."""
        ...

    def limit_cpus(self, node: int, cpus: float | None) -> None:
        """None: what it had at first. RESOURCE_LIMITS."""
        ...

    def limit_memory(self, node: int, memory_bytes: int | None) -> None:
        """None: what it had at first. RESOURCE_LIMITS."""
        ...

    def usage(self, node: int) -> Usage:
        """RESOURCE_LIMITS."""
        ...

    def fill_disk(self, node: int) -> int:
        """Take every free byte of its log directory's disk; returns how many. BOUNDED_DISK."""
        ...

    def free_disk(self, node: int) -> None: ...
    def disk_free_bytes(self, node: int) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlAnswer:
    """What a broker answered to a control request."""

    invoke_t: int
    t: int
    error: int | None
    partition_errors: Mapping[tuple[str, int], int]
    failure: str | None
    correlation_id: int
    client_id: str


class ControlRequests(Protocol):
    """Speaks as a controller, or to one. Capability CONTROL_REQUESTS. States carry the epochs to be
    sent."""

    def leader_and_isr(
        self,
        node: int,
        link: Link,
        *,
        controller_id: int,
        controller_epoch: int,
        broker_epoch: int,
        states: Sequence[PartitionState],
        timeout_s: float = 5.0,
    ) -> ControlAnswer: ...
    def update_metadata(
        self,
        node: int,
        link: Link,
        *,
        controller_id: int,
        controller_epoch: int,
        broker_epoch: int,
        states: Sequence[PartitionState],
        timeout_s: float = 5.0,
    ) -> ControlAnswer:
        """The live brokers it names are those of the registrations, with their real endpoints."""
        ...

    def stop_replica(
        self,
        node: int,
        link: Link,
        *,
        controller_id: int,
        controller_epoch: int,
        broker_epoch: int,
        states: Sequence[PartitionState],
        delete: bool,
        timeout_s: float = 5.0,
    ) -> ControlAnswer: ...
    def controlled_shutdown(
        self, node: int, link: Link, *, broker: int, broker_epoch: int, timeout_s: float = 5.0
    ) -> ControlAnswer:
        """``broker``, in that life, asks the controller ``node`` to be relieved before it stops."""
        ...


class Context(Protocol):
    """Everything that a fault may touch."""

    rng: random.Random
    nodes: Nodes
    links: Links
    view: View
    admin: Admin
    control: ControlRequests
    machines: Machines
    frames: Frames
    capabilities: frozenset[Capability]
    store: str
    """A folder of this trial for a fault's own live files (flood workers append there)."""

    def now_ns(self) -> int: ...
    def sleep(self, seconds: float) -> None:
        """Returns early (raising KeyboardInterrupt's kin) when the run is being stopped."""
        ...

    def record_gauges(self, node: int, occasion: str) -> None:
        """Writes down what the broker's metrics say of the cluster, beside what is so; nothing
        where it has none to be asked for. ``occasion``: the fault's id; once for each."""
        ...

    def record_plane_metrics(self, node: int, occasion: str) -> None:
        """Writes down what the broker's metrics say of its planes and their requests, as often as
        called; nothing where it has none to be asked for. ``occasion``: the fault's id."""
        ...

    def record_moves(self, occasion: str) -> None:
        """Writes down which topics the controller lists as being moved, beside those that are;
        nothing where it cannot be asked, or nobody else knows. ``occasion``: as above."""
        ...

    def record(self, kind: str, **fields: Any) -> None:
        """Append an event to the history; ``t`` and ``process`` are filled in when absent."""
        ...


class Fault(Protocol):
    """See the module's contract. Built from an `Entry` by ``from_entry``, which validates params
    (raising ``PlanError`` that names the field and what is allowed)."""

    name: ClassVar[str]
    needs: ClassVar[frozenset[Capability]]

    def inject(self, ctx: Context) -> None: ...
    def heal(self, ctx: Context) -> None: ...
