"""Network faults against a listener that answers and a proxy that really does what it is told.

The proxy is this test's own (one thread); the fault looks through it with real sockets.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from faults import build
from faults.network import TOXICS
from faults.probe import probe
from faults.protocol import FaultFailed, Link

ANSWER = b"\0\0\0\x0a\0\0\0\0\0\0\0\0\0\0"


class Proxy:
    """A listener that answers any request with an (empty) ApiVersions answer, toxics applied."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.toxics: dict[str, dict[str, Any]] = {}
        self.on = True
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), connection:
                if not self.on:
                    continue
                connection.recv(4096)
                kinds = {toxic["kind"]: toxic["attributes"] for toxic in self.toxics.values()}
                if "latency" in kinds:
                    time.sleep(kinds["latency"]["latency"] / 1000)
                if "timeout" in kinds or "reset_peer" in kinds:
                    continue
                limit = kinds.get("limit_data", {}).get("bytes", len(ANSWER))
                connection.sendall(ANSWER[:limit])

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self._thread.join()


@pytest.fixture(autouse=True)
def patient_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the answer of a link that works must not count as lost."""
    monkeypatch.setattr("faults.network._PROBE_S", 60.0)
    monkeypatch.setattr("faults.network._SEEN_MS", 60_000)


@pytest.fixture
def proxy(ctx: Any) -> Iterator[Proxy]:
    made = Proxy()
    cluster = ctx.cluster
    cluster.addresses = {(2, link): made.address for link in Link}

    def add_toxic(node: int, link: Link, *, name: str, **toxic: Any) -> None:
        made.toxics[name] = toxic

    def remove_toxic(node: int, link: Link, *, name: str) -> None:
        del made.toxics[name]

    cluster.add_toxic, cluster.remove_toxic = add_toxic, remove_toxic
    cluster.disable = lambda node, link: setattr(made, "on", False)
    cluster.enable = lambda node, link: setattr(made, "on", True)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("kind", "attributes", "seen"),
    [
        ("latency", {"latency": 30, "jitter": 0}, True),
        ("timeout", {"timeout": 100}, True),
        ("reset_peer", {"timeout": 0}, True),
        ("limit_data", {"bytes": 5}, True),
        ("bandwidth", {"rate": 10}, None),
        ("slicer", {"average_size": 10, "size_variation": 1, "delay": 0}, None),
        ("slow_close", {"delay": 10}, None),
    ],
)
def test_a_toxic_is_placed_seen_and_lifted(
    ctx: Any, entry: Any, proxy: Proxy, kind: str, attributes: dict[str, int], seen: bool | None
) -> None:
    fault = build(entry("toxic", target="2", link="client", kind=kind, attributes=attributes))
    fault.inject(ctx)
    (toxic,) = proxy.toxics.values()
    assert toxic["kind"] == kind
    assert toxic["attributes"] == dict(TOXICS[kind]) | attributes
    assert fault.took_hold is seen
    fault.heal(ctx)
    fault.heal(ctx)
    assert not proxy.toxics
    assert probe(proxy.address, timeout_s=60).failure is None


def test_a_toxic_without_effect_fails(
    ctx: Any, entry: Any, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faults.network._SEEN_MS", 30)
    ctx.cluster.add_toxic = lambda *where, **toxic: None
    ctx.cluster.remove_toxic = lambda *where, **toxic: None
    fault = build(entry("toxic", target="2", kind="latency", attributes={"latency": 30_000}))
    with pytest.raises(FaultFailed, match="client link of broker 2"):
        fault.inject(ctx)
    fault.heal(ctx)


def test_a_link_that_is_down(ctx: Any, entry: Any, proxy: Proxy) -> None:
    fault = build(entry("link-down", target="2", link=["inter-broker", "control"]))
    fault.inject(ctx)
    assert fault.took_hold is True
    assert list(fault.detail["probes"]) == ["2:inter-broker"]  # both are one proxy here
    assert not proxy.on
    fault.heal(ctx)
    assert proxy.on


def test_isolation_takes_every_proxy_once(ctx: Any, entry: Any, proxy: Proxy) -> None:
    other = Proxy()
    ctx.cluster.addresses[2, Link.ZOOKEEPER] = other.address
    cut: list[tuple[int, Link]] = []

    def disable(node: int, link: Link) -> None:
        cut.append((node, link))
        proxy.on = other.on = False

    ctx.cluster.disable = disable
    ctx.cluster.enable = lambda node, link: cut.remove((node, link))
    fault = build(entry("isolate", target="2"))
    fault.inject(ctx)
    assert cut == [(2, Link.CLIENT), (2, Link.ZOOKEEPER)]
    fault.heal(ctx)
    assert not cut
    other.close()


def test_a_link_that_was_broken_before_proves_nothing(ctx: Any, entry: Any) -> None:
    ctx.cluster.addresses[2, Link.CLIENT] = ("127.0.0.1", 1)
    fault = build(entry("link-down", target="2", link="client"))
    fault.inject(ctx)
    assert fault.took_hold is None
