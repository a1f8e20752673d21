"""The brokers' places, as faults see them: nodes, not process names; links, not ports.

Brokers dial each other through toxiproxy, so a packet from one to another passes toxiproxy's
network namespace: that is where a pair is cut apart, on the ports of the peer's proxies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from faults.protocol import Capability, FaultFailed, Link, Links, Usage
from harness.runtime.protocol import Address, Isolation, Runtime, RuntimeFailed

T = TypeVar("T")

_LISTENERS: Final = (Link.CLIENT, Link.INTER_BROKER, Link.CONTROL)


class NodeMachines:
    """Implements `faults.protocol.Machines` on whatever the runtime offers. Thread-safe."""

    def __init__(
        self, runtime: Runtime, names: Mapping[int, str], proxies: str, links: Links
    ) -> None:
        """``names``: the nodes' processes; ``proxies``: toxiproxy's."""
        self._runtime = runtime
        self._names = dict(names)
        self._proxies = proxies
        self._links = links

    def disconnect(self, node: int) -> None:
        self._do(Capability.NETWORK_DETACH, lambda place: place.detach(self._name(node)))

    def reconnect(self, node: int) -> None:
        self._do(Capability.NETWORK_DETACH, lambda place: place.attach(self._name(node)))

    def cut(self, node: int, peer: int) -> None:
        ports = self._ports(peer)
        name = self._name(node)
        self._do(Capability.PACKET_CUTS, lambda place: place.cut(self._proxies, name, ports))

    def mend(self, node: int, peer: int) -> None:
        ports = self._ports(peer)
        name = self._name(node)
        self._do(Capability.PACKET_CUTS, lambda place: place.mend(self._proxies, name, ports))

    def reaches(self, node: int, peer: int, timeout_s: float) -> bool:
        address = Address(*self._links.address(peer, Link.INTER_BROKER))
        name = self._name(node)
        return self._do(
            Capability.PACKET_CUTS, lambda place: place.reaches(name, address, timeout_s)
        )

    def limit_cpus(self, node: int, cpus: float | None) -> None:
        name = self._name(node)
        self._do(Capability.RESOURCE_LIMITS, lambda place: place.limit_cpus(name, cpus))

    def limit_memory(self, node: int, memory_bytes: int | None) -> None:
        name = self._name(node)
        self._do(Capability.RESOURCE_LIMITS, lambda place: place.limit_memory(name, memory_bytes))

    def usage(self, node: int) -> Usage:
        return self._do(Capability.RESOURCE_LIMITS, lambda place: place.usage(self._name(node)))

    def fill_disk(self, node: int) -> int:
        return self._do(Capability.BOUNDED_DISK, lambda place: place.fill_disk(self._name(node)))

    def free_disk(self, node: int) -> None:
        self._do(Capability.BOUNDED_DISK, lambda place: place.free_disk(self._name(node)))

    def disk_free_bytes(self, node: int) -> int:
        return self._do(
            Capability.BOUNDED_DISK, lambda place: place.disk_free_bytes(self._name(node))
        )

    def _ports(self, node: int) -> list[int]:
        """Of the node's proxies; without a control listener its link is the inter-broker one."""
        return sorted({self._links.address(node, link)[1] for link in _LISTENERS})

    def _name(self, node: int) -> str:
        if node not in self._names:
            raise FaultFailed(f"no node {node}; allowed: {', '.join(map(str, self._names))}")
        return self._names[node]

    def _do(self, needed: Capability, action: Callable[[Isolation], T]) -> T:
        runtime = self._runtime
        if needed not in runtime.capabilities or not isinstance(runtime, Isolation):
            raise FaultFailed(f"the {runtime.name} runtime lacks {needed}")
        try:
            return action(runtime)
        except RuntimeFailed as e:
            raise FaultFailed(str(e)) from e
