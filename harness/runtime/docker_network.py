"""One private bridge network for a cluster, and an address in it for every name.

The network is *internal*: nothing leads out of it and nothing is published. The host itself reaches
containers at their own addresses, which unlike published ports are faithful: behind the engine's
userland proxy a reset reads as an end of stream, and a refused connection as a reset.

Addresses are decided before a container exists, by the order in which names are asked for, and are
given again after a detachment: a container reattached without its address would get another, and
every open connection would die instead of going on.
"""

from __future__ import annotations

import ipaddress
import random
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final

from docker.types import IPAMConfig, IPAMPool

from harness.runtime.docker_engine import EngineFailed, Owner, engine_errors
from harness.runtime.protocol import RuntimeFailed, SetupError

_FIRST_HOST: Final = 10
_TRIES: Final = 40


class PrivateNetwork:
    """`create`, then ask. Thread-safe."""

    def __init__(self, client: Any, owner: Owner, name: str) -> None:
        self.name: Final = name
        self._api: Final = client.api
        self._owner = owner
        self._lock = Lock()
        self._subnet: ipaddress.IPv4Network | None = None
        self._addresses: dict[str, str] = {}

    def create(self) -> None:
        """Idempotent. Draws a subnet that neither the host's routes nor the engine use."""
        with self._lock:
            if self._subnet is not None:
                return
            rng = random.Random(secrets.token_bytes(8))  # two harnesses must not draw the same
            refused = "every subnet that was tried overlaps with a route of this host"
            taken = host_routes(Path("/proc/net/route").read_text())
            for _ in range(_TRIES):
                subnet = ipaddress.IPv4Network(
                    f"10.{rng.randrange(200, 250)}.{rng.randrange(256)}.0/24"
                )
                if any(subnet.overlaps(route) for route in taken):
                    continue
                try:
                    self._create(subnet)
                except EngineFailed as e:
                    refused = str(e)
                    if "overlap" not in refused.lower():
                        break
                else:
                    self._subnet = subnet
                    return
            raise SetupError(f"no private network ({refused}); see: docker network ls")

    def _create(self, subnet: ipaddress.IPv4Network) -> None:
        with engine_errors(f"creating the network {self.name}"):
            self._api.create_network(
                self.name,
                driver="bridge",
                internal=True,
                check_duplicate=True,
                labels=self._owner.labels,
                ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet))]),
            )

    def address(self, name: str) -> str:
        with self._lock:
            if self._subnet is None:
                raise RuntimeFailed("the runtime is not prepared: there is no network yet")
            if name not in self._addresses:
                number = _FIRST_HOST + len(self._addresses)
                self._addresses[name] = str(self._subnet[number])
            return self._addresses[name]

    def endpoint(self, name: str) -> Any:
        """The networking part of a container's creation."""
        return self._api.create_networking_config(
            {
                self.name: self._api.create_endpoint_config(
                    ipv4_address=self.address(name), aliases=[name]
                )
            }
        )

    def detach(self, name: str, container: str) -> None:
        with engine_errors(f"disconnecting {name} from the network"):
            self._api.disconnect_container_from_network(container, self.name, force=True)

    def attach(self, name: str, container: str) -> None:
        """With the address and the alias that it had."""
        with engine_errors(f"connecting {name} to the network again"):
            self._api.connect_container_to_network(
                container, self.name, ipv4_address=self.address(name), aliases=[name]
            )

    def is_attached(self, name: str, container: str) -> bool:
        with engine_errors(f"looking at the network of {name}"):
            networks = self._api.inspect_container(container)["NetworkSettings"]["Networks"]
        return self.name in networks

    def remove(self) -> None:
        """Idempotent."""
        with self._lock:
            if self._subnet is not None:
                with engine_errors(f"removing the network {self.name}"):
                    self._api.remove_network(self.name)
                self._subnet = None


def host_routes(table: str) -> list[ipaddress.IPv4Network]:
    """The networks of ``/proc/net/route``, without the default route."""
    return list(_routes(table.splitlines()[1:]))


def _routes(lines: Iterable[str]) -> Iterable[ipaddress.IPv4Network]:
    for line in lines:
        fields = line.split()
        with suppress(IndexError, ValueError):
            destination, mask = (
                ipaddress.IPv4Address(bytes.fromhex(fields[at])[::-1]) for at in (1, 7)
            )
            if int(mask):
                yield ipaddress.IPv4Network(f"{destination}/{mask}", strict=False)
