"""Listeners: where a broker can be reached, and the rules that keep their configuration sound.

A listener is ``NAME://host:port``. Its name chooses the security protocol (through
``listener.security.protocol.map``) and the plane: the one that ``control.plane.listener.name``
names belongs to the control plane (KIP-291), all others to the data plane. The numbers in the
docstrings below are those of the validation list in the reference sheet (section 1).

Names are upper-cased once, here, and compared upper-cased everywhere: Kafka compares the raw
control-plane name with upper-cased ones in one place, so that ``controller`` passes its validation
and then binds twice.

What is given counts, even if it is empty: an empty ``control.plane.listener.name`` is a blank name
and refused; only one that is not there means "none".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from nodes.properties import split, trim

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SERVED_PROTOCOLS: Final = ("PLAINTEXT",)
"""What this broker can speak; the others are known by name only, and refused when bound."""

_LINE_ENDS = r"\n\r\u0085\u2028\u2029"  # where the dot of a Java pattern stops
_LISTENER = re.compile(rf"([^{_LINE_ENDS}]*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
_MOST_DIGITS: Final = 1000
"""Of a port; nearly all of them zeros. (Python reads no number of more than some thousands.)"""


class ConfigError(ValueError):
    """A configuration that a broker refuses to start with; names file, config, allowed values."""

    def __init__(self, config: str, problem: str, allowed: str = "", *, file: str = "") -> None:
        self.config = config
        self.problem = problem
        self.allowed = allowed
        self.file = file
        where = f"{file}: " if file else ""
        hint = f"; allowed: {allowed}" if allowed else ""
        super().__init__(f"{where}config '{config}': {problem}{hint}")

    def in_file(self, file: str) -> ConfigError:
        return ConfigError(self.config, self.problem, self.allowed, file=file)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One listener. An empty host is the wildcard; port 0 becomes the bound port at start."""

    name: str
    security_protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"

    def with_port(self, port: int) -> Endpoint:
        return Endpoint(self.name, self.security_protocol, self.host, port)


def normalised(config: str, name: str) -> str:
    """Kafka's ListenerName.normalised: upper-cased, and not blank. Nothing is stripped."""
    if not trim(name):
        raise ConfigError(config, "blank listener name", "the name of a listener")
    return name.upper()


def parse_protocol_map(value: str) -> dict[str, str]:
    """``listener.security.protocol.map``; each entry splits at its last colon. An empty entry is no
    entry at the end only. Of a name that comes again the last entry counts, and what the earlier
    ones say is not looked at (Kafka's Csv.parseCsvMap). A name in two spellings with two protocols
    is refused: which of them Kafka takes is up to the order of a hash table."""
    config = "listener.security.protocol.map"
    spelled: dict[str, str] = {}
    for entry in split(value):
        name, colon, protocol = entry.rpartition(":")
        if not colon:
            raise ConfigError(config, f"entry {entry!r} is not NAME:PROTOCOL")
        spelled[trim(name)] = trim(protocol).upper()
    protocols: dict[str, str] = {}
    for spelling, protocol in spelled.items():
        name = normalised(config, spelling)
        if protocol not in SECURITY_PROTOCOLS:
            raise ConfigError(
                config, f"unknown security protocol {protocol!r}", ", ".join(SECURITY_PROTOCOLS)
            )
        if protocols.setdefault(name, protocol) != protocol:
            raise ConfigError(
                config, f"{name} is {protocols[name]} and {protocol}", "one entry for each listener"
            )
    return protocols


def parse_listeners(config: str, value: str, protocols: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """Rules 1 and 2: the form of each entry, and every name in the protocol map."""
    return tuple(_parse_listener(config, entry, protocols) for entry in split_list(value))


def _parse_listener(config: str, entry: str, protocols: Mapping[str, str]) -> Endpoint:
    match = _LISTENER.fullmatch(entry)
    if match is None:
        raise ConfigError(config, f"cannot parse listener {entry!r}", "NAME://host:port")
    name = normalised(config, match.group(1))
    digits = match.group(3)
    port = int(digits) if len(digits) <= _MOST_DIGITS else -1
    if not 0 <= port <= 65535:
        raise ConfigError(config, f"port {digits} in {entry!r} is out of range", "0 to 65535")
    if name not in protocols:
        raise ConfigError(
            config,
            f"no security protocol is defined for listener {name}",
            f"names in listener.security.protocol.map: {', '.join(protocols) or 'none'}",
        )
    return Endpoint(name, protocols[name], match.group(2), port)


def check_unique(config: str, endpoints: Sequence[Endpoint], *, ports: bool) -> None:
    """Rule 3. The same nonzero port twice is allowed for one IPv4 and one IPv6 literal only."""
    if not endpoints:
        raise ConfigError(config, "at least one listener is required", "NAME://host:port")
    names = [endpoint.name for endpoint in endpoints]
    if len(set(names)) != len(names):
        raise ConfigError(config, f"each listener must have a different name, got {names}")
    if not ports:
        return
    by_port: dict[int, list[Endpoint]] = {}
    for endpoint in endpoints:
        if endpoint.port:
            by_port.setdefault(endpoint.port, []).append(endpoint)
    for port, sharing in by_port.items():
        if len(sharing) > 1 and not _one_of_each_family(sharing):
            raise ConfigError(
                config,
                f"port {port} is used by {', '.join(map(str, sharing))}",
                "different ports, or exactly one IPv4 and one IPv6 address on one port",
            )


def _one_of_each_family(endpoints: Sequence[Endpoint]) -> bool:
    def family(host: str) -> type | None:
        try:
            return type(ip_address(host))
        except ValueError:
            return None

    families = [family(endpoint.host) for endpoint in endpoints]
    return len(families) == 2 and set(families) == {IPv4Address, IPv6Address}


def check_advertised(
    advertised: Sequence[Endpoint], listeners: Sequence[Endpoint], inter_broker: str
) -> None:
    """Rule 5."""
    config = "advertised.listeners"
    check_unique(config, advertised, ports=False)
    bound = {endpoint.name for endpoint in listeners}
    names = {endpoint.name for endpoint in advertised}
    if not names <= bound:
        raise ConfigError(
            config,
            f"not among the listeners: {', '.join(sorted(names - bound))}",
            f"a subset of {', '.join(sorted(bound))}",
        )
    if inter_broker not in names:
        raise ConfigError(
            "inter.broker.listener.name",
            f"{inter_broker} is not an advertised listener",
            ", ".join(sorted(names)),
        )
    for endpoint in advertised:
        if endpoint.host == "0.0.0.0":
            raise ConfigError(
                config, f"{endpoint} uses the nonroutable address 0.0.0.0", "a routable address"
            )


def check_control_plane(
    name: str, advertised: Iterable[Endpoint], protocols: Mapping[str, str], inter_broker: str
) -> str:
    """Rule 6; the name upper-cased."""
    config = "control.plane.listener.name"
    name = normalised(config, name)
    if name not in protocols:
        raise ConfigError(
            config,
            f"no security protocol is defined for listener {name}",
            f"names in listener.security.protocol.map: {', '.join(protocols)}",
        )
    names = [endpoint.name for endpoint in advertised]
    if name not in names:
        raise ConfigError(config, f"{name} is not an advertised listener", ", ".join(names))
    if name == inter_broker:
        raise ConfigError(
            config,
            f"{name} is the inter-broker listener as well",
            "a listener other than inter.broker.listener.name",
        )
    return name


def check_served(endpoints: Iterable[Endpoint]) -> None:
    """This broker has no TLS and no SASL: better refused at start than misread on the wire."""
    for endpoint in endpoints:
        if endpoint.security_protocol not in SERVED_PROTOCOLS:
            raise ConfigError(
                "listeners",
                f"{endpoint} uses {endpoint.security_protocol}, which this broker does not speak",
                ", ".join(SERVED_PROTOCOLS),
            )


def split_list(value: str) -> list[str]:
    """A comma-separated list without blanks (Kafka's Csv.parseCsvList)."""
    return [entry for entry in split(trim(value)) if entry]
