"""The ``server.properties`` that every broker in ZooKeeper mode shares.

Listener names: CLIENT, REPLICATION and, with dual planes, CONTROLLER. Values other than Kafka's
defaults are here because runs are short and machines small; a scenario's overrides win over all of
them, an empty override removes a config.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from faults.protocol import Link
from harness.runtime.protocol import Address
from harness.sut.protocol import NodeLayout, Planes

LISTENER_NAMES: Final[Mapping[Link, str]] = {
    Link.CONTROL: "CONTROLLER",
    Link.INTER_BROKER: "REPLICATION",
    Link.CLIENT: "CLIENT",
}

LAG_MAX_MS: Final = 30_000
FIRST_LOOK_MS: Final = 1_000
"""How soon a broker that began looks after its logs, where it can be told (Kafka since 3.8)."""
"""Kafka's default since 2.5 (KIP-537), in every release."""


def broker_properties(layout: NodeLayout, planes: Planes) -> dict[str, str]:
    """Configs for one node, before the system's own additions and the overrides."""
    links = [link for link in LISTENER_NAMES if link in layout.bind]
    config = {
        "broker.id": str(layout.node),
        "listeners": listener_list({link: layout.bind[link] for link in links}),
        "advertised.listeners": listener_list({link: layout.advertised[link] for link in links}),
        "listener.security.protocol.map": ",".join(
            f"{LISTENER_NAMES[link]}:PLAINTEXT" for link in links
        ),
        "inter.broker.listener.name": LISTENER_NAMES[Link.INTER_BROKER],
        "zookeeper.connect": layout.zookeeper,
        "zookeeper.session.timeout.ms": str(layout.session_timeout_ms),
        "log.dirs": str(layout.dir / "data"),
        # Only what a run asks for may exist or move, or a change has no cause in the history.
        "auto.create.topics.enable": "false",
        "auto.leader.rebalance.enable": "false",
        "replica.lag.time.max.ms": str(LAG_MAX_MS),
        "num.network.threads": "2",
        "num.io.threads": "4",
        "offsets.topic.num.partitions": "3",
        "offsets.topic.replication.factor": str(min(3, len(layout.nodes))),
        "log.index.size.max.bytes": "1048576",  # preallocated, twice a segment
        # By default nobody looks after logs while a run lasts.
        "log.initial.task.delay.ms": str(FIRST_LOOK_MS),
        "log.retention.check.interval.ms": "1000",
        "log.cleaner.backoff.ms": "1000",
        "log.cleaner.min.cleanable.ratio": "0.01",
        "offsets.topic.segment.bytes": "16384",
    }
    if planes is Planes.DUAL:
        config["control.plane.listener.name"] = LISTENER_NAMES[Link.CONTROL]
    return config


def render(config: Mapping[str, str], overrides: Mapping[str, str]) -> str:
    """The file's text."""
    merged = {**config, **overrides}
    return "".join(f"{name}={value}\n" for name, value in merged.items() if value != "")


def listener_list(addresses: Mapping[Link, Address]) -> str:
    """As ``listeners`` and ``advertised.listeners`` are written."""
    return ",".join(f"{LISTENER_NAMES[link]}://{at}" for link, at in addresses.items())
