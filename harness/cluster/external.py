"""The life of a cluster that runs already: nothing of it is started, and it is left as it was.

    harness's clients ──▶ toxiproxy ──▶ frame proxy (tells the proxies' addresses) ──▶ brokers
    admin, view, final read ─────────────────────────────────────────────────────────▶ brokers
    brokers ◀──▶ brokers, ZooKeeper: as they always did

A start is: both proxies, a read-only look at ZooKeeper where there is one, the watch. `stop`
restores every broker (paused ones go on, ended ones are started), deletes the topics that were
made, and ends the proxies; what of it fails is an infra row, said aloud, and kept on disk for
``biplane clean``.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kazoo.client import KazooClient

from faults.protocol import Capability, FaultFailed, Link, Links
from harness.cluster.cluster import Cluster
from harness.cluster.errors import ClusterError
from harness.cluster.fleet import NodeFleet, Respec
from harness.cluster.layout import TOXIPROXY, ClusterLayout
from harness.cluster.record import Record
from harness.cluster.shown import ShownWatch
from harness.cluster.view import StateView, ZookeeperView
from harness.frames.client import NAME as FRAME_PROXY
from harness.frames.client import FrameProxyClient
from harness.runtime.protocol import Address, ProcessSpec, Runtime
from harness.sut.external.leaving import delete_topics
from harness.sut.external.owed import Owed, owed_dir
from harness.sut.external.own import Own, OwnAdmin, OwnToldView, OwnView
from harness.sut.external.system import ExternalSystem
from harness.sut.external.ways import Brokers
from harness.sut.protocol import NodeLayout, Planes, SystemUnderTest

_SESSION_S: Final = 30.0


class ExternalFleet(NodeFleet):
    """Brokers that run already, and that a supervisor may bring back before anybody asks it to."""

    def __init__(
        self,
        brokers: Brokers,
        specs: Mapping[int, ProcessSpec],
        respec: Respec,
        log_dirs: Mapping[int, Path],
        *,
        view: StateView,
        links: Links,
        record: Record,
        session_timeout_ms: int,
    ) -> None:
        super().__init__(
            brokers,
            specs,
            respec,
            log_dirs,
            view=view,
            links=links,
            record=record,
            session_timeout_ms=session_timeout_ms,
        )
        self._brokers = brokers

    def _await_unregistered(self, node: int) -> None:
        if node not in self._handles:
            return  # it is met for the first time, and runs
        self._await(
            f"the old registration of node {node} to expire",
            lambda: self._view.broker_epoch(node) is None or self._brokers.serves(node),
            self._unregister_timeout_s,
        )


class ExternalCluster(Cluster):
    """See the module. Made and used as a `Cluster` is."""

    def __init__(
        self,
        runtime: Runtime,
        sut: ExternalSystem,
        planes: Planes | str,
        *,
        dir: Path,
        record: Record,
        rng: random.Random,
        **_: object,
    ) -> None:
        """What else a `Cluster` takes is for brokers that are started by it."""
        token = f"biplane-{random.SystemRandom().getrandbits(32):08x}"
        self.own: Final = Own(token)
        self.owed: Final = Owed(
            owed_dir() / f"{token}.json", file=sut.file, text=sut.description, token=token
        )
        self.brokers: Final = Brokers(sut.form, sut.file.parent, self.owed)
        self._system: Final = sut
        self._client: KazooClient | None = None
        self._left = False
        super().__init__(
            runtime,
            sut,
            planes,
            dir=dir,
            record=record,
            rng=rng,
            session_timeout_ms=sut.session_timeout_ms,
        )
        self.log_dirs.clear()  # a run gives its own log directories back: these are somebody else's

    # -- what it is made of ---------------------------------------------------------------------

    def _node_ids(self, first_node: int, nodes: int) -> tuple[int, ...]:
        return self._system.form.ids

    def _plan_layout(self, extras: Mapping[str, str]) -> ClusterLayout:
        runtime, form = self.runtime, self._system.form
        toxiproxy = runtime.toxiproxy_spec(TOXIPROXY, self.dir / TOXIPROXY)
        proxies = {
            (node, Link.CLIENT): (
                Address(runtime.address(TOXIPROXY), runtime.allocate_port(TOXIPROXY)),
                form.address(node),
            )
            for node in self._ids
        }
        nodes = {
            node: NodeLayout(
                node=node,
                name=f"node-{node}",
                dir=self.dir / f"node-{node}",
                bind={},
                direct={Link.CLIENT: form.address(node)},
                advertised={Link.CLIENT: proxies[node, Link.CLIENT][0]},
                zookeeper="",
                programs=runtime.programs,
                nodes=self._ids,
                session_timeout_ms=self._session_timeout_ms,
            )
            for node in self._ids
        }
        return ClusterLayout(
            zookeeper=None,
            toxiproxy=toxiproxy,
            zookeeper_address=None,
            toxiproxy_api=Address(runtime.address(TOXIPROXY), toxiproxy.ports["api"]),
            proxies=proxies,
            nodes=nodes,
        )

    def _frame_proxy(self, wanted: bool) -> FrameProxyClient | None:
        """Always in the way: without it clients would follow the addresses that brokers advertise,
        past the proxies."""
        proxies = self._layout.proxies
        return FrameProxyClient(
            self.runtime,
            {way: upstream for way, (_, upstream) in proxies.items()},
            self.dir / FRAME_PROXY,
            {node: listen for (node, _), (listen, _) in proxies.items()},
        )

    def _asked_view(self) -> OwnToldView:
        addresses = {node: self._system.form.address(node) for node in self._ids}
        return OwnToldView(addresses, self.own)

    def _view(self) -> StateView:
        form = self._system.form
        if form.zookeeper is None:
            return super()._view()
        self._client = KazooClient(hosts=form.zookeeper_hosts, timeout=_SESSION_S)
        return OwnView(ZookeeperView(self._client, form.chroot), self.own)

    def _admin(self) -> OwnAdmin:
        return OwnAdmin(self.view, self.links, self.own, self.owed, self.record)

    def _fleet(self, specs: Mapping[int, ProcessSpec], log_dirs: Mapping[int, Path]) -> NodeFleet:
        return ExternalFleet(
            self.brokers,
            specs,
            self._node_spec,
            log_dirs,
            view=self.view,
            links=self.links,
            record=self.record,
            session_timeout_ms=self._session_timeout_ms,
        )

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Its own, and nothing of the runtime's, which runs proxies only. Of links there are the
        clients': what needs others was left out of the plan (`harness.sut.external.here`)."""
        return self._system.capabilities | {Capability.LINKS}

    def owns(self, topic: str) -> bool:
        return self.own.owns(topic)

    # -- life -----------------------------------------------------------------------------------

    def _start(self) -> None:
        self.dir.mkdir(parents=True, exist_ok=True)
        assert self._frames is not None
        toxiproxy = self.runtime.spawn(self._layout.toxiproxy)
        frames = self.runtime.spawn(self._frames.spec)
        toxiproxy.wait_ready()
        frames.wait_ready()
        self.links.open()
        if self._client is not None:
            self._cleanup.callback(self._client.close)
            self._cleanup.callback(self._client.stop)
            self._client.start(timeout=_SESSION_S)
        self._watch_health(None, toxiproxy, frames)
        try:
            for node in self._ids:
                self.nodes.start(node)  # which finds that it runs
        except FaultFailed as e:
            raise ClusterError(str(e)) from e
        self.brokers.watch()
        self._cleanup.callback(self.brokers.stop)
        self.wait_formed(60.0)
        assert self._asked is not None
        shown = ShownWatch(self._asked, self.record)
        shown.start()
        self._cleanup.callback(shown.stop)

    def stop(self) -> None:
        """Leave it as it was found, and end the proxies. Idempotent."""
        try:
            self._cleanup.close()
            if not self._left:
                self._left = True
                self._leave()
        finally:
            super().stop()

    def _leave(self) -> None:
        failed = self.brokers.restore()
        if self.own.names:
            away = len(failed) == len(self._ids)  # they have been waited for long enough
            try:
                failed += delete_topics(self._system.form, self.own.token, once=away)
            except Exception as error:  # whatever it is, somebody's cluster is not as it was
                failed.append(f"topics may be left: {error!r}")
        if not failed:
            self.owed.settled()
        for reason in failed:
            self.record("infra", component="cluster", reason=f"not left as it was: {reason}")
            says = f"biplane: {self._system.name} is not as it was: {reason}; try: biplane clean"
            print(says, file=sys.stderr, flush=True)


def cluster_of(runtime: Runtime, sut: SystemUnderTest, planes: Planes, **settings: Any) -> Cluster:
    """The kind of cluster that a system makes. ``settings``: as of `Cluster`."""
    if isinstance(sut, ExternalSystem):
        return ExternalCluster(runtime, sut, planes, **settings)
    return Cluster(runtime, sut, planes, **settings)
