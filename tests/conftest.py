"""What tests of several parts share: a real ZooKeeper, and a way to cut a broker off from it.

`zookeeper` starts one server for the whole test session, from the jars that PySpark brings along;
each test gets a chroot of its own (`zookeeper_chroot`). `cuttable_proxy` puts a TCP proxy in
between, which can be cut and healed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import random
import selectors
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_JVM_FLAGS = ("-Xms64m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_chroots = itertools.count()


def _free_port() -> int:
    """A free port below the ephemeral range, so that no outgoing connection can take it."""
    ports = list(range(21000, 32768))
    random.SystemRandom().shuffle(ports)  # test sessions that run at once seek ports, too
    for port in ports:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no free port below 32768")


def _is_serving(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as probe:
        probe.sendall(b"srvr")
        return probe.recv(4096).startswith(b"Zookeeper version")
    return False


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """host:port of a real ZooKeeper. Sessions may be as short as 1 s."""
    spec = importlib.util.find_spec("pyspark")
    if shutil.which("java") is None or spec is None or spec.origin is None:
        pytest.skip("needs java and pyspark")
    jars = Path(spec.origin).parent / "jars"
    home = tmp_path_factory.mktemp("zookeeper")
    port = _free_port()
    properties = home / "zk.properties"
    properties.write_text(
        f"dataDir={home}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        "maxClientCnxns=0\nadmin.enableServer=false\ntickTime=500\nminSessionTimeout=1000\n"
        "4lw.commands.whitelist=srvr\n"
    )
    main_class = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    command = ["java", *_JVM_FLAGS, "-cp", f"{jars}/*", main_class, str(properties)]
    with (home / "zookeeper.log").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 60
        while not _is_serving(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((home / "zookeeper.log").read_text()[-2000:])
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def zookeeper_chroot() -> str:
    """A chroot that no other test uses, to be appended to a host:port."""
    return f"/test-{next(_chroots)}"


class CuttableProxy:
    """Forwards TCP to a target until `cut`; `heal` forwards new connections again."""

    def __init__(self, target: str) -> None:
        host, _, port = target.partition(":")
        self._target = (host, int(port))
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._is_cut = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            sockets, self._sockets = self._sockets, set()
        for open_socket in sockets:
            with contextlib.suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)

    def heal(self) -> None:
        with self._lock:
            self._is_cut = False

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                refused = self._is_cut
            if refused:
                client.close()
                continue
            try:
                server = socket.create_connection(self._target, 5)
            except OSError:
                client.close()
                continue
            with self._lock:
                self._sockets |= {client, server}
            threading.Thread(target=self._forward, args=(client, server), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        peers = {client: server, server: client}
        with selectors.DefaultSelector() as selector, client, server:
            for end in peers:
                selector.register(end, selectors.EVENT_READ)
            with contextlib.suppress(OSError):
                while True:
                    for key, _ in selector.select():
                        source = key.fileobj
                        assert isinstance(source, socket.socket)
                        data = source.recv(65536)
                        if not data:
                            return
                        peers[source].sendall(data)


@pytest.fixture
def cuttable_proxy(zookeeper: str) -> Iterator[CuttableProxy]:
    """A proxy in front of ZooKeeper."""
    proxy = CuttableProxy(zookeeper)
    yield proxy
    proxy.close()


@pytest.fixture(scope="session")
def wait_until() -> Callable[..., None]:
    """Wait for a condition; fail when it does not come true in time."""

    def wait(condition: Callable[[], object], timeout_s: float = 30.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                pytest.fail(f"not within {timeout_s} s: {condition}")
            time.sleep(0.005)

    return wait
