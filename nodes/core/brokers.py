"""Who a broker is: its id and where it can be reached (Kafka's Broker and EndPoint)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nodes.core.errors import ApiError, Errors


@dataclass(frozen=True, slots=True)
class EndPoint:
    """One advertised listener. `listener` is its upper-case name, as in the configuration."""

    listener: str
    security_protocol: str
    host: str
    port: int

    @property
    def connection_string(self) -> str:
        """As Kafka writes it into the registration: ``NAME://host:port``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker as registered. Equal brokers have equal endpoints: a bounce is told by the epoch."""

    id: int
    endpoints: tuple[EndPoint, ...]
    rack: str | None = None

    def endpoint(self, listener: str) -> EndPoint | None:
        """Where the broker can be reached through a listener, None when it does not have it."""
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint
        return None


def check_endpoints_are_free(own: Broker, registered: Iterable[Broker]) -> None:
    """Refuse an advertised host:port that another broker has registered (KafkaServer does so)."""
    taken: Mapping[tuple[str, int], int] = {
        (endpoint.host, endpoint.port): broker.id
        for broker in registered
        if broker.id != own.id
        for endpoint in broker.endpoints
    }
    for endpoint in own.endpoints:
        holder = taken.get((endpoint.host, endpoint.port))
        if holder is not None:
            raise ApiError(
                Errors.INVALID_REQUEST,
                f"advertised.listeners: {endpoint.connection_string} is in use by broker {holder}; "
                "each broker needs host:port pairs of its own",
            )
