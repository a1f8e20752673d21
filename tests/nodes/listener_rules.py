"""Random configurations of listeners, and Kafka's rules for them written out a second time.

`draw_properties` makes configurations that are lawful, nearly lawful and nonsense. `ruling` says
what Kafka 3.9 makes of one. It is written from Kafka's rules (the validation list of the reference
sheet: SocketServerConfigs, CoreUtils.listenerListToEndPoints, KafkaConfig.validateValues), not from
this broker's code; `test_listener_rules` holds both against Kafka's own class.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
DEFAULT_MAP = ",".join(f"{name}:{name}" for name in PROTOCOLS)
LEGACY = ("host.name", "port", "advertised.host.name", "advertised.port")

Choose = Callable[[Sequence[Any]], Any]
"""One of a sequence: `random.Random.choice`, or a draw of hypothesis."""
Properties = dict[str, str]

# ---- configurations ------------------------------------------------------------------------------

_NAMES = ("PLAINTEXT", "CONTROLLER", "REPLICATION", "CLIENT")
_ODD_NAMES = (
    *("client", "Controller", "plaintext", "REPLICATION ", "A B", "a.b", "SSL", "SASL_SSL"),
    *("UNKNOWN", "", " ", "A:B", "A\nB", "A\u0085B", "x://y", "ß"),
)
_HOSTS = ("", "localhost", "127.0.0.1", "127.0.0.2", "[::1]", "h-1.example.org")
_ODD_HOSTS = (
    *("::1", "[::]", "0.0.0.0", "[0.0.0.0]", "00.0.0.0", "[fe80::1%eth0]", "[::ffff:1.2.3.4]"),
    *("a_b", "01.2.3.4", "256.1.1.1", "1.2.3", "[1:2:3:4:5:6:7:8]", "[1::2::3]", "[::1", "::1]"),
    *("h/x", "ho st", "é", "[[::1]]", " ", "h:1", "-", "%", "2130706433"),
)
_PORTS = ("0", "1", "2", "9092", "9093", "9094", "65535")
_ODD_PORTS = (
    *("65536", "70000", "-1", "-0", "2147483647", "2147483648", "-2147483649", "9" * 20),
    *("", "x", "9092x", "9092 x", "1/2", "+1", "0x1", "00009092", "1\n", "1 2", "9092;", "٣"),
)
_COMMAS = (",", ",", ",", ",", " , ", ", ", ",,", "\t,", ",\n", " ,,", "\u00a0,")
_ENDS = ("", "", "", "", "", "", " ", ",", " ,", "\t", "\u00a0", "\x1f")
_MAPS = (
    "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,REPLICATION:PLAINTEXT,CLIENT:PLAINTEXT",
    "plaintext:plaintext, controller : PLAINTEXT,Replication:Plaintext,client:PLAINTEXT",
    f"{DEFAULT_MAP},CONTROLLER:PLAINTEXT,REPLICATION:PLAINTEXT,CLIENT:PLAINTEXT",
    "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,REPLICATION:PLAINTEXT,CLIENT:PLAINTEXT,A B:PLAINTEXT",
    "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,REPLICATION:PLAINTEXT,CLIENT:PLAINTEXT,A:B:PLAINTEXT",
    "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,REPLICATION:PLAINTEXT,CLIENT:SSL",
)
_ODD_MAPS = (
    *("", " ", ",", "CLIENT", ":PLAINTEXT", "CLIENT:", "CLIENT:TELNET", "CLIENT:PLAINTEXT,,"),
    *(",CLIENT:PLAINTEXT", "CLIENT:PLAINTEXT,,PLAINTEXT:PLAINTEXT", " :PLAINTEXT", "CLIENT : SSL"),
    "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT,REPLICATION:PLAINTEXT,CLIENT:PLAINTEXT",
    "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,REPLICATION:PLAINTEXT,CLIENT:SASL_SSL",
    "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,REPLICATION:PLAINTEXT,CLIENT:PLAINTEXT,SS:SSL",
    "PLAINTEXT:SSL,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,REPLICATION:PLAINTEXT,CLIENT:PLAINTEXT",
    "CONTROLLER:TELNET,PLAINTEXT:PLAINTEXT, CONTROLLER :PLAINTEXT,REPLICATION:PLAINTEXT,CLIENT:SSL,"
    "CLIENT:PLAINTEXT",
    "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,REPLICATION:PLAINTEXT,CLIENT:PLAINTEXT,CLIENT:TELNET",
)
_PROTOCOL_VALUES = ("PLAINTEXT", "PLAINTEXT", "plaintext", "SSL", "", " PLAINTEXT ", "TELNET")


class Refused(Exception):
    """By which rule; the text is for the reader of a failed test."""


def draw_properties(choose: Choose) -> Properties:
    """One configuration; what is left out is unset. Half are drawn to be lawful, but for oddities
    here and there; the others are whatever comes."""
    properties: Properties = {}
    careful = choose((True, True, False))
    oddities = choose((False, False, True))
    shares_ports = oddities and choose((False, True))

    def one_of(common: Sequence[str], odd: Sequence[str]) -> str:
        is_odd = oddities and choose((False,) * 9 + (True,))
        return str(choose(odd if is_odd else common))

    def joined(entries: Sequence[str]) -> str:
        text = entries[0] if entries else ""
        for each in entries[1:]:
            text += (choose(_COMMAS) if oddities else ",") + each
        return (choose(_ENDS) + text + choose(_ENDS)) if oddities else text

    def listed(names: Sequence[str]) -> str:
        ports = list(_PORTS[1:3] if shares_ports else _PORTS)
        entries = []
        for name in names:
            port = one_of(ports, _ODD_PORTS)
            if careful and not shares_ports and port in ports:
                ports.remove(port)
            entries.append(f"{name}://{one_of(_HOSTS, _ODD_HOSTS)}:{port}")
        return joined(entries)

    names = [one_of(_NAMES, _ODD_NAMES) for _ in range(choose((1, 2, 2, 3, 3, 4)))]
    if careful:
        names = list(dict.fromkeys(names))
    inter_broker = names[0] if careful else one_of(names, _ODD_NAMES)
    controls = names[1:] if careful else [*names, ""]
    control = choose(controls) if controls and choose((True, False)) else None
    if choose((True, True, True, True, False)):
        properties["listeners"] = listed(names)
    if choose((True, False, False)):
        kept = {inter_broker, control} if careful else set()
        told = [name for name in names if name in kept or choose((True, True, False))]
        properties["advertised.listeners"] = listed(told)
    if careful or choose((True, False)):
        protocol_map = one_of(_MAPS, _ODD_MAPS)
        if oddities and choose((False, False, True)):
            protocol_map = protocol_map.replace(",", choose(_COMMAS), 1)
        properties["listener.security.protocol.map"] = protocol_map
    if careful or choose((True, False)):
        properties["inter.broker.listener.name"] = inter_broker
    if choose((False, False, False, False, True) if careful else (True, False)):
        properties["security.inter.broker.protocol"] = choose(_PROTOCOL_VALUES)
        if choose((True, False)):
            properties.pop("inter.broker.listener.name", None)
    if control is not None:
        is_lower = choose((False, False, False, True))
        properties["control.plane.listener.name"] = control.lower() if is_lower else control
    if choose((False, False, False, False, False, False, False, True)):
        properties["controller.listener.names"] = choose(("", " ", ",", "CLIENT", ",CLIENT", "A,B"))
    if choose((True, False, False, False, False)):
        for name in LEGACY:
            values = _HOSTS[:4] if name.endswith("name") else (*_PORTS, "65536", "-1", "x")
            if choose((True, False)):
                properties[name] = choose(values)
    return properties


def modern(properties: Mapping[str, str]) -> Properties:
    """Without the configs of Kafka up to 2.8, as KIP-291's chart derives the later from them. Its
    ports are numbers, used or not; raises `Refused`."""
    kept = {name: value for name, value in properties.items() if name not in LEGACY}
    old = {name: properties[name] for name in LEGACY if name in properties}
    if "x" in (old.get("port"), old.get("advertised.port")):
        raise Refused("a port that is no number")
    host, port = old.get("host.name", ""), old.get("port", "9092")
    if "listeners" not in kept:
        kept["listeners"] = f"PLAINTEXT://{host}:{port}"
    if "advertised.listeners" not in kept and {"advertised.host.name", "advertised.port"} & set(
        old
    ):
        host = old.get("advertised.host.name", host)
        port = old.get("advertised.port", port)
        kept["advertised.listeners"] = f"PLAINTEXT://{host}:{port}"
    return kept


# ---- rules ---------------------------------------------------------------------------------------


Row = tuple[str, str, str, int]
"""(listener name, security protocol, host or "", port)."""


@dataclass(frozen=True)
class Ruling:
    """What becomes of a lawful configuration."""

    listeners: list[Row]
    advertised: list[Row]
    inter_broker: str
    control_plane: str | None


def ruling(properties: Mapping[str, str]) -> Ruling:
    """Kafka 3.9's; raises `Refused`. Properties that came with Kafka 2.8 and before it ignores."""
    given = {name: _trim(value) for name, value in properties.items()}
    if given.get("controller.listener.names", "").strip(","):
        raise Refused("a listener of KRaft's controllers")
    protocols = _protocol_map(given.get("listener.security.protocol.map", DEFAULT_MAP))
    inter_broker = _inter_broker(given, protocols)
    listeners = _rows(given.get("listeners", "PLAINTEXT://:9092"), protocols)
    _check_ports(listeners)
    advertised = listeners
    if "advertised.listeners" in given:
        advertised = _rows(given["advertised.listeners"], protocols)
    names = {row[0] for row in advertised}
    if not names:
        raise Refused("nothing is advertised")
    if not names <= {row[0] for row in listeners}:
        raise Refused("advertised, but no listener")
    if inter_broker not in names:
        raise Refused("the inter-broker listener is not advertised")
    if any(row[2] == "0.0.0.0" for row in advertised):
        raise Refused("0.0.0.0 is advertised")
    control = _control_plane(given, protocols, names, inter_broker)
    if any(not 0 <= row[3] <= 65535 for row in listeners):
        raise Refused("a port that no socket can be bound to")
    return Ruling(listeners, advertised, inter_broker, control)


def _trim(text: str) -> str:
    """Java's String.trim: whatever is not above the space."""
    while text and text[0] <= " ":
        text = text[1:]
    while text and text[-1] <= " ":
        text = text[:-1]
    return text


def _normalised(name: str) -> str:
    if not _trim(name):
        raise Refused("a blank listener name")
    return name.upper()


def _split(text: str) -> list[str]:
    """Java's split: without the empty ones at the end."""
    parts = re.split("[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*", text)
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _protocol_map(text: str) -> dict[str, str]:
    as_spelled = {}
    for entry in _split(text) if text else []:
        if ":" not in entry:
            raise Refused("an entry of the map without a colon")
        at = entry.rindex(":")
        as_spelled[_trim(entry[:at])] = _trim(entry[at + 1 :]).upper()
    if not set(as_spelled.values()) <= set(PROTOCOLS):
        raise Refused("a security protocol that there is not")
    return {_normalised(name): protocol for name, protocol in as_spelled.items()}


def _rows(text: str, protocols: Mapping[str, str]) -> list[Row]:
    rows: list[Row] = []
    for entry in filter(None, _split(text) if text else []):
        # The dot of a Java pattern stops at every line terminator that Unicode knows.
        form = r"([^\n\r\u0085\u2028\u2029]*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)"
        match = re.fullmatch(form, entry)
        if match is None:
            raise Refused(f"{entry!r} is no listener")
        name, port = _normalised(match[1]), int(match[3])
        if not -(2**31) <= port < 2**31:
            raise Refused("a port that is no int")
        if name not in protocols:
            raise Refused("a listener that is not in the map")
        rows.append((name, protocols[name], match[2], port))
    if len({row[0] for row in rows}) != len(rows):
        raise Refused("a name twice")
    return rows


def _check_ports(rows: Sequence[Row]) -> None:
    for port in {row[3] for row in rows} - {0}:
        hosts = [row[2] for row in rows if row[3] == port]
        if len(hosts) > 1 and sorted(map(_family, hosts)) != [4, 6]:
            raise Refused("a port twice, and not once for each family of addresses")


def _family(host: str) -> int:
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0


def _inter_broker(given: Mapping[str, str], protocols: Mapping[str, str]) -> str:
    protocol = given.get("security.inter.broker.protocol", "PLAINTEXT")
    if protocol not in PROTOCOLS:
        raise Refused("a protocol between brokers that there is not, in this very case")
    if "inter.broker.listener.name" not in given:
        return protocol
    if "security.inter.broker.protocol" in given:
        raise Refused("both inter-broker configs")
    name = _normalised(given["inter.broker.listener.name"])
    if name not in protocols:
        raise Refused("the inter-broker listener is not in the map")
    return name


def _control_plane(
    given: Mapping[str, str], protocols: Mapping[str, str], names: set[str], inter_broker: str
) -> str | None:
    if "control.plane.listener.name" not in given:
        return None
    name = _normalised(given["control.plane.listener.name"])
    if name not in protocols or name not in names:
        raise Refused("the control-plane listener is not advertised")
    if name == inter_broker:
        raise Refused("the control-plane listener is the inter-broker one")
    return name
