"""Placeholders in a description's texts: ``{{client.bind}}`` and its like.

    node, nodes, name, dir          its id, how many there are, its process name, its folder
    <link>.bind, .advertised        host:port that it binds, and that it must tell others (a proxy)
    <link>.direct                   host:port of the listener itself, past the proxy
    metrics.bind                    host:port at which it serves metrics, where its file has some
    each of these with .host, .port the two apart
    zookeeper                       host:port/chroot through the node's own proxy
    cluster-id                      22 characters, the same for all nodes of a cluster
    session-timeout-ms              after which a silent node is to be given up
    home, here                      .biplane, and the description's own folder
    java, python                    interpreters
    in a list: peer, peer.<link>    another node's id, and what it advertises (with .host, .port)

``{{`` that begins no placeholder is written ``{{{{``. Pure.
"""

from __future__ import annotations

import base64
import difflib
import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Final

from harness.runtime.protocol import Address

_PLACE: Final = re.compile(r"\{\{\{\{|\{\{\s*([^{}]*?)\s*\}\}|\{\{")


class UnknownPlaceholder(ValueError):
    """The message names what is allowed."""


def fill(text: str, values: Mapping[str, str]) -> str:
    """``text`` with every placeholder in its place. Raises `UnknownPlaceholder`."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "{{{{":
            return "{{"
        name = match[1]
        if name is None:
            raise UnknownPlaceholder(f"'{{{{' without its '}}}}' in {text[:60]!r}")
        if name not in values:
            near = difflib.get_close_matches(name, values, n=1)
            meant = f" (did you mean {near[0]}?)" if near else ""
            allowed = ", ".join(sorted(values))
            raise UnknownPlaceholder(f"{{{{{name}}}}} is no placeholder{meant}; allowed: {allowed}")
        return values[name]

    return _PLACE.sub(value, text)


def address_names(prefix: str, address: Address) -> dict[str, str]:
    """``prefix``, ``prefix.host``, ``prefix.port``."""
    return {
        prefix: str(address),
        f"{prefix}.host": address.host,
        f"{prefix}.port": str(address.port),
    }


def cluster_id(seed: str) -> str:
    """As Kafka writes one: 22 characters of URL-safe base64 that do not begin with a dash."""
    for turn in range(64):
        unique = uuid.uuid5(uuid.NAMESPACE_URL, f"{seed}#{turn}")
        text = base64.urlsafe_b64encode(unique.bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text
    raise AssertionError("64 hashes in a row that begin with a dash")


def joined(each: str, join: str, peers: Iterable[Mapping[str, str]]) -> str:
    """A list of all nodes: ``each`` filled for one after the other."""
    return join.join(fill(each, values) for values in peers)


def names_of(links: Iterable[str], *, zookeeper: bool, metrics: bool = False) -> list[str]:
    """Every placeholder that a text of a node may hold, before what its file names itself."""
    plain = ["node", "nodes", "name", "dir", "home", "here", "java", "python"]
    plain += ["cluster-id", "session-timeout-ms", *(["zookeeper"] if zookeeper else [])]
    ways = [f"{link}.{way}" for link in links for way in ("bind", "advertised", "direct")]
    ways += ["metrics.bind"] if metrics else []
    return [*plain, *(name for way in ways for name in _three(way))]


def peer_names(links: Iterable[str]) -> list[str]:
    """What is added in a list, for one node of it."""
    return ["peer", *(name for link in links for name in _three(f"peer.{link}"))]


def _three(prefix: str) -> tuple[str, str, str]:
    return prefix, f"{prefix}.host", f"{prefix}.port"
