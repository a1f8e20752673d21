"""Links through a real toxiproxy server, with an echo server in the node's place."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from faults.protocol import FaultFailed, Link
from harness.links import ToxiproxyLinks
from harness.runtime.process import ProcessRuntime
from harness.runtime.protocol import Address
from harness.runtime.tools import find_toxiproxy

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_toxiproxy() is None, reason="no toxiproxy-server: make setup"),
]

_LATENCY_MS = 120


def _echo(listener: socket.socket) -> None:
    def serve(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(1024):
                connection.sendall(data)

    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


@pytest.fixture
def links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: ProcessRuntime
) -> Iterator[ToxiproxyLinks]:
    # Nothing answers there: whoever obeys it fails.
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    spec = runtime.toxiproxy_spec("toxiproxy", tmp_path / "toxiproxy")
    runtime.spawn(spec).wait_ready()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_echo, args=(listener,), daemon=True).start()
        upstream = Address(*listener.getsockname())
        proxies = {
            (1, link): (Address("127.0.0.1", runtime.allocate_port("toxiproxy")), upstream)
            for link in (Link.CLIENT, Link.INTER_BROKER)
        }
        links = ToxiproxyLinks(
            Address("127.0.0.1", spec.ports["api"]), proxies, bind_host="127.0.0.1"
        )
        links.open()
        yield links


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessRuntime]:
    own = find_toxiproxy()
    assert own is not None
    monkeypatch.setenv("PATH", f"{Path(own).parent}:/usr/bin:/bin")
    monkeypatch.setenv("BIPLANE_HOME", str(tmp_path / "home"))
    with closing(ProcessRuntime()) as runtime:
        yield runtime


def _round_trip_s(address: tuple[str, int]) -> float:
    with socket.create_connection(address, timeout=30) as s:
        start = time.monotonic()
        s.sendall(b"hello")
        if s.recv(5) != b"hello":
            raise ConnectionResetError
        return time.monotonic() - start


def _is_quick(address: tuple[str, int], tries: int = 50) -> bool:
    """Whether a round trip was ever shorter than the toxic makes it: a busy machine may hold up
    many of them, the toxic holds up all."""
    return any(_round_trip_s(address) < _LATENCY_MS / 1000 for _ in range(tries))


def test_toxics_and_switches_take_hold_and_heal(links: ToxiproxyLinks) -> None:
    client = links.address(1, Link.CLIENT)
    assert _is_quick(client)
    assert links.address(1, Link.CONTROL) == links.address(1, Link.INTER_BROKER)
    assert links.address(1, Link.CLIENT, direct=True) != client

    toxic = {"name": "slow", "kind": "latency", "stream": "downstream", "toxicity": 1.0}
    links.add_toxic(1, Link.CLIENT, **toxic, attributes={"latency": _LATENCY_MS, "jitter": 0})
    assert links.toxics(1, Link.CLIENT) == {"slow": "latency"}
    assert _round_trip_s(client) >= _LATENCY_MS / 1000
    assert not _is_quick(client, tries=5)
    assert _is_quick(links.address(1, Link.INTER_BROKER))
    with pytest.raises(FaultFailed, match="exists already"):
        links.add_toxic(1, Link.CLIENT, **toxic, attributes={"latency": 1})
    links.remove_toxic(1, Link.CLIENT, name="slow")
    links.remove_toxic(1, Link.CLIENT, name="slow")
    assert _is_quick(client)

    links.disable(1, Link.CLIENT)
    links.disable(1, Link.CLIENT)
    with pytest.raises(ConnectionRefusedError):
        _round_trip_s(client)
    assert _is_quick(links.address(1, Link.CLIENT, direct=True))
    links.enable(1, Link.CLIENT)
    assert _is_quick(client)

    links.disable(1, Link.INTER_BROKER)
    links.reset()
    assert _is_quick(links.address(1, Link.INTER_BROKER))


def test_what_is_refused_is_named(links: ToxiproxyLinks, runtime: ProcessRuntime) -> None:
    toxic = {"name": "x", "stream": "downstream", "toxicity": 1.0, "attributes": {}}
    with pytest.raises(FaultFailed, match="unknown kind 'slowness'; allowed: latency"):
        links.add_toxic(1, Link.CLIENT, **toxic, kind="slowness")
    with pytest.raises(FaultFailed, match="node 2 has no client link; allowed: 1/client"):
        links.disable(2, Link.CLIENT)
    links.check()
    runtime.handles()[0].kill()
    with pytest.raises(FaultFailed, match="toxiproxy does not answer"):
        links.check()
