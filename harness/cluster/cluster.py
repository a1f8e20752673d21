"""One cluster's life: ZooKeeper, toxiproxy, the nodes, and what faults and workloads use of them.

    harness ── Cluster ──┬── nodes    start, stop, kill, pause (fleet)
                         ├── links    toxiproxy: every listener and ZooKeeper session apart
                         ├── view     committed state, read from the real ZooKeeper (or, where a
                         │            system has none, asked of the brokers)
                         ├── admin    topics, elections, reassignments
                         ├── control  speaks as a controller
                         └── watchers leadership rows, registrations, infra and exit events

A start is: both services, the watchers (nothing may be committed unseen), the proxies, all nodes at
once, then waiting until all are registered, one is controller and each tells its clients of all. A
start that fails or is interrupted stops what it began. `stop` kills: evidence is on disk the moment
it is written, so there is nothing to be gained from asking nicely.
"""

from __future__ import annotations

import contextlib
import random
import struct
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from kazoo.client import KazooClient

from faults.protocol import Capability, FaultFailed, Link
from harness.clock import tie_clocks, widen
from harness.cluster.admin import ClusterAdmin
from harness.cluster.ask import NoAnswer, cluster_idea
from harness.cluster.context import ClusterContext
from harness.cluster.control import ControlClient
from harness.cluster.descriptions import record_moves
from harness.cluster.errors import ClusterError, StateUnreadable
from harness.cluster.fleet import NodeFleet
from harness.cluster.gauges import record_gauges
from harness.cluster.health import HealthMonitor, Watched
from harness.cluster.layout import CHROOT, ClusterLayout, plan_layout
from harness.cluster.machines import NodeMachines
from harness.cluster.plane_metrics import record_plane_metrics
from harness.cluster.quorum_view import QuorumView
from harness.cluster.record import Record
from harness.cluster.shown import ShownWatch
from harness.cluster.sockets import SocketWatch
from harness.cluster.told_view import ToldView
from harness.cluster.txn_log import complete, record_deletions
from harness.cluster.view import StateView, ZookeeperView
from harness.cluster.watcher import LeadershipWatcher
from harness.cluster.zk_writes import record_writes
from harness.cluster.znode_admin import ZnodeAdmin
from harness.disk import SPARE_BYTES, free_bytes, in_words
from harness.frames.client import NAME as FRAME_PROXY
from harness.frames.client import FrameProxyClient, NoFrames
from harness.links import ToxiproxyLinks
from harness.runtime.protocol import Address, Handle, ProcessSpec, Runtime, RuntimeFailed
from harness.runtime.readiness import four_letter_word
from harness.sut.protocol import (
    HasOldReleases,
    NodeLayout,
    Planes,
    SupportLayout,
    SystemUnderTest,
    limits_of,
)

_FORMED_TIMEOUT_S: Final = 60.0
_ASK_TIMEOUT_S: Final = 5.0
_POLL_S: Final = 0.05
# The watching session should outlast any stall of a flooded machine.
_WATCH_SESSION_S: Final = 30.0
_GIVES_BACK: Final = "auto.leader.rebalance.enable"


class _Zookeeper:
    """What the harness has of ZooKeeper, where a system keeps its state there."""

    def __init__(self, client: KazooClient, record: Record) -> None:
        self.client: Final = client
        self.view: Final = ZookeeperView(client, CHROOT)
        self.watcher: Final = LeadershipWatcher(client, CHROOT, record)


class Cluster:
    """See the module. Use as a context manager, or `start` and (always) `stop`.

    Making one plans it (every port is allocated, nothing runs); so its members and layouts exist
    whatever becomes of the start. One thread starts and stops it; the members are thread-safe.
    """

    def __init__(
        self,
        runtime: Runtime,
        sut: SystemUnderTest,
        planes: Planes | str,
        *,
        nodes: int = 3,
        first_node: int = 1,
        dir: Path,
        record: Record,
        rng: random.Random,
        overrides: Mapping[str, str] | None = None,
        session_timeout_ms: int = 6000,
        disk_bytes: int | None = None,
        late_links: Collection[Link] = (),
        frames: bool = False,
    ) -> None:
        """``disk_bytes``: each node's log directory gets a disk of that size, for faults that fill
        it; only in a runtime with BOUNDED_DISK. ``late_links``: those have their proxies, but no
        listener behind them until a node is reconfigured (`faults.protocol.Nodes`). ``frames``:
        single requests can be held up (`harness.frames`), where the runtime can do that."""
        self.runtime: Final = runtime
        self.sut: Final = sut
        self.planes: Final = Planes(planes)
        self.dir: Final = dir.resolve()
        self.rng: Final = rng
        self.record: Final = record
        self._ids = self._node_ids(first_node, nodes)
        self._session_timeout_ms = session_timeout_ms
        self._overrides = dict(overrides or {})
        self.gives_leaders_back: Final = self._overrides.get(_GIVES_BACK) == "true"
        """Whether the controller looks by itself that preferred leaders lead."""
        self._disk_bytes = disk_bytes
        self._cleanup = contextlib.ExitStack()
        self._health: HealthMonitor | None = None
        if self.planes not in sut.plane_modes:
            allowed = ", ".join(sorted(sut.plane_modes))
            raise ClusterError(f"{sut.name} has no plane mode {self.planes}; allowed: {allowed}")
        runtime.prepare()
        self._support, extras = sut.support_specs(
            SupportLayout(dir=self.dir, programs=runtime.programs, nodes=self._ids), runtime
        )
        self._layout: Final = self._plan_layout(extras)
        self._frames: Final = self._frame_proxy(frames)
        self.links: Final = ToxiproxyLinks(
            self._layout.toxiproxy_api,
            self._layout.proxies,
            bind_host=runtime.bind_host(self._layout.toxiproxy.name),
            through=self._frames.through if self._frames else {},
        )
        address = self._layout.zookeeper_address
        self._zookeeper: Final = (
            None
            if address is None
            else _Zookeeper(KazooClient(hosts=str(address), timeout=_WATCH_SESSION_S), record)
        )
        self._asked: Final = None if self._zookeeper else self._asked_view()
        self.view: Final[StateView] = self._view()
        self.admin: Final = self._admin()
        self.control: Final = ControlClient(self.view, self.links)
        self.machines: Final = NodeMachines(
            runtime,
            {node: layout.name for node, layout in self._layout.nodes.items()},
            self._layout.toxiproxy.name,
            self.links,
        )
        log_dirs = {node: sut.log_dir(layout) for node, layout in self._layout.nodes.items()}
        self.log_dirs: Final = list(log_dirs.values())
        specs = {node: self._node_spec(node, {}, late_links) for node in self._ids}
        self.nodes: Final = self._fleet(specs, log_dirs)

    # ---- what it is made of (another kind of cluster has other parts) --------------------------

    def _node_ids(self, first_node: int, nodes: int) -> tuple[int, ...]:
        return tuple(range(first_node, first_node + nodes))

    def _plan_layout(self, extras: Mapping[str, str]) -> ClusterLayout:
        return plan_layout(
            self.runtime,
            self.sut,
            self.planes,
            self._ids,
            dir=self.dir,
            session_timeout_ms=self._session_timeout_ms,
            extras=extras,
        )

    def _frame_proxy(self, wanted: bool) -> FrameProxyClient | None:
        told = {} if limits_of(self.sut).advertises else self._layout.told
        if not (wanted or told) or Capability.FRAMES not in self.runtime.capabilities:
            return None
        ways = {
            (node, link): at
            for node, layout in self._layout.nodes.items()
            for link, at in layout.direct.items()
        }
        return FrameProxyClient(self.runtime, ways, self.dir / FRAME_PROXY, told)

    def _admin(self) -> ClusterAdmin:
        client = self._zookeeper.client if self._zookeeper else None
        by_znode = isinstance(self.sut, HasOldReleases) and self.sut.orders_by_znode
        if by_znode and client is not None:
            return ZnodeAdmin(self.view, self.links, client, self.record)
        return ClusterAdmin(self.view, self.links, client, self.record)

    def _fleet(self, specs: Mapping[int, ProcessSpec], log_dirs: Mapping[int, Path]) -> NodeFleet:
        return NodeFleet(
            self.runtime,
            specs,
            self._node_spec,
            log_dirs,
            view=self.view,
            links=self.links,
            record=self.record,
            session_timeout_ms=self._session_timeout_ms,
        )

    def _view(self) -> StateView:
        if self._asked is not None:
            return self._asked
        assert self._zookeeper is not None
        return self._zookeeper.view

    def _asked_view(self) -> QuorumView:
        """Where there is no ZooKeeper to read: those are asked that may know."""
        limits = limits_of(self.sut)
        brokers = {n: at.direct[Link.CLIENT] for n, at in self._layout.nodes.items()}
        if limits.state == "clients":
            return ToldView(brokers, fixed_members=limits.fixed_members)
        controllers = {n: at.direct[Link.CONTROL] for n, at in self._layout.nodes.items()}
        return QuorumView(brokers, controllers)

    def _node_spec(
        self,
        node: int,
        properties: Mapping[str, str],
        without: Collection[Link],
        another: str | None = None,
    ) -> ProcessSpec:
        """See `harness.cluster.fleet.Respec`."""
        layout = self._layout.nodes[node]
        if another is not None:
            layout = replace(layout, name=f"{layout.name}-{another}", dir=layout.dir / another)
        bind = {link: at for link, at in layout.bind.items() if link not in without}
        layout = replace(layout, bind=bind)
        spec = self.sut.node_spec(layout, self.planes, {**self._overrides, **properties})
        disk = self.sut.log_dir(layout) if self._disk_bytes and another is None else None
        return replace(spec, disk=disk, disk_bytes=self._disk_bytes if disk else None)

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ---- life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Returns when every node is registered, leads to all others and knows the controller."""
        try:
            self._start()
        except BaseException:  # Ctrl-C included: nothing may stay behind
            self.stop()
            raise

    def stop(self) -> None:
        """End everything. Idempotent; safe after a failed or interrupted start."""
        try:
            self._cleanup.close()
        finally:
            self.runtime.close()

    def wind_up(self) -> None:
        """The trial is being ended, for whatever reason: nobody is to wait for nodes any more."""
        self.nodes.wind_up()

    def _start(self) -> None:
        self.sut.prepare(self.runtime.programs)
        self.dir.mkdir(parents=True, exist_ok=True)
        self._tie = tie_clocks()
        service = self._layout.zookeeper
        zookeeper = None if service is None else self.runtime.spawn(service)
        toxiproxy = self.runtime.spawn(self._layout.toxiproxy)
        frames = None if self._frames is None else self.runtime.spawn(self._frames.spec)
        for handle in [self.runtime.spawn(spec) for spec in self._support]:
            handle.wait_ready()
        toxiproxy.wait_ready()
        if frames is not None:
            frames.wait_ready()
        self.links.open()
        if zookeeper is not None and self._zookeeper is not None:
            zookeeper.wait_ready()
            self._watch_zookeeper(self._zookeeper)
        self._watch_health(zookeeper, toxiproxy, frames)
        try:
            for node in self._ids:
                self.nodes.start(node, wait_ready=False)
            for node in self._ids:
                self.nodes.wait_ready(node)
        except FaultFailed as e:
            self._note_unformed()
            raise ClusterError(str(e)) from e
        self.wait_formed(_FORMED_TIMEOUT_S)
        if self._asked is not None and limits_of(self.sut).leaders == "shown":
            shown = ShownWatch(self._asked, self.record)
            shown.start()
            self._cleanup.callback(shown.stop)

    def _watch_zookeeper(self, zookeeper: _Zookeeper) -> None:
        """Connect and watch: from here on nothing is committed unseen."""
        self._cleanup.callback(zookeeper.client.close)
        self._cleanup.callback(zookeeper.client.stop)
        zookeeper.client.start(timeout=_WATCH_SESSION_S)
        zookeeper.client.ensure_path(CHROOT)
        zookeeper.watcher.start()
        self._cleanup.callback(self._finish_watching, zookeeper.watcher)
        self._cleanup.callback(self._end_nodes)

    def _end_nodes(self) -> None:
        """Before ZooKeeper's log is read: a node that lives on may take office or decide after
        that, and would be the only one to tell of it."""
        try:
            self.nodes.end()
        except RuntimeFailed as e:
            self.record("infra", component="runtime", reason=str(e))

    def _finish_watching(self, watcher: LeadershipWatcher) -> None:
        """Write what only ZooKeeper's log can tell: leaderships that were overwritten before the
        watcher could read them, and when topics were deleted."""
        watcher.stop()
        assert self._layout.zookeeper is not None
        folder = self._layout.zookeeper.workdir / "data" / "version-2"
        try:
            complete(watcher, folder, CHROOT)
            tie = widen(self._tie, tie_clocks())
            record_deletions(self.record, folder, CHROOT, tie)
            record_writes(self.record, folder, CHROOT, tie)
        except (OSError, ValueError, struct.error) as e:
            reason = f"its transaction log cannot be read: {e}"
            self.record("infra", component="zookeeper", reason=reason)

    def _watch_health(
        self, zookeeper: Handle | None, toxiproxy: Handle, frames: Handle | None
    ) -> None:
        watched = {
            "toxiproxy": Watched(toxiproxy, self.links.check),
            "runtime": Watched(None, self.runtime.check, tries=1),
            "disk": Watched(None, self._probe_disk, tries=1),
        }
        if frames is not None and self._frames is not None:
            watched[FRAME_PROXY] = Watched(frames, self._frames.check)
        if zookeeper is not None:
            watched["zookeeper"] = Watched(zookeeper, self._probe_zookeeper)
        self._health = HealthMonitor(watched, self.nodes.note_exits, self.record)
        self._health.start()
        self._cleanup.callback(self._health.stop)
        sockets = SocketWatch(self._pids, self._layout.proxies, self.record)
        sockets.start()
        self._cleanup.callback(sockets.stop)

    def _pids(self) -> dict[int, int]:
        pids = {node: self.nodes.pid(node) for node in self._ids}
        return {node: pid for node, pid in pids.items() if pid is not None}

    def _probe_disk(self) -> None:
        left = free_bytes(self.dir)
        if left < SPARE_BYTES:
            raise ClusterError(f"only {in_words(left)} are free at {self.dir}")

    def _probe_zookeeper(self) -> None:
        address = self._layout.zookeeper_address
        assert address is not None
        if four_letter_word(address.host, address.port, "ruok", _ASK_TIMEOUT_S) != "imok":
            raise ClusterError("no 'imok' from ZooKeeper")

    # ---- what is where -----------------------------------------------------------------------

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The system's, the runtime's and the cluster's own."""
        given = self.sut.capabilities | self.runtime.capabilities
        return given if self._frames else given - {Capability.FRAMES}

    @property
    def node_ids(self) -> Sequence[int]:
        return self._ids

    @property
    def zookeeper(self) -> str:
        """Connect string past every proxy, chroot included; empty when there is none."""
        address = self._layout.zookeeper_address
        return "" if address is None else f"{address}{CHROOT}"

    def owns(self, topic: str) -> bool:
        """Whether the topic is the run's to look after: somebody else's may lie beside it."""
        return True

    def layout(self, node: int) -> NodeLayout:
        return self._layout.nodes[node]

    def config(self, name: str) -> str | None:
        """What the run sets for all brokers."""
        return self._overrides.get(name)

    def address(self, node: int, link: Link, *, direct: bool = False) -> Address:
        return Address(*self.links.address(node, link, direct=direct))

    def bootstrap(self, link: Link = Link.CLIENT, *, direct: bool = False) -> list[Address]:
        """One address a node, in the order of their ids."""
        return [self.address(node, link, direct=direct) for node in self._ids]

    def context(
        self, *, store: Path, stopping: Callable[[], bool], rng: random.Random | None = None
    ) -> ClusterContext:
        """What a fault gets. ``stopping`` tells whether the run is being stopped."""
        store.mkdir(parents=True, exist_ok=True)
        return ClusterContext(
            rng=rng or self.rng,
            nodes=self.nodes,
            links=self.links,
            view=self.view,
            admin=self.admin,
            control=self.control,
            machines=self.machines,
            frames=self._frames or NoFrames(),
            capabilities=self.capabilities,
            store=str(store),
            recorder=self.record,
            gauges=partial(record_gauges, self),
            plane_metrics=partial(record_plane_metrics, self),
            moves=partial(record_moves, self),
            stopping=stopping,
        )

    # ---- waiting -----------------------------------------------------------------------------

    def wait_until(self, what: str, condition: Callable[[], bool], timeout_s: float) -> None:
        """Poll; raises `ClusterError` naming ``what`` at the deadline, or what failed meanwhile of
        all that the nodes stand on."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if self._health is not None and self._health.failed:
                component, reason = next(iter(self._health.failed.items()))
                raise ClusterError(f"waited for {what}, and {component} {reason}")
            if time.monotonic() > deadline:
                raise ClusterError(f"waited {timeout_s:g} s in vain for {what}")
            time.sleep(_POLL_S)

    def wait_formed(self, timeout_s: float) -> None:
        """Until every node tells its clients of all nodes and of the true controller."""
        for node in self._ids:

            def agrees(node: int = node) -> bool:
                known = self.view.controller() is not None
                all_live = set(self.view.live_brokers()) == set(self._ids)
                return known and all_live and self._tells(node) is None

            try:
                what = f"node {node} to know all nodes and the controller"
                self.wait_until(what, agrees, timeout_s)
            except ClusterError:
                self._note_unformed()
                raise

    def _tells(self, node: int) -> str | None:
        """What else than all nodes and the true controller it tells its clients of; None: that."""
        try:
            idea = cluster_idea(self.address(node, Link.CLIENT, direct=True), _ASK_TIMEOUT_S)
        except NoAnswer as e:
            return str(e)
        # Without ZooKeeper clients are told of any broker: it passes requests on.
        is_true = idea.controller == self.view.controller() or self._zookeeper is None
        if idea.brokers == set(self._ids) and is_true:
            return None
        return f"brokers {sorted(idea.brokers)}, controller {idea.controller}"

    def _note_unformed(self) -> None:
        """Write down what the first node that does not tell of the whole cluster tells, if all that
        nodes stand on is well: whether it is to blame is judged by ZooKeeper's log."""
        for node in self._ids if not (self._health and self._health.failed) else ():
            asked_t = time.monotonic_ns()
            told = self._tells(node)
            if told is not None:
                self.admin.tell_unformed(node, asked_t, told)
                return

    def wait_full_isr(self, topics: Sequence[str] | None, timeout_s: float) -> bool:
        """Every node registered, every partition led and its ISR full; False at the deadline."""

        def full() -> bool:
            try:
                if set(self.view.live_brokers()) != set(self._ids):
                    return False
                return all(
                    s.leader >= 0 and set(s.isr) == set(s.replicas)
                    for s in self.view.partitions()
                    if topics is None or s.topic in topics
                )
            except StateUnreadable:
                return False

        try:
            self.wait_until("full in-sync sets", full, timeout_s)
        except ClusterError:
            return False
        return True
