"""What tests of several parts share: a real ZooKeeper, and a way to cut a broker off from it.

`zookeeper` starts one server for the whole test session, from the jars that PySpark brings along;
each test gets a chroot of its own (`zookeeper_chroot`). `cuttable_proxy` puts a TCP proxy in
between, which can be cut and healed; `end_session` ends a session that was cut off at once, so that
sessions can be long and none expires only because the machine is busy.
"""

from __future__ import annotations

import contextlib
import gc
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
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from kazoo.client import KazooClient

from tests.workers import (  # hooks
    in_order,
    is_worker,
    pytest_collection_finish,
    pytest_runtest_protocol,
    pytest_xdist_make_scheduler,
)

__all__ = [
    "pytest_collection_finish",
    "pytest_runtest_protocol",
    "pytest_xdist_make_scheduler",
]

# How long an example takes says how busy the machine is, not whether a property holds.
settings.register_profile("biplane", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("unit", settings.get_profile("biplane"), max_examples=20)
"""For the inner loop (`make unit`)."""
settings.load_profile("biplane")

_JVM_FLAGS = (
    *("-Xms64m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    *("-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=1024"),  # as the harness starts it
)
_chroots = itertools.count()


def _hold_free_port() -> socket.socket:
    """Bound to a free port below the ephemeral range, so that no outgoing connection can take it.

    As long as it is open, nobody else who seeks a port gets this one, while a server that sets
    SO_REUSEADDR, as ZooKeeper does, can listen on it.
    """
    ports = list(range(21000, 32768))
    random.SystemRandom().shuffle(ports)  # test sessions that run at once seek ports, too
    for port in ports:
        with contextlib.ExitStack() as kept:
            probe = kept.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))  # without the option: nobody has it
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                kept.pop_all()
                return probe
    raise RuntimeError("no free port below 32768")


def _is_serving(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as probe:
        probe.sendall(b"srvr")
        return probe.recv(4096).startswith(b"Zookeeper version")
    return False


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected is there to the end: nobody need look for garbage in it, then or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # marks are there before -m asks for them
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whoever takes the fixture, directly or through another, is marked: see `make unit`."""
    for item in items:
        for fixture in {"zookeeper", "spark"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(fixture)
    if is_worker(config):
        items[:] = in_order(items)


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """host:port of a real ZooKeeper. Sessions may be as short as 1 s."""
    spec = importlib.util.find_spec("pyspark")
    if shutil.which("java") is None or spec is None or spec.origin is None:
        pytest.skip("needs java and pyspark")
    jars = Path(spec.origin).parent / "jars"
    home = tmp_path_factory.mktemp("zookeeper")
    held = _hold_free_port()
    port = held.getsockname()[1]
    properties = home / "zk.properties"
    properties.write_text(
        f"dataDir={home}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        "maxClientCnxns=0\nadmin.enableServer=false\ntickTime=500\n"
        "minSessionTimeout=1000\nmaxSessionTimeout=60000\n"
        "4lw.commands.whitelist=srvr\n"
    )
    main_class = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    command = ["java", *_JVM_FLAGS, "-cp", f"{jars}/*", main_class, str(properties)]
    with (home / "zookeeper.log").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 120
        while not _is_serving(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((home / "zookeeper.log").read_text()[-2000:])
            time.sleep(0.05)
        held.close()
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
                server = socket.create_connection(self._target, 30)
                server.settimeout(None)
            except OSError:
                client.close()
                continue
            with self._lock:
                refused = self._is_cut  # it may have been cut while the server was dialled
                self._sockets |= set() if refused else {client, server}
            if refused:
                client.close()
                server.close()
                continue
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


@pytest.fixture
def end_session(zookeeper: str) -> Callable[[Any], None]:
    """Ends the session of a `KafkaZkClient` that is cut off, as ZooKeeper does when it expires: the
    client hears of it when it is back. (Whoever knows a session's password can take the session
    over, and close it.)"""

    def end(client: Any) -> None:
        cut_off = client._session._client
        client_id = (cut_off._session_id, cut_off._session_passwd)
        successor = KazooClient(zookeeper, timeout=30, client_id=client_id)
        successor.start(60)
        assert successor.client_id[0] == client_id[0], "the session was over already"
        successor.stop()
        successor.close()

    return end


@pytest.fixture(scope="session")
def wait_until() -> Callable[..., None]:
    """Wait for a condition; fail when it does not come true in time. What the condition looks up
    may be missing at first."""

    def wait(condition: Callable[[], object], timeout_s: float = 90.0) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            missing: LookupError | None = None
            try:
                if condition():
                    return
            except LookupError as error:
                missing = error
            if time.monotonic() > deadline:
                pytest.fail(f"not within {timeout_s} s: {condition} {missing or ''}")
            time.sleep(0.005)

    return wait
