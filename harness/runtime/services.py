"""The two services that every cluster stands on, as specs: ZooKeeper and toxiproxy.

Shared by the runtimes: what differs between them (class path, binary, addresses) is an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.runtime.protocol import ProcessSpec, Ready, Role

TICK_TIME_MS = 500
MIN_SESSION_TIMEOUT_MS = 1000
MAX_SESSION_TIMEOUT_MS = 60_000


def zookeeper_spec(
    *,
    name: str,
    workdir: Path,
    java: str,
    class_path: str,
    bind_host: str,
    client_port: int,
    mounts: Sequence[Path] = (),
) -> ProcessSpec:
    """A standalone ZooKeeper, tuned for runs of minutes.

    A short tick, because sessions expire in steps of it and runs wait for expiries. No fsync: the
    machine is not what crashes, and a log device shared with flooded brokers would make the
    controller's latency a measurement of the disk. The log is still written out before each reply.
    """
    data = workdir / "data"
    config = {
        "dataDir": str(data),
        "clientPort": str(client_port),
        "clientPortAddress": bind_host,
        "maxClientCnxns": "0",
        "admin.enableServer": "false",  # it would listen on 8080
        "tickTime": str(TICK_TIME_MS),
        "minSessionTimeout": str(MIN_SESSION_TIMEOUT_MS),
        "maxSessionTimeout": str(MAX_SESSION_TIMEOUT_MS),
        "4lw.commands.whitelist": "ruok,envi,srvr,stat,mntr,cons",
    }
    return ProcessSpec(
        name=name,
        role=Role.ZOOKEEPER,
        argv=(
            java,
            *("-Xms64m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=1024"),
            *("-cp", class_path),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(workdir / "zookeeper.properties"),
        ),
        workdir=workdir,
        files={"zookeeper.properties": "".join(f"{k}={v}\n" for k, v in config.items())},
        ports={"client": client_port},
        # A kazoo client that came before the server answered once hung for 10 s: ask first.
        ready=Ready(four_letter_word="srvr", timeout_s=60.0),
        mounts=tuple(mounts),
    )


def toxiproxy_spec(
    *, name: str, workdir: Path, binary: str, bind_host: str, api_port: int
) -> ProcessSpec:
    """A toxiproxy server; its proxies are made over its API (harness/links.py)."""
    return ProcessSpec(
        name=name,
        role=Role.TOXIPROXY,
        argv=(binary, "-host", bind_host, "-port", str(api_port)),
        workdir=workdir,
        ports={"api": api_port},
        ready=Ready(ports=("api",), timeout_s=60.0),
    )
