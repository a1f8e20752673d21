"""Where everything of one cluster will be, decided before anything starts.

Addresses and ports come from the runtime, so that brokers can advertise proxies that do not exist
yet, and proxies can lead to brokers that do not listen yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from faults.protocol import Capability, Link
from harness.runtime.protocol import Address, ProcessSpec, Runtime
from harness.sut.protocol import NodeLayout, Planes, SystemUnderTest

CHROOT: Final = "/kafka"
ZOOKEEPER: Final = "zookeeper"
TOXIPROXY: Final = "toxiproxy"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLayout:
    """Specs of the two services, a layout a node, and the proxies between them."""

    zookeeper: ProcessSpec | None
    """None when the system has no ZooKeeper; its address then as well."""
    toxiproxy: ProcessSpec
    zookeeper_address: Address | None
    toxiproxy_api: Address
    proxies: Mapping[tuple[int, Link], tuple[Address, Address]]
    """(node, link) -> (where the proxy listens, what it leads to)."""
    nodes: Mapping[int, NodeLayout]

    @property
    def told(self) -> dict[int, Address]:
        """Where clients are to be told that each node is: at its proxy."""
        return {node: layout.advertised[Link.CLIENT] for node, layout in self.nodes.items()}


def plan_layout(
    runtime: Runtime,
    sut: SystemUnderTest,
    planes: Planes,
    nodes: Sequence[int],
    *,
    dir: Path,
    session_timeout_ms: int,
    extras: Mapping[str, str],
) -> ClusterLayout:
    """Allocate every port. Nodes have a CONTROL listener with dual planes only."""
    zookeeper: ProcessSpec | None = None
    zookeeper_address: Address | None = None
    if Capability.ZOOKEEPER in sut.capabilities:
        zookeeper = runtime.zookeeper_spec(ZOOKEEPER, dir / ZOOKEEPER)
        zookeeper_address = Address(runtime.address(ZOOKEEPER), zookeeper.ports["client"])
    toxiproxy = runtime.toxiproxy_spec(TOXIPROXY, dir / TOXIPROXY)
    proxies: dict[tuple[int, Link], tuple[Address, Address]] = {}

    def proxy(node: int, link: Link, upstream: Address) -> Address:
        port = runtime.allocate_port(TOXIPROXY)
        listen = Address(runtime.address(TOXIPROXY), port)
        proxies[node, link] = (listen, upstream)
        return listen

    listeners = [Link.INTER_BROKER, Link.CLIENT]
    if planes is Planes.DUAL:
        listeners.insert(0, Link.CONTROL)
    names = {node: f"node-{node}" for node in nodes}
    directs = {
        node: {
            link: Address(runtime.address(name), runtime.allocate_port(name)) for link in listeners
        }
        for node, name in names.items()
    }
    peers = {
        node: {link: proxy(node, link, address) for link, address in direct.items()}
        for node, direct in directs.items()
    }
    layouts = {}
    for node, name in names.items():
        direct = directs[node]
        zookeeper_way = ""
        if zookeeper_address is not None:
            zookeeper_way = f"{proxy(node, Link.ZOOKEEPER, zookeeper_address)}{CHROOT}"
        layouts[node] = NodeLayout(
            node=node,
            name=name,
            dir=dir / name,
            bind={link: Address(runtime.bind_host(name), a.port) for link, a in direct.items()},
            direct=direct,
            advertised=peers[node],
            peers=peers,
            zookeeper=zookeeper_way,
            programs=runtime.programs,
            nodes=tuple(nodes),
            session_timeout_ms=session_timeout_ms,
            extras=extras,
        )
    return ClusterLayout(
        zookeeper=zookeeper,
        toxiproxy=toxiproxy,
        zookeeper_address=zookeeper_address,
        toxiproxy_api=Address(runtime.address(TOXIPROXY), toxiproxy.ports["api"]),
        proxies=proxies,
        nodes=layouts,
    )
